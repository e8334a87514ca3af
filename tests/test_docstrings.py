"""Every argument of a function, and every field of a record, that is listed in part is listed in full."""

import ast
import importlib
import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import jointplda

SOURCE = Path(jointplda.__file__).parent
HEADING = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", flags=re.DOTALL | re.MULTILINE)
ROOMS = ("calibration", "cluster", "datasets", "evaluation", "formats", "metrics", "preprocessing", "report")


def listed(docstring, section):
    """Names in a section of a docstring in NumPy's style."""
    found = [text for name, text in HEADING.findall(inspect.cleandoc(docstring) + "\n") if name == section]
    if not found:
        return None
    entries = [line.split(" : ")[0] for line in found[0].splitlines() if line and not line.startswith(" ")]
    return {name.strip().lstrip("*") for entry in entries for name in entry.split(",")}


def definitions():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                yield pytest.param(node, id=f"{path.relative_to(SOURCE)}:{node.name}")


def arguments(node):
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    extra = [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
    return {one.arg for one in (*every, *extra)} - {"self", "cls"}


@pytest.mark.parametrize("node", definitions())
def test_a_list_of_arguments_or_fields_is_complete(node):
    docstring = ast.get_docstring(node)
    said = set(re.findall(r"``(\w+)``", docstring))
    if isinstance(node, ast.FunctionDef):
        names = listed(docstring, "Parameters")
        if names is not None:
            assert names - arguments(node) == set()
            assert "other parameters are as in" in docstring or arguments(node) - names - said == set()
        return
    fields_here = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    record = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    names = listed(docstring, "Attributes")
    if record and names is not None:
        public = {one.target.id for one in fields_here if not one.target.id.startswith("_")}
        assert public - names - said == set()
    made = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    names = listed(docstring, "Parameters")
    if made is not None and names is not None:
        assert names - arguments(made) == set()
        assert arguments(made) - names - said == set()


def exported():
    for name in jointplda.__all__:
        yield pytest.param(getattr(jointplda, name), id=name)
    for room in ROOMS:
        module = importlib.import_module(f"jointplda.{room}")
        for name in getattr(module, "__all__", ()):
            yield pytest.param(getattr(module, name), id=f"{room}.{name}")


@pytest.mark.parametrize("thing", exported())
def test_what_is_exported_names_every_argument_and_field(thing):
    if is_dataclass(thing):
        names = {field.name for field in fields(thing) if not field.name.startswith("_")}
    elif inspect.isfunction(thing):
        names = set(inspect.signature(thing).parameters)
    else:
        return
    words = {"path", *re.findall(r"\w+", thing.__doc__)}
    assert names - words == set()
