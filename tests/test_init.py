"""The package itself: light to import, complete to use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hashlearn

HEAVY = ("sklearn", "scipy", "numba", "matplotlib", "safetensors")


def modules_after(statement):
    """Names of the modules loaded by a fresh interpreter that runs ``statement``."""
    code = f"import sys; {statement}; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_import_does_not_wait_for_scikit_learn():
    assert not {name.partition(".")[0] for name in modules_after("import hashlearn")} & set(HEAVY)


def test_a_name_brings_its_room_when_it_is_asked_for():
    assert "sklearn" in modules_after("from hashlearn import ITQ")


@pytest.mark.parametrize("name", hashlearn.__all__)
def test_every_public_name_is_there(name):
    assert getattr(hashlearn, name) is not None
    assert name in dir(hashlearn)


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(hashlearn.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(hashlearn.__all__) - {"__version__"} <= imported


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'JPSHH'"):
        hashlearn.JPSHH  # noqa: B018
