"""One look at the data gives the hashers that a fit for every length gives."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from hashlearn import AGH, ITQ, JPSH, JSH, PSH, SAH
from hashlearn.hashers import fit_lengths
from hashlearn.rows import RowBlocks

X = load_digits().data[:900]


@pytest.mark.parametrize("method", [AGH, JPSH, JSH, PSH, SAH, ITQ])
def test_each_hasher_is_the_one_of_its_own_fit(method):
    settings = {} if method is ITQ else {"n_anchors": 60}
    for hasher, n_bits in zip(fit_lengths(method(random_state=3, **settings), X, (12, 4, 8)), (12, 4, 8)):
        alone = method(n_bits=n_bits, random_state=3, **settings).fit(X)
        assert hasher.n_bits == n_bits
        np.testing.assert_array_equal(hasher.transform(X), alone.transform(X))


def test_the_data_are_read_as_often_as_for_one_length(monkeypatch):
    passes = []
    stored = RowBlocks.as_stored

    def counted(rows):
        if rows.shape == X.shape:
            passes.append(rows)
        return stored(rows)

    monkeypatch.setattr(RowBlocks, "as_stored", counted)
    JPSH(n_bits=8, n_anchors=60, random_state=0).fit(X)
    alone = len(passes)
    fit_lengths(JPSH(n_anchors=60, random_state=0), X, (4, 8, 16))
    assert len(passes) == 2 * alone
    assert alone >= 4


def test_it_leaves_the_hasher_as_it_is_and_keeps_names():
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(X.shape[1])])
    hasher = JPSH(n_bits=99, n_anchors=60)
    short, long = fit_lengths(hasher, frame, [4, 8])
    assert hasher.n_bits == 99
    assert not hasattr(hasher, "mean_")
    assert list(short.feature_names_in_) == list(long.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize(("bits", "error", "line"), [((), ValueError, "bits"), ((8, 0), ValueError, "n_bits")])
def test_lengths_that_are_none(bits, error, line):
    with pytest.raises(error, match=line):
        fit_lengths(JPSH(), X, bits)
