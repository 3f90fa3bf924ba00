"""What may be passed as rows, and the short line for what may not."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hashlearn import LSH
from hashlearn.rows import as_rows

X = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)


@pytest.mark.parametrize(
    "same",
    [X.tolist(), tuple(map(tuple, X)), pd.DataFrame(X), scipy.sparse.csc_array(X), scipy.sparse.coo_matrix(X), X[::1]],
)
def test_what_holds_the_same_rows(same):
    np.testing.assert_allclose(as_rows(same).take(np.arange(50)), X, rtol=1e-6)
    hasher = LSH(n_bits=8, random_state=0)
    np.testing.assert_array_equal(hasher.fit(same).transform(same), hasher.fit(X).transform(X))


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (["hello world"], "got the text 'hello world'; pass its embedding"),
        ("hello world", "got the text 'hello world'; pass its embedding"),
        (["a text that is much longer than an error should be"], r"got the text 'a text .{20,40}\.\.\.'"),
        (X[0], r"one vector of length 6. Reshape your data: pass X\[None\] or X.reshape\(1, -1\)"),
        (X[0].tolist(), "one vector of length 6"),
        (tuple(X[0]), "one vector of length 6"),
        (X[None], r"shape \(n, n_features\), got \(1, 50, 6\)"),
        ((row for row in X), "a function that returns a fresh iterator"),
        (iter(X), "a function that returns a fresh iterator"),
        (None, "got NoneType"),
        (3.5, "got float"),
        ({"a": 1}, "got dict"),
        ({1, 2}, "got set"),
        (b"bytes", "got bytes"),
        (X.astype(complex), "real numbers, got complex128"),
        (X.astype(str), "numbers, got <U"),
        (np.zeros((3, 6), "M8[s]"), "numbers, got datetime64"),
        (np.ma.masked_less(X, 0), "X must not be masked"),
    ],
)
def test_what_holds_no_rows(wrong, line):
    fitted = LSH(n_bits=8, random_state=0).fit(X)
    for refuse in (as_rows, LSH(n_bits=8).fit, fitted.transform, fitted.decision_function):
        with pytest.raises((ValueError, TypeError), match=line) as caught:
            refuse(wrong)
        assert len(str(caught.value)) < 150
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(np.longdouble().itemsize == 8, reason="it is float64 there")
def test_long_double():
    with pytest.raises(ValueError, match="float64 or smaller, got float128; convert with"):
        LSH(n_bits=8).fit(X.astype(np.longdouble))


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError, match=r"^missing\.npy: no such file$"):
        LSH().fit("missing.npy")


def test_no_rows_give_no_codes(tmp_path):
    fitted = LSH(n_bits=12, random_state=0).fit(X)
    for none in (X[:0], scipy.sparse.csr_array(X[:0]), lambda: [X[:0]]):
        assert fitted.transform(none).shape == (0, 2)
        assert fitted.decision_function(none).shape == (0, 12)
