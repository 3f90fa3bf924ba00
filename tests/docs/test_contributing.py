"""The method that CONTRIBUTING.md shows as an example is a hasher that works."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import LSH, Hasher

GUIDE = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
X = load_digits().data


@pytest.fixture
def Mine():
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "class Mine" in block)
    names = {"__name__": "mine"}
    exec(code, names)
    return names["Mine"]


def test_the_example_is_a_hasher(Mine):
    assert issubclass(Mine, Hasher)
    hasher = Mine(n_bits=16, random_state=0).fit(X)
    np.testing.assert_array_equal(hasher.transform(X), LSH(n_bits=16, random_state=0).fit(X).transform(X))


def test_the_example_checks_its_parameters(Mine):
    with pytest.raises(ValueError, match="alpha"):
        Mine(alpha=-1).fit(X)


def test_files_that_the_guide_names_are_there():
    root = Path(__file__).resolve().parents[2]
    for path in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.]+)`", GUIDE):
        if "mine" not in path.lower() and not path.startswith("docs/_build"):
            assert (root / path).exists(), path
