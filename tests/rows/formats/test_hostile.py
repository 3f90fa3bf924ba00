"""Files that promise more than they hold, or point elsewhere: refused before memory is taken or a file is opened."""

import gzip
import io
import pickle
import struct
import tracemalloc
import zipfile
import zlib

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse

from hashlearn.rows import as_rows
from hashlearn.rows.formats import FileProblem, array_names, limits, read_array, read_vectors

X = np.arange(24, dtype=np.float32).reshape(6, 4)
HUGE = 1 << 40


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 1 << 16)
    monkeypatch.delenv(limits.SETTING, raising=False)


def npy(header_shape, values):
    """An npy file whose header says another shape than its values have."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": values.dtype.str, "fortran_order": False, "shape": header_shape}
    )
    return file.getvalue() + values.tobytes()


def refused(path, message, **arguments):
    """One line that names the file, without having taken memory for what the file promises."""
    tracemalloc.start()
    try:
        with pytest.raises(FileProblem, match=message) as caught:
            read_array(path, **arguments)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


ZEROS = np.zeros((1 << 10, 1 << 10), np.uint8)


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=ZEROS, compression="gzip")


def write_idx(path):
    header = bytes((0, 0, 8, 2)) + struct.pack(">II", 1 << 10, 1 << 10)
    path.write_bytes(gzip.compress(header + ZEROS.tobytes()))


def write_parquet(path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ZEROS.ravel()), 1 << 10)
    pq.write_table(pa.table({"X": vectors}), path)


BOMBS = {
    "a.npz": lambda path: np.savez_compressed(path, X=ZEROS),
    "a.h5": write_hdf5,
    "a.mat": lambda path: scipy.io.savemat(path, {"X": ZEROS}, do_compression=True),
    "a.idx.gz": write_idx,
    "a.parquet": write_parquet,
}


class TestBombs:
    """1 MB of zeros in a file of some kilobytes, with a limit of 64 KB."""

    @pytest.mark.parametrize("name", BOMBS)
    def test_a_limit_that_can_be_raised(self, tmp_path, small_limit, monkeypatch, name):
        path = tmp_path / name
        BOMBS[name](path)
        assert path.stat().st_size < 1 << 13
        refused(path, "its array would take .* if you trust it, set HASHLEARN_MAX_BYTES=1[0-9]{6} ")
        np.testing.assert_array_equal(read_array(path, max_bytes=2 << 20), ZEROS)
        refused(path, "its array would take", max_bytes=1 << 19)
        monkeypatch.setenv(limits.SETTING, str(2 << 20))
        np.testing.assert_array_equal(read_vectors(path), ZEROS)

    def test_a_setting_that_is_no_number(self, tmp_path, monkeypatch):
        np.savez(tmp_path / "a.npz", X=X)
        monkeypatch.setenv(limits.SETTING, "much")
        with pytest.raises(ValueError, match="HASHLEARN_MAX_BYTES must be a number of bytes, got 'much'"):
            read_array(tmp_path / "a.npz")

    def test_a_file_may_always_grow_a_hundredfold(self, tmp_path, small_limit):
        values = np.repeat(np.random.default_rng(0).integers(0, 256, 1 << 12).astype(np.uint8), 50)
        np.savez_compressed(tmp_path / "a.npz", X=values)
        assert values.nbytes > max(1 << 16, 15 * (tmp_path / "a.npz").stat().st_size)
        np.testing.assert_array_equal(read_array(tmp_path / "a.npz"), values)

    def test_hdf5_that_was_never_written_to(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("chunks", shape=(HUGE, 4), chunks=(1024, 4), dtype="f4")
            file.create_dataset("plain", shape=(HUGE, 4), dtype="f4")
        for name in ("chunks", "plain"):
            refused(tmp_path / "a.h5", "would take", array=name)


class TestHeaders:
    @pytest.mark.parametrize("shape", [(HUGE, 4), (7, 4), (2**62, 2**62), (-6, 4), (-6, -4)])
    def test_npy_that_promises_another_shape(self, tmp_path, shape):
        (tmp_path / "a.npy").write_bytes(npy(shape, X))
        refused(tmp_path / "a.npy", "truncated|shape")
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", npy(shape, X))
        refused(tmp_path / "a.npz", "truncated|shape")

    def test_npz_whose_header_hides_values(self, tmp_path):
        """numpy reads what the header says and never comes to the checksum."""
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", npy((3, 4), X))
        np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["X"], X[:3])
        refused(tmp_path / "a.npz", "too long")

    def test_a_header_of_brackets(self, tmp_path):
        text = b"{'descr': " + b"-" * 9000 + b"1, 'fortran_order': False, 'shape': (1,)}\n"
        (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
        refused(tmp_path / "a.npy", "header")

    @pytest.mark.parametrize(("name", "header"), [("a.fbin", "<II"), ("a.u8bin", "<II"), ("a.fvecs", "<I")])
    def test_plain_files(self, tmp_path, name, header):
        promised = (1 << 31, 1 << 31)[: len(header) - 1]
        (tmp_path / name).write_bytes(struct.pack(header, *promised) + X.tobytes())
        refused(tmp_path / name, "truncated|dimension")

    @pytest.mark.parametrize("name", ["a.idx", "a.idx.gz"])
    def test_idx(self, tmp_path, name, monkeypatch):
        monkeypatch.setenv(limits.SETTING, str(1 << 20))
        data = bytes((0, 0, 8, 2)) + struct.pack(">II", 1 << 31, 1 << 31) + X.tobytes()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        refused(tmp_path / name, "would take|values take")

    def test_a_parquet_footer_with_other_numbers(self, tmp_path):
        """Rows that are in the footer but not in the file are no vectors: nothing is left as the memory was."""
        path = tmp_path / "a.parquet"
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.tile(X, (7, 1)).ravel()), 4)
        pq.write_table(pa.table({"X": vectors}), path)
        good = path.read_bytes()
        footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
        places = [place for place in range(footer, len(good) - 8) if good[place] == 2 * 42]  # zigzag of 42 rows
        assert places
        for place in places:
            for other in (2, 82, 86, 126):
                path.write_bytes(good[:place] + bytes((other,)) + good[place + 1 :])
                try:
                    found = read_vectors(path)
                except FileProblem:
                    continue
                np.testing.assert_array_equal(found, np.tile(X, (7, 1)))

    def test_mat_that_is_longer_than_it_says(self, tmp_path):
        scipy.io.savemat(tmp_path / "a.mat", {"X": X}, do_compression=True)
        data = (tmp_path / "a.mat").read_bytes()
        inner = bytearray(zlib.decompress(data[136:]))
        for promised in (len(inner) - 24, len(inner) + 8, 1 << 31):
            inner[4:8] = struct.pack("<I", promised)
            packed = zlib.compress(inner)
            (tmp_path / "a.mat").write_bytes(data[:128] + struct.pack("<II", 15, len(packed)) + packed)
            refused(tmp_path / "a.mat", "X should take|would take")

    def test_a_mat_type_that_crashes_scipy(self, tmp_path):
        scipy.io.savemat(tmp_path / "a.mat", {"X": X})
        data = bytearray((tmp_path / "a.mat").read_bytes())
        place = data.index(struct.pack("<II", 7, X.nbytes))  # the tag of 96 bytes of single precision
        data[place] = 250
        (tmp_path / "a.mat").write_bytes(data)
        refused(tmp_path / "a.mat", "has type 250")


def test_hdf5_groups_that_are_nested_too_deeply(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.require_group("/".join("g" * 600))["X"] = X
    refused(tmp_path / "a.h5", "nested too deeply")


class TestReferences:
    """Nothing of another file is read, whoever may read it."""

    @pytest.fixture
    def secret(self, tmp_path):
        with h5py.File(tmp_path / "secret.h5", "w") as file:
            file["X"] = X
        return tmp_path / "secret.h5"

    def test_external_storage(self, tmp_path, secret):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("X", shape=(6, 4), dtype="f4", external=[(str(secret), 0, X.nbytes)])
        refused(tmp_path / "a.h5", "X refers to other files")

    def test_a_virtual_dataset(self, tmp_path, secret):
        layout = h5py.VirtualLayout(shape=(6, 4), dtype="f4")
        layout[:] = h5py.VirtualSource(secret, "X", shape=(6, 4))
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_virtual_dataset("X", layout)
        refused(tmp_path / "a.h5", "X refers to other files")

    def test_links(self, tmp_path, secret):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["y"] = X
            file["X"] = h5py.ExternalLink(secret, "X")
            file["soft"] = h5py.SoftLink("/X")
        assert array_names(tmp_path / "a.h5") == ["y"]
        for name in ("X", "soft", "soft/../X"):
            refused(tmp_path / "a.h5", "no array named", array=name)


class TestNpz:
    def test_other_files_in_the_archive(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=X)
        with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
            archive.writestr("readme.txt", "hello")
        assert array_names(tmp_path / "a.npz") == ["X"]
        np.testing.assert_array_equal(read_vectors(tmp_path / "a.npz"), X)

    @pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
    @pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
    def test_sparse_matrices(self, tmp_path, kind, make):
        scipy.sparse.save_npz(tmp_path / "a.npz", make(X).asformat(kind))
        found = read_vectors(tmp_path / "a.npz")
        assert found.format == "csr"
        np.testing.assert_array_equal(found.toarray(), X)
        np.testing.assert_array_equal(as_rows(tmp_path / "a.npz").take(np.array([3, 1])), X[[3, 1]])

    @pytest.mark.parametrize(
        "change",
        [
            {"indices": np.array([0, 1, 9])},
            {"indices": np.array([0, -1, 2])},
            {"indices": np.array([0.0, 1.0, 2.0])},
            {"indices": np.array([[0, 1, 2]])},
            {"indptr": np.array([0, 3, 1, 3])},
            {"indptr": np.array([0, 1, 2])},
            {"indptr": np.array([1, 1, 2, 3])},
            {"indptr": np.array([0, 1, 2, 300])},
            {"data": np.ones(2)},
            {"data": np.array(["a", "b", "c"])},
            {"shape": np.array([3, 4, 5])},
            {"shape": np.array([-3, 4])},
            {"shape": np.array([2.5, 4])},
            {"format": np.array(b"dia")},
            {"format": np.array(3)},
            {"format": np.array([b"csr", b"csr"])},
        ],
    )
    def test_sparse_matrices_that_are_none(self, tmp_path, change):
        good = {
            "data": np.ones(3),
            "indices": np.array([0, 1, 2]),
            "indptr": np.array([0, 1, 2, 3]),
            "shape": np.array([3, 4]),
            "format": np.array(b"csr"),
        }
        np.savez(tmp_path / "a.npz", **good)
        assert read_vectors(tmp_path / "a.npz").shape == (3, 4)
        np.savez(tmp_path / "a.npz", **good | change)
        with pytest.raises(FileProblem, match=r"^[^\n]*a\.npz: [^\n]+$"):
            read_vectors(tmp_path / "a.npz")


def test_types_that_cannot_be_computed_with(tmp_path):
    for values, message in ((X.astype(complex), "real numbers"), (X.astype(np.longdouble), "float64 or smaller")):
        if values.dtype.itemsize == 8:
            continue
        np.save(tmp_path / "a.npy", values)
        with pytest.raises(FileProblem, match=message):
            read_vectors(tmp_path / "a.npy")


def test_the_error_can_be_sent_to_another_process():
    error = pickle.loads(pickle.dumps(FileProblem("a.npy", "cut\noff\x00")))
    assert isinstance(error, ValueError)
    assert (str(error), error.path, error.reason) == ("a.npy: cut off?", "a.npy", "cut off?")
