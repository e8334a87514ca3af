"""Imports go one way, and heavy ones stay off the path of ``import jointplda``."""

import subprocess
import sys
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent


def test_layers():
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


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
