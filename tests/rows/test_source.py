"""Files and streams are learned from and encoded like the array they hold."""

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from input_forms import VECTORS

from hashlearn import ITQ, JPSH, LSH
from hashlearn.rows import as_rows, blocks
from hashlearn.rows.source import Pieces, Stream

rng = np.random.default_rng(0)
X = rng.normal(size=(700, 6)).astype(np.float32)


def write_npy(path, X):
    np.save(path, X)


def write_fbin(path, X):
    path.write_bytes(np.array(X.shape, "<u4").tobytes() + X.astype("<f4").tobytes())


def write_h5(path, X):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(100, 3))


def write_parquet(path, X):
    pd.DataFrame({"vectors": list(X)}).to_parquet(path)


WRITERS = {"npy": write_npy, "fbin": write_fbin, "h5": write_h5, "parquet": write_parquet}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)  # blocks of 256 rows


@pytest.fixture
def files(tmp_path):
    """The rows of X over one file of each format."""
    bounds = np.linspace(0, len(X), len(WRITERS) + 1).astype(int)
    paths = [tmp_path / f"part.{ending}" for ending in WRITERS]
    for path, write, start, stop in zip(paths, WRITERS.values(), bounds, bounds[1:]):
        write(path, X[start:stop])
    return paths


def in_blocks(of):
    return lambda: (X[start : start + of] for start in range(0, len(X), of))


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_is_its_array(ending, tmp_path):
    path = tmp_path / f"X.{ending}"
    WRITERS[ending](path, X)
    hasher = JPSH(n_bits=8, n_anchors=20, random_state=0)
    codes = hasher.fit(X).transform(X)
    np.testing.assert_array_equal(hasher.fit(path).transform(str(path)), codes)
    np.testing.assert_array_equal(hasher.fit_codes(path), codes)


def test_several_files_are_one(files):
    rows = as_rows(files)
    assert (rows.shape, rows.dtype) == (X.shape, np.float32)
    np.testing.assert_array_equal(np.concatenate([block for _, block in rows]), X)
    some = np.array([650, 3, 200, 3, 699])
    np.testing.assert_array_equal(rows.take(some), X[some])
    wanted = ITQ(n_bits=4, random_state=0).fit(X)
    hasher = ITQ(n_bits=4, random_state=0).fit(files)
    np.testing.assert_array_equal(hasher.transform(files), wanted.transform(X))
    np.testing.assert_array_equal(hasher.decision_function(files), wanted.decision_function(X))


@pytest.mark.parametrize("of", [1, 7, 256, 1000])
def test_a_stream_is_its_rows(of):
    rows = as_rows(in_blocks(of))
    assert rows.shape == X.shape
    np.testing.assert_array_equal(np.concatenate([block for _, block in rows]), X)
    some = np.array([650, 3, 200, 3, 699])
    np.testing.assert_array_equal(rows.take(some), X[some])
    hasher = JPSH(n_bits=8, n_anchors=20, random_state=0)
    codes = hasher.fit(X).transform(X)
    np.testing.assert_array_equal(hasher.fit(in_blocks(of)).transform(in_blocks(of)), codes)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 10**6))
def test_pieces_are_sliced_like_the_whole(lengths, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, 3)) for n in lengths]
    whole, pieces = np.concatenate(parts), Pieces(parts, [str(n) for n in lengths])
    start, stop = sorted(rng.integers(0, len(whole) + 1, 2))
    np.testing.assert_array_equal(pieces[start:stop], whole[start:stop])
    if len(whole):
        some = rng.integers(0, len(whole), 10)
        np.testing.assert_array_equal(pieces[some], whole[some])
        np.testing.assert_array_equal(Stream(lambda: parts)[some], whole[some])


@pytest.mark.parametrize("form", ["pyarrow in pieces", "pandas Series of arrays", "polars List"])
def test_a_stream_of_blocks_in_other_forms(form):
    make = VECTORS[form]
    rows = as_rows(lambda: [make(X[:300]), make(X[300:])])
    np.testing.assert_array_equal(rows.take(np.arange(len(X))), X)


def test_sparse_blocks_are_read_too():
    wanted = LSH(n_bits=8, random_state=0).fit(X)
    hasher = LSH(n_bits=8, random_state=0).fit(
        lambda: [scipy.sparse.csr_array(X[:300]), scipy.sparse.csc_array(X[300:])]
    )
    np.testing.assert_allclose(hasher.mean_, wanted.mean_)


def test_a_memmap_is_not_read_before_the_first_pass(tmp_path):
    bad = X.copy()
    bad[650, 2] = np.nan
    np.save(tmp_path / "X.npy", bad)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows = ITQ(n_bits=4)._rows_to_fit(mapped)
    assert np.shares_memory(rows.source.values, mapped)
    seen = []
    with pytest.raises(ValueError, match="row 650 has NaN"):
        seen.extend(part.stop for part, _ in rows)
    assert seen == [256, 512]


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_the_row_that_is_not_finite_is_named(value, word, tmp_path):
    bad = X.copy()
    bad[650, 2] = value
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", bad)
    line = f"row 650 has {word}"
    hasher = LSH(n_bits=4, random_state=0).fit(X)
    for source in (bad, scipy.sparse.csr_array(bad), lambda: [bad[:600], bad[600:]], tmp_path / "b.npy"):
        with pytest.raises(ValueError, match=line):
            LSH(n_bits=4).fit(source)
        with pytest.raises(ValueError, match=line):
            hasher.transform(source)
    with pytest.raises(ValueError, match=rf"row 1350 has {word} \(row 650 of .*b.npy\)"):
        LSH(n_bits=4).fit([tmp_path / "a.npy", tmp_path / "b.npy"])


def test_large_finite_values_are_no_infinity():
    rows = as_rows(np.full((300, 4), 3e38, np.float32))
    assert sum(len(block) for _, block in rows) == 300


def test_what_cannot_be_one_source(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :5])
    (tmp_path / "empty.npy").touch()
    np.save(tmp_path / "none.npy", X[:0])
    for paths, line in [
        (["a.npy", "b.npy"], r"b.npy has 5 features, .*a.npy has 6"),
        (["a.npy", "empty.npy"], "empty.npy: empty"),
        (["a.npy", "none.npy"], "none.npy: no vectors in it"),
        (["missing.npy"], "missing.npy: no such file"),
    ]:
        with pytest.raises((ValueError, OSError), match=line) as error:
            LSH().fit([tmp_path / path for path in paths])
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([X[:100], X[:100, :4]], "a block of 4 features at row 100, those before have 6"),
        ([], "gave no blocks"),
        ([X[0]], r"blocks of shape \(any, n_features\), got shape \(6,\)"),
        ([X[:1]], "minimum of 2 is required"),
        ([X.astype(str)], "blocks of numbers"),
        ([X[:50], [[1.0], [1.0, 2.0]]], r"a block of X\(\) must hold vectors of one length, got lengths from 1 to 2"),
    ],
)
def test_streams_that_are_none(parts, line):
    with pytest.raises(ValueError, match=line):
        LSH().fit(lambda: parts)


def test_a_stream_that_is_not_given_anew():
    once = iter([X[:300], X[300:]])
    with pytest.raises(ValueError, match="the first time 700"):
        LSH().fit(lambda: once)


def test_the_number_of_features_stays(tmp_path):
    np.save(tmp_path / "b.npy", X[:, :5])
    with pytest.raises(ValueError, match=r"X has 5 features.*expecting 6"):
        LSH().fit(X).transform(tmp_path / "b.npy")
