"""What may be passed as rows, and the short line for what may not."""

from decimal import Decimal

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from hashlearn import LSH
from hashlearn.rows import as_rows, as_vectors

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
        ("hello world", "pass its embedding; with an encoder, text= or texts="),
        (pd.Series(["hello world"]), "got a list of texts; pass its embedding; with an encoder, text= or texts="),
        (["a text that is much longer than an error should be"], r"got the text 'a text .{20,40}\.\.\.'"),
        (X[0], r"one vector of length 6. Reshape your data: pass X\[None\] or \[X\]"),
        (X[0].tolist(), "one vector of length 6"),
        (tuple(X[0]), "one vector of length 6"),
        (X[None], r"shape \(n, n_features\), got \(1, 50, 6\)"),
        ((row for row in X), "a function that returns a fresh iterator"),
        (iter(X), r"a fresh iterator for every pass, got an iterator; pass list\(X\)"),
        (None, "got NoneType"),
        (3.5, "got float"),
        ({"a": 1}, r"got dict; pass its vectors, such as X\['a'\]"),
        ({1, 2}, "got set"),
        (b"bytes", "got bytes"),
        (X.astype(complex), "real numbers, got complex128"),
        (X.astype(str), r"numbers, got <U32; convert with X.astype\(float\)"),
        (np.array([["a", "b"]], object), "X must be numbers: could not convert string to float: 'a'"),
        (np.array([[{}, 1]], object), "X must be numbers: float.. argument must be a string or a real number"),
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


class Nothing:
    """It holds no vectors."""


class Sparse:
    """What sparse tensors of torch do."""

    def detach(self):
        return self

    cpu = float = detach

    def numpy(self):
        raise TypeError("Use to_dense\nand more")


class Blocks:
    """A loader of batches: fresh ones for every pass."""

    def __iter__(self):
        return iter([X[:3], X[3:]])


def test_a_function_around_a_loader_of_batches():
    loader = Blocks()
    np.testing.assert_array_equal(as_rows(lambda: iter(loader)).take(np.arange(len(X))), X)


class OnGpu:
    """What arrays of a GPU do."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("use get")


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (pd.Series([X[0], X[1][:3]]), "X must hold vectors of one length, got lengths from 3 to 6"),
        (pd.Series([X[0], None]), "X has missing vectors: row 1 has none"),
        ([[1, 2], [3]], "X must hold vectors of one length, got lengths from 1 to 2"),
        (pa.array([[1.0, 2.0], None]), "X has missing vectors"),
        (pa.array([[1.0, 2.0], [1.0]]), "X has vectors of different lengths, 1 to 2"),
        (pa.array([[1.0, None]]), "X has missing values"),
        (pl.Series([[1.0, 2.0], None]), "X has missing vectors: row 1 has none"),
        (pl.Series([[1.0, 2.0], [1.0]]), "X has vectors of different lengths, 1 to 2"),
        (pd.DataFrame({"a": [X[0]], "b": [X[0]]}), r"several columns of vectors, 'a', 'b'; pass one of them: X\['a'\]"),
        (pd.DataFrame({"a": [1.0], "text": ["b"]}), "column 'text' has neither; pass the columns of the vectors alone"),
        (pl.DataFrame({"a": [1.0], "text": ["b"]}), "column 'text' has neither"),
        (pa.table({"a": [1.0], "text": ["b"]}), "column 'text' has neither"),
        (pl.LazyFrame({"a": [1.0]}), r"got a LazyFrame; pass X.collect\(\)"),
        (Nothing(), r"a column of vectors, got Nothing; pass np.asarray\(X\)"),
        ([], "got no vectors, and so no number of features"),
        (pd.Series([], dtype=object), "got no vectors, and so no number of features"),
        (np.zeros(3, [("a", float)]), "got records; numpy's structured_to_unstructured"),
        (pd.Series(["[0.5, 1]"]), r"got a list of texts; pass \[json.loads\(text\) for text in X\]"),
        (pa.array([["a", "b"]]), "X must be numbers: could not convert string to float: 'a'"),
        (pa.array([[[1.0, 2.0]]]), "X must be vectors of numbers, got a vector of ndarray"),
        (pa.array([[1.0, 2.0]] * 7 + [None]), "X has missing vectors: row 7 has none"),
        (pl.col("a"), "X must hold vectors, got Expr, which has no values"),
        ({"a": X[0], "b": X[1]}, r"got dict; pass list\(X.values\(\)\), and ids=list\(X\)"),
        ({"id": ["a"], "embedding": [[1.0, 2.0]]}, r"got dict; pass its vectors, such as X\['embedding'\]"),
        ({"id": ["a"], "embedding": X[:1]}, r"got dict; pass its vectors, such as X\['embedding'\]"),
        ([X[0].tobytes()], r"got bytes; pass \[np.frombuffer\(each, np.float32\) for each in X\]"),
        (pa.array([X[0].tobytes()]), "got bytes; pass "),
        (Sparse(), "X cannot be read as an array of numpy: Use to_dense"),
        (Blocks(), r"got Blocks; pass lambda: iter\(X\) if it gives blocks of rows"),
        (OnGpu(), "X cannot be read as an array of numpy: use get"),
        (
            datasets.Dataset.from_dict({"e": [[1.0]]}).to_iterable_dataset(),
            "got IterableDataset; pass a function that returns blocks of them, such as lambda: ",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_tables_and_columns_that_hold_no_rows(wrong, line):
    for refuse in (as_rows, as_vectors, LSH(n_bits=2).fit):
        with pytest.raises((ValueError, TypeError), match=line) as caught:
            refuse(wrong)
        assert len(str(caught.value)) < 180
        assert "\n" not in str(caught.value)


class TestOneColumn:
    frame = pd.DataFrame({"a": list(X), "b": list(X[::-1]), "c": range(len(X))})

    @pytest.mark.parametrize("table", [frame, pl.DataFrame({"a": X, "b": X[::-1].copy(), "c": range(len(X))})])
    def test_of_a_table(self, table):
        np.testing.assert_array_equal(as_vectors(table, "b").rows, X[::-1])
        np.testing.assert_array_equal(as_rows(table, "a").take(np.arange(50)), X)

    def test_of_a_file(self, tmp_path):
        self.frame.to_parquet(tmp_path / "a.parquet")
        for rows in (as_rows(tmp_path / "a.parquet", "b"), as_rows(f"{tmp_path}/a.parquet:b")):
            np.testing.assert_array_equal(rows.take(np.arange(50)), X[::-1])

    def test_that_is_not_there(self):
        with pytest.raises(ValueError, match="X has no column 'd'; it has a, b, c"):
            as_vectors(self.frame, "d")
        with pytest.raises(TypeError, match="column names a column of a table, and X is no table, but ndarray"):
            as_vectors(X, "d")


def test_a_reader_of_pyarrow_is_read_once():
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    reader = pa.table({"embedding": pa.chunked_array([vectors[:20], vectors[20:]])}).to_reader()
    np.testing.assert_array_equal(as_rows(reader).take(np.arange(50)), X)


def test_a_matrix_of_one_row_is_not_one_vector():
    assert as_vectors(X[0]).was_one_row
    assert as_vectors(pd.Series(X[0])).was_one_row
    assert not as_vectors(X[:1]).was_one_row
    assert not as_vectors([X[0]]).was_one_row
    assert not as_vectors(pd.Series([X[0]])).was_one_row


def test_numbers_are_not_copied_where_numpy_can_view_them():
    """What people hold may be most of their memory."""
    values = pa.array(X.ravel())
    lists = pa.FixedSizeListArray.from_arrays(values, 6)
    offsets = pa.array(np.arange(0, 301, 6, dtype=np.int32))
    for form in (
        lists,
        lists[3:],
        pa.ListArray.from_arrays(offsets, values),
        pa.chunked_array([lists]),
        pa.table({"v": lists}),
    ):
        assert np.shares_memory(as_vectors(form).rows, values.to_numpy())
    in_pieces = as_rows(pa.chunked_array([lists[:20], lists[20:]]))
    assert np.shares_memory(in_pieces.source[:10], values.to_numpy())
    series = pl.Series(X)
    assert np.shares_memory(as_vectors(series).rows, series.to_numpy())
    assert as_vectors(X).rows is X


def test_names_of_features_are_kept_where_a_frame_has_a_column_for_each():
    named = pd.DataFrame(X, columns=list("abcdef"))
    assert LSH(n_bits=8).fit(named).feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        LSH(n_bits=8, random_state=0).fit(named).transform(named[list("fedcba")])


def test_frames_of_pandas_that_are_unlike_others():
    """Names that come twice, values that are mostly zero, missing values in types of pandas' own."""
    twice = pd.DataFrame(X, columns=list("aabbcc"))
    sparse = pd.DataFrame(np.where(X > 0, X, 0)).astype(pd.SparseDtype(np.float32, 0))
    np.testing.assert_array_equal(as_vectors(twice).rows, X)
    np.testing.assert_array_equal(as_vectors(sparse).rows, np.where(X > 0, X, 0))
    missing = pd.DataFrame(X).astype("Float32")
    missing.iloc[3, 2] = pd.NA
    with pytest.raises(ValueError, match="row 3 has NaN"):
        LSH(n_bits=8).fit(missing)
    with pytest.raises(ValueError, match="row 3 has NaN"):
        as_rows(missing).take(np.arange(50))


def test_numbers_that_are_python_objects():
    """So databases give decimals, and pandas a column of several types of numbers."""
    fitted = LSH(n_bits=8, random_state=0).fit(X)
    decimals = [[Decimal(float(value)) for value in row] for row in X]
    for form in (decimals, np.array(decimals, object), pd.DataFrame(decimals), pd.DataFrame(X).astype(object)):
        np.testing.assert_array_equal(fitted.transform(form), fitted.transform(X.astype(np.float64)))
        np.testing.assert_array_equal(as_vectors(form).rows, X)


def test_columns_of_one_name_are_features_without_names():
    fitted = LSH(n_bits=8, random_state=0).fit(pd.DataFrame(X, columns=list("aabbcc")))
    assert not hasattr(fitted, "feature_names_in_")
    np.testing.assert_array_equal(fitted.transform(X), LSH(n_bits=8, random_state=0).fit_transform(X))


def test_a_frame_without_columns():
    with pytest.raises(ValueError, match="0 feature"):
        LSH(n_bits=8).fit(pd.DataFrame(index=range(3)))
