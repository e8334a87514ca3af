"""Imports go one way, modules have names of their own, and heavy imports stay off the path of ``import jointplda``."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "src" / "jointplda").rglob("*.py"))


def test_layers():
    """In a process of its own, since the linter turns off the loggers that are there."""
    code = (
        f"from importlinter.cli import lint_imports; raise SystemExit(lint_imports({str(ROOT / 'pyproject.toml')!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_no_two_modules_share_a_name():
    folders = [path.name for path in (ROOT / "src" / "jointplda").rglob("*") if path.is_dir() and path.name[0] != "_"]
    names = Counter([path.stem for path in MODULES if not path.stem.startswith("__")] + folders)
    assert [name for name, count in names.items() if count > 1] == []


def imports_of(path, *, deferred):
    """Names of modules that a file imports from this package: at its top, or inside functions."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (id(node) not in top) == deferred]
    return {part for node in nodes for part in (node.module, *(f"{node.module}.{name.name}" for name in node.names))}


def test_no_command_imports_another():
    commands = {f"jointplda.commands.{path.stem}": path for path in MODULES if path.parent.name == "commands"}
    imported = {
        name: (imports_of(path, deferred=False) | imports_of(path, deferred=True)) & set(commands)
        for name, path in commands.items()
    }
    ends = ("_command", "_run")
    for name in commands:
        reached, found = {name}, imported[name]
        while not found <= reached:
            reached |= found
            found = set().union(*(imported[each] for each in found))
        parts = {each.rpartition(".")[2] for each in reached}
        assert len({part.removesuffix(end) for part in parts for end in ends if part.endswith(end)}) <= 1, name


def test_only_the_options_of_a_command_import_late():
    for path in MODULES:
        if path.parent.name == "commands" and not path.stem.endswith("_command"):
            assert imports_of(path, deferred=True) == set(), path.name


def test_files_and_classes_are_short():
    assert [path.name for path in MODULES if len(path.read_text().splitlines()) > 400] == []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert sum(isinstance(part, ast.FunctionDef) for part in node.body) <= 35, f"{path.name}, {node.name}"


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, jointplda; print([m for m in ('numpy', 'scipy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import jointplda

    for name in jointplda.__all__:
        assert getattr(jointplda, name).__doc__
    assert set(jointplda.__all__) == set(jointplda._HOME)
    assert set(jointplda.__all__) < set(dir(jointplda))


def test_warnings_point_at_the_line_of_the_user(tmp_path):
    """Also if the user's own folders are called like the libraries whose frames are passed over."""
    folder = tmp_path / "sklearn" / "joblib" / "jointplda"
    folder.mkdir(parents=True)
    script = folder / "mine.py"
    script.write_text(
        "import warnings\n"
        "import numpy as np\n"
        "from jointplda import JointPLDA, make_pipeline\n"
        "from jointplda.preprocessing import Center\n"
        "X, s = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 8\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    make_pipeline(Center(), JointPLDA(speaker_rank=2, tol=1e-2)).fit(X, s)\n"
        "print([(w.filename, w.lineno) for w in caught])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([(str(script), 8)])
