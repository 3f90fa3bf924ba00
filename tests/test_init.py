"""The package itself: light to import, complete to use."""

import subprocess
import sys

import pytest

import hashlearn

HEAVY = ("sklearn", "scipy", "numba", "matplotlib", "safetensors")
NUMBERS = (*HEAVY, "numpy", "pandas")


def modules_after(statement):
    """Names of the modules loaded by a fresh interpreter that runs ``statement``."""
    code = f"import sys; {statement}; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_import_does_not_wait_for_scikit_learn():
    assert not {name.partition(".")[0] for name in modules_after("import hashlearn")} & set(HEAVY)


def test_the_help_of_the_command_line_does_not_wait_for_numpy():
    assert not {name.partition(".")[0] for name in modules_after("import hashlearn.cli")} & set(NUMBERS)


def test_a_name_brings_its_room_and_not_what_few_searches_need():
    loaded = modules_after("from hashlearn import ITQ, SimilaritySearch")
    assert "sklearn" in loaded
    assert not {"sklearn.pipeline", "sklearn.feature_extraction", "scipy.io", "scipy.signal"} & set(loaded)


@pytest.mark.parametrize("name", hashlearn.__all__)
def test_every_public_name_is_there(name):
    assert getattr(hashlearn, name) is not None
    assert name in dir(hashlearn)


def test_every_method_of_the_registry_is_a_public_name():
    assert {method.__name__ for method in hashlearn.METHODS.values()} <= set(hashlearn.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="JPSHH"):
        hashlearn.JPSHH  # noqa: B018
