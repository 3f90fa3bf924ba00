"""A fit that fails leaves the hasher as it was, and what was not fitted is not saved over what was."""

import numpy as np
import pytest
from faults.savings import X, listing
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hashlearn import ITQ, METHODS, load, save

BAD = np.where(np.arange(len(X))[:, None] == len(X) - 1, np.nan, X)
"""The last row is found late: a fit may have gone over the others."""


@pytest.mark.parametrize("name", METHODS)
def test_a_failed_fit_changes_nothing(name, tmp_path):
    hasher = METHODS[name](n_bits=8, random_state=0).fit(X)
    hasher.save(tmp_path / "model")
    codes, learned = hasher.transform(X), sorted(vars(hasher))
    with pytest.raises(ValueError, match="NaN"):
        hasher.fit(BAD)
    assert sorted(vars(hasher)) == learned
    np.testing.assert_array_equal(hasher.transform(X), codes)


@pytest.mark.parametrize("name", METHODS)
def test_a_hasher_whose_first_fit_failed_is_not_saved(name, tmp_path):
    METHODS[name](n_bits=8, random_state=0).fit(X).save(tmp_path / "model")
    before, codes = listing(tmp_path), load(tmp_path / "model").transform(X)
    hasher = METHODS[name](n_bits=8, random_state=0)
    with pytest.raises(ValueError, match="NaN"):
        hasher.fit(BAD)
    with pytest.raises(NotFittedError):
        hasher.save(tmp_path / "model")
    assert listing(tmp_path) == before
    np.testing.assert_array_equal(load(tmp_path / "model").transform(X), codes)


def test_a_pipeline_whose_fit_failed_is_not_saved(tmp_path):
    pipeline = make_pipeline(Normalizer(), ITQ(n_bits=4))
    with pytest.raises(ValueError, match="NaN"):
        pipeline.fit(BAD)
    with pytest.raises(NotFittedError):
        save(pipeline, tmp_path / "model")
    assert listing(tmp_path) == []
