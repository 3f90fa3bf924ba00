"""Every format gives back the vectors that were written, and one line for a file that is damaged."""

import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.rows.formats import array_names, read_array, read_vectors

X = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
BYTES = np.random.default_rng(1).integers(0, 256, (7, 5)).astype(np.uint8)


def write_vecs(path, vectors, dtype):
    with path.open("wb") as file:
        for vector in vectors:
            file.write(np.int32(len(vector)).tobytes() + np.asarray(vector, dtype).tobytes())


def write_bin(path, vectors):
    path.write_bytes(np.array(vectors.shape, "<u4").tobytes() + vectors.tobytes())


def write_hdf5(path, **arrays):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def write_mat73(path, **arrays):
    """HDF5 behind a block of 512 bytes that says MATLAB, matrices transposed."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = values.T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_parquet(path, columns):
    table = pytest.importorskip("pyarrow").table(columns)
    pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=3)


def mapped(values):
    while values is not None and not isinstance(values, np.memmap):
        values = values.base
    return values is not None


class TestRoundTrip:
    def test_npy_is_mapped(self, tmp_path):
        np.save(tmp_path / "a.npy", X)
        got = read_vectors(tmp_path / "a.npy")
        np.testing.assert_array_equal(got, X)
        assert mapped(got)

    @pytest.mark.parametrize(
        ("suffix", "vectors"), [("fvecs", X), ("bvecs", BYTES), ("ivecs", BYTES.astype(np.int32) - 100)]
    )
    def test_vecs_are_mapped(self, tmp_path, suffix, vectors):
        write_vecs(tmp_path / f"a.{suffix}", vectors, vectors.dtype)
        got = read_vectors(tmp_path / f"a.{suffix}")
        np.testing.assert_array_equal(got, vectors)
        assert got.dtype == vectors.dtype
        assert mapped(got)

    @pytest.mark.parametrize(("suffix", "vectors"), [("fbin", X), ("u8bin", BYTES), ("i8bin", BYTES.view(np.int8))])
    def test_bin_is_mapped(self, tmp_path, suffix, vectors):
        write_bin(tmp_path / f"a.{suffix}", vectors)
        got = read_vectors(tmp_path / f"a.{suffix}")
        np.testing.assert_array_equal(got, vectors)
        assert got.dtype == vectors.dtype
        assert mapped(got)

    def test_npz_takes_the_only_array_the_usual_one_or_the_one_named(self, tmp_path):
        np.savez(tmp_path / "one.npz", anything=X)
        np.savez(tmp_path / "two.npz", X=X, other=BYTES)
        np.testing.assert_array_equal(read_vectors(tmp_path / "one.npz"), X)
        np.testing.assert_array_equal(read_vectors(tmp_path / "two.npz"), X)
        np.testing.assert_array_equal(read_vectors(tmp_path / "two.npz", "other"), BYTES)
        assert array_names(tmp_path / "two.npz") == ["X", "other"]

    def test_contiguous_hdf5_is_mapped(self, tmp_path):
        write_hdf5(tmp_path / "a.hdf5", train=X, test=X[:2])
        got = read_vectors(tmp_path / "a.hdf5")
        np.testing.assert_array_equal(got, X)
        assert mapped(got)
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.hdf5", "test"), X[:2])

    def test_compressed_hdf5_in_a_group(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("deep/inside", data=X, chunks=(2, 5), compression="gzip")
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.h5", "deep/inside"), X)

    @pytest.mark.parametrize("write", [scipy.io.savemat, lambda path, arrays: write_mat73(path, **arrays)])
    def test_mat_of_both_kinds(self, tmp_path, write):
        write(tmp_path / "a.mat", {"traindata": X, "other": BYTES})
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.mat"), X)
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.mat", "other"), BYTES)
        assert set(array_names(tmp_path / "a.mat")) == {"traindata", "other"}

    def test_sparse_mat(self, tmp_path):
        scipy.io.savemat(tmp_path / "a.mat", {"X": scipy.sparse.csc_array(np.eye(3))})
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.mat"), np.eye(3))

    def test_parquet_lists(self, tmp_path):
        write_parquet(tmp_path / "a.parquet", {"id": list(range(7)), "vector": X.tolist()})
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.parquet").astype(np.float32), X)
        np.testing.assert_array_equal(read_array(tmp_path / "a.parquet", "id"), np.arange(7))

    def test_parquet_lists_of_fixed_size_keep_their_type(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), 5)
        write_parquet(tmp_path / "a.parquet", {"vector": vectors})
        got = read_vectors(tmp_path / "a.parquet")
        np.testing.assert_array_equal(got, X)
        assert got.dtype == np.float32

    def test_parquet_numeric_columns(self, tmp_path):
        write_parquet(tmp_path / "a.pq", {"a": X[:, 0], "b": X[:, 1], "name": list("abcdefg")})
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.pq"), X[:, :2])


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 20), d=st.integers(1, 20), suffix=st.sampled_from(["fvecs", "ivecs", "bvecs", "fbin", "u8bin"]))
def test_any_number_of_vectors_of_any_dimension(tmp_path_factory, n, d, suffix):
    dtype = {"f": np.float32, "i": np.int32, "b": np.uint8, "u": np.uint8}[suffix[0]]
    vectors = np.random.default_rng(n * d).integers(0, 256, (n, d)).astype(dtype)
    path = tmp_path_factory.mktemp("any") / f"a.{suffix}"
    write_bin(path, vectors) if suffix.endswith("bin") else write_vecs(path, vectors, dtype)
    np.testing.assert_array_equal(read_vectors(path), vectors)


def one_line(path, call=read_vectors, error=ValueError, **arguments):
    """The message, which is one line that names the file."""
    with pytest.raises(error) as caught:
        call(path, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


class TestDamage:
    @pytest.mark.parametrize(
        "suffix",
        ["npy", "npz", "hdf5", "h5", "mat", "parquet", "pq", "fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin"],
    )
    def test_empty_file(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        path.touch()
        assert "empty" in one_line(path)

    @pytest.mark.parametrize("suffix", ["npy", "npz", "hdf5", "mat", "parquet", "fvecs", "fbin", "u8bin"])
    @pytest.mark.parametrize("junk", [b"\x00", b"not this kind of file at all, not at all\n" * 50, bytes(5000)])
    def test_something_else(self, tmp_path, suffix, junk):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(junk)
        one_line(path)

    @pytest.mark.parametrize(
        "suffix", ["npy", "npz", "hdf5", "mat", "parquet", "fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin"]
    )
    def test_truncated(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        vectors = np.arange(400 * 16, dtype=np.float32).reshape(400, 16) % 251
        {
            "npy": lambda: np.save(path, vectors),
            "npz": lambda: np.savez(path, X=vectors),
            "hdf5": lambda: write_hdf5(path, X=vectors),
            "mat": lambda: scipy.io.savemat(path, {"X": vectors}),
            "parquet": lambda: write_parquet(path, {"v": vectors.tolist()}),
            "fvecs": lambda: write_vecs(path, vectors, np.float32),
            "bvecs": lambda: write_vecs(path, vectors, np.uint8),
            "ivecs": lambda: write_vecs(path, vectors, np.int32),
            "fbin": lambda: write_bin(path, vectors),
            "u8bin": lambda: write_bin(path, vectors.astype(np.uint8)),
            "i8bin": lambda: write_bin(path, vectors.astype(np.int8)),
        }[suffix]()
        whole = path.read_bytes()
        assert read_vectors(path).shape == (400, 16)
        for length in (len(whole) // 2 + 1, len(whole) - 7):
            path.write_bytes(whole[:length])
            one_line(path)

    def test_vectors_of_different_dimensions(self, tmp_path):
        path = tmp_path / "a.fvecs"
        # as many bytes as four vectors of four dimensions, so only the dimension fields tell
        write_vecs(path, [np.zeros(4), np.zeros(3), np.zeros(5), np.zeros(4)], np.float32)
        assert "vector 1" in one_line(path) or "vector 2" in one_line(path)

    def test_bin_that_is_too_long(self, tmp_path):
        path = tmp_path / "a.fbin"
        write_bin(path, X)
        with path.open("ab") as file:
            file.write(b"more")
        assert "too long" in one_line(path)

    def test_parquet_with_lists_of_different_lengths_or_missing_values(self, tmp_path):
        path = tmp_path / "a.parquet"
        write_parquet(path, {"v": [[1.0, 2.0], [3.0]]})
        assert "different lengths" in one_line(path)
        write_parquet(path, {"v": [[1.0, 2.0], None]})
        assert "missing" in one_line(path)
        write_parquet(path, {"v": [[1.0, 2.0], [3.0, None]]})
        assert "missing" in one_line(path)
        write_parquet(path, {"v": [1.0, None]})
        assert "missing" in one_line(path)

    def test_pickled_objects_are_refused(self, tmp_path):
        for path, save in ((tmp_path / "a.npy", np.save), (tmp_path / "a.npz", np.savez)):
            save(path, np.array([{"an": "object"}], dtype=object))
            one_line(path)

    def test_unknown_ending_missing_file_and_folder(self, tmp_path):
        (tmp_path / "a.doc").write_text("1,2\n")
        assert ".fbin" in one_line(tmp_path / "a.doc")
        one_line(tmp_path / "none.npy", error=FileNotFoundError)
        one_line(tmp_path)

    def test_a_name_that_is_not_there_lists_those_that_are(self, tmp_path):
        np.savez(tmp_path / "a.npz", left=X, right=X)
        assert "left, right" in one_line(tmp_path / "a.npz", array="middle")
        assert "left, right" in one_line(tmp_path / "a.npz")

    def test_vectors_are_matrices_of_numbers(self, tmp_path):
        np.save(tmp_path / "a.npy", np.zeros((2, 3, 4)))
        assert "(2, 3, 4)" in one_line(tmp_path / "a.npy")
        np.save(tmp_path / "b.npy", np.zeros((0, 3)))
        one_line(tmp_path / "b.npy")
        np.save(tmp_path / "c.npy", np.array([["a"]]))
        one_line(tmp_path / "c.npy")


@pytest.mark.parametrize(
    ("module", "file", "extra"), [("h5py", "a.hdf5", "hdf5"), ("pyarrow.parquet", "a.parquet", "parquet")]
)
def test_a_missing_extra_says_how_to_install_it(tmp_path, monkeypatch, module, file, extra):
    (tmp_path / file).write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'hashlearn\[{extra}\]'"):
        read_vectors(tmp_path / file)
