"""Documents that cannot drift: their code runs, and what they name exists."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jointplda

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=lambda p: p.name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
    exec(compile(code, page.name, "exec"), {})


def test_every_export_is_in_the_reference():
    text = (ROOT / "docs" / "reference.md").read_text()
    assert [name for name in jointplda.__all__ if f"`{name}`" not in text] == []
    for cls in (jointplda.JointPLDA, jointplda.PLDA):
        assert [name for name in cls().get_params() if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_function_named_exists(page):
    for path in set(re.findall(r"\bjointplda(?:\.[A-Za-z_]\w*)+", page.read_text())):
        if path.endswith(".safetensors"):
            continue
        parts = path.split(".")
        for size in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:size]))
                break
            except ModuleNotFoundError:
                continue
        for name in parts[size:]:
            found = getattr(found, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_demo_runs():
    script = ROOT / "examples" / "bilingual_world.py"
    done = subprocess.run(
        [sys.executable, script, "--speakers", "60", "--languages", "6"], capture_output=True, text=True, check=True
    )
    for line in ("Log-likelihood of the training data", "Joint PLDA", "Angles between", "Relative error"):
        assert line in done.stdout
    assert "Error" not in done.stderr
