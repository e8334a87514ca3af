"""Documents that cannot drift: their code runs, and what they name exists."""

import importlib
import os
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
        if path.endswith((".safetensors", ".html")):
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


def test_the_commands_of_the_guide_run(tmp_path):
    """Every shell block of the guide, one after the other, in an empty folder."""
    text = (ROOT / "docs" / "files-to-report.md").read_text()
    script = "set -euo pipefail\n" + "\n".join(re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL))
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Joint PLDA" in done.stdout
    for name in ("report.html", "comparison.html"):
        assert (tmp_path / name).read_text().startswith("<!DOCTYPE html>")


def test_the_command_reference_is_up_to_date(tmp_path):
    script, page = ROOT / "docs" / "make_commands.py", tmp_path / "commands.md"
    subprocess.run([sys.executable, script, page], check=True)
    assert page.read_text() == (ROOT / "docs" / "commands.md").read_text(), "run make docs"


def test_the_bilingual_world_runs():
    script = ROOT / "examples" / "bilingual_world.py"
    done = subprocess.run(
        [sys.executable, script, "--speakers", "60", "--languages", "6"], capture_output=True, text=True, check=True
    )
    for line in ("Log-likelihood of the training data", "Joint PLDA", "Angles between", "Relative error"):
        assert line in done.stdout
    assert "Error" not in done.stderr
