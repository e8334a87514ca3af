"""Benchmarks are run by hand; here only that each of them still finds what it imports."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module(f"benchmarks.{name}")
    assert f"benchmarks.{name}" in sys.modules
