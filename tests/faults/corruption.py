"""Random damage to files of every format: it is refused in one line, or does no harm.

``corrupt_many`` damages a file again and again and counts what its reader says. ``FORMATS`` are those of others that we
read, and ``OWN_FORMATS`` those that we write, each with a small file and the bytes of it that a checksum protects.
"""

import gzip
import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse

from hashlearn import ITQ, HammingIndex, SimilaritySearch, load
from hashlearn.cli.support.code_files import read_codes
from hashlearn.cli.support.partial_codes import PartialCodes
from hashlearn.datasets import cifar
from hashlearn.durable.files import opened_within, write_at
from hashlearn.experiments.results import ResultFolder
from hashlearn.index import PartitionedIndex
from hashlearn.rows.formats import read_vectors
from hashlearn.search.vectors import VectorFile

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(40, 6)).astype(np.float32)
BYTES = RANDOM.integers(0, 256, (40, 6)).astype(np.uint8)
SPARSE = scipy.sparse.csr_array(np.where(X > 0.8, X, 0))


@dataclass
class Counts:
    """What became of damaged files: refused in one line, read with the same values, or with other ones.

    ``faults`` are the errors that are none of a reader's own.
    """

    refused: int = 0
    same: int = 0
    different: int = 0
    faults: list[str] = field(default_factory=list)


class Format(NamedTuple):
    """A format to damage: a file, or a folder of which one file is damaged at a time.

    ``protected`` gives the first and the last of the bytes that a checksum covers, of all bytes of the file; None where
    the format has no checksum.
    """

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any] = read_vectors
    protected: Callable[[bytes], tuple[int, int]] | None = None


def corrupt_many(kind: Format, n: int, seed: int) -> Counts:
    """Damage one of the files of a format n times, and count what its reader makes of it.

    Where the format has a checksum, the damage is done to the bytes it covers.
    """
    rng, counts = np.random.default_rng(seed), Counts()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, kind.name)
        kind.write(path)
        good = {file: file.read_bytes() for file in sorted(Path(folder).rglob("*")) if file.is_file()}
        values = _copied(kind.read(path))
        for number in range(n):
            _restore(Path(folder), good)
            file = list(good)[rng.integers(len(good))]
            low, high = (0, len(good[file])) if kind.protected is None else kind.protected(good[file])
            file.write_bytes(damaged(good[file], low, high, rng))
            try:
                found = _copied(kind.read(path))
            except (ValueError, FileNotFoundError) as error:
                if "\n" in str(error) or str(folder) not in str(error):
                    counts.faults.append(f"damage {number}: not one line that names the file: {error}")
                counts.refused += 1
            except Exception as error:
                counts.faults.append(f"damage {number}: {type(error).__name__}: {error}")
            else:
                counts.same += _equal(found, values)
                counts.different += not _equal(found, values)
    return counts


def _restore(folder: Path, good: dict[Path, bytes]) -> None:
    """Have these files in the folder, and no others."""
    for file in folder.rglob("*"):
        if file.is_file() and file not in good:
            file.unlink()
    for file, content in good.items():
        file.write_bytes(content)


def damaged(good: bytes, low: int, high: int, rng: np.random.Generator) -> bytes:
    """The bytes with one to four of them changed, with some put in, or with the end cut off."""
    data = bytearray(good)
    kind = rng.choice(["change", "insert", "cut"], p=[0.8, 0.1, 0.1])
    if kind == "change":
        for place in rng.integers(low, high, rng.integers(1, 5)):
            data[place] ^= int(rng.integers(1, 256))
    elif kind == "insert":
        place = int(rng.integers(low, high))
        data[place:place] = rng.bytes(int(rng.integers(1, 20)))
    else:
        del data[int(rng.integers(low, high)) :]
    return bytes(data)


def _copied(values: Any) -> Any:
    """The values, apart from the file: it is about to be overwritten."""
    return values.toarray() if scipy.sparse.issparse(values) else np.array(values)


def _equal(left: np.ndarray, right: np.ndarray) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()


def _whole(data: bytes) -> tuple[int, int]:
    return 0, len(data)


def _pages(data: bytes) -> tuple[int, int]:
    """A parquet file ends with its footer, the length of the footer in four bytes, and PAR1."""
    return 4, len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _vecs(values: np.ndarray) -> Callable[[Path], Any]:
    dimension = np.int32(values.shape[1]).tobytes()
    return lambda path: path.write_bytes(b"".join(dimension + vector.tobytes() for vector in values))


def _bin(values: np.ndarray) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(np.array(values.shape, "<u4").tobytes() + values.tobytes())


def _idx() -> bytes:
    return bytes((0, 0, 8, 2)) + np.array(BYTES.shape, ">u4").tobytes() + BYTES.tobytes()


def _hdf5(**settings: Any) -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        with h5py.File(path, "w", libver="latest") as file:
            file.create_dataset("X", data=X, **settings)

    return write


def _mat73(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"] = X.T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def _parquet(columns: dict[str, Any], **settings: Any) -> Callable[[Path], Any]:
    return lambda path: pq.write_table(pa.table(columns), path, row_group_size=15, **settings)


def _cifar(path: Path) -> None:
    images = RANDOM.integers(0, 256, (1, cifar.PIXELS)).astype(np.uint8)
    with tarfile.open(path, "w:gz") as archive:
        for number, batch in enumerate(cifar.BATCHES):
            content = bytes([number]) + images.tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{batch}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _read_cifar(path: Path) -> np.ndarray:
    records = cifar.read(path.parent)
    return np.concatenate([records.labels[:, None], records.features], axis=1)


VECTORS = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
COLUMNS = {f"c{place}": column for place, column in enumerate(X.T)}

FORMATS = {
    "npy": Format("a.npy", lambda path: np.save(path, X)),
    "npz": Format("a.npz", lambda path: np.savez(path, X=X, y=BYTES[:, 0]), protected=_whole),
    "npz, compressed": Format("a.npz", lambda path: np.savez_compressed(path, X=X), protected=_whole),
    "npz, sparse": Format("a.npz", lambda path: scipy.sparse.save_npz(path, SPARSE), protected=_whole),
    "hdf5": Format("a.hdf5", _hdf5()),
    "hdf5, compressed": Format("a.h5", _hdf5(chunks=(10, 3), compression="gzip")),
    "hdf5, fletcher32": Format("a.h5", _hdf5(chunks=(10, 3), fletcher32=True), protected=_whole),
    "mat 4": Format("a.mat", lambda path: scipy.io.savemat(path, {"X": X}, format="4")),
    "mat 5": Format("a.mat", lambda path: scipy.io.savemat(path, {"X": X, "y": BYTES})),
    "mat 7": Format(
        "a.mat", lambda path: scipy.io.savemat(path, {"X": X, "y": BYTES}, do_compression=True), protected=_whole
    ),
    "mat 7, sparse": Format(
        "a.mat", lambda path: scipy.io.savemat(path, {"X": SPARSE.tocsc()}, do_compression=True), protected=_whole
    ),
    "mat 7.3": Format("a.mat", _mat73),
    "parquet, lists": Format("a.parquet", _parquet({"vector": VECTORS})),
    "parquet, columns": Format("a.parquet", _parquet(COLUMNS)),
    "parquet, checksums": Format(
        "a.parquet", _parquet({"vector": VECTORS}, write_page_checksum=True), protected=_pages
    ),
    "fvecs": Format("a.fvecs", _vecs(X)),
    "bvecs": Format("a.bvecs", _vecs(BYTES)),
    "fbin": Format("a.fbin", _bin(X)),
    "idx": Format("a.idx", lambda path: path.write_bytes(_idx())),
    "idx.gz": Format("a.idx.gz", lambda path: path.write_bytes(gzip.compress(_idx())), protected=_whole),
    "csv": Format("a.csv", lambda path: np.savetxt(path, X, delimiter=",", header="a,b,c,d,e,f", comments="")),
    "cifar tar.gz": Format("cifar-10-binary.tar.gz", _cifar, _read_cifar, protected=_whole),
}


WIDE = np.hstack([X, X**2])
HASHER = ITQ(n_bits=12, random_state=0).fit(WIDE)
CODES = HASHER.transform(WIDE)


def _read_model(path: Path) -> np.ndarray:
    return load(path).transform(WIDE)


def _read_index(path: Path) -> np.ndarray:
    index = HammingIndex.open(path).verify()
    return np.hstack([index.codes(), index.ids[:, None]])


def _read_search(path: Path) -> np.ndarray:
    with closing(SimilaritySearch.open(path)) as search:
        rows = [
            str((r.id, r.code.tolist(), r.payload, None if r.vector is None else r.vector.tolist()))
            for r in search.get(search.ids)
        ]
        found = [str(part.tolist()) for part in (*search.search(WIDE, 3), *search.search(WIDE, 3, filter={"size": 2}))]
        return np.array([*rows, *found, str(search.facets("size")), search.hasher.transform(WIDE).tobytes().hex()])


def _changed_search(path: Path) -> SimilaritySearch:
    """One with a code file, fresh rows, removed rows, payloads and vectors; it is open."""
    payloads = [{"size": row % 3, "name": f"ä{row}"} if row % 2 else None for row in range(len(WIDE))]
    search = SimilaritySearch(HASHER, keep_vectors="float32")
    search.add(WIDE, [f"row {row}" for row in range(len(WIDE))], payloads).save(path)
    for number in range(3):
        search.add(WIDE[:1], [f"new {number}"], [{"size": 2}])
    return search.remove(["row 3", "new 1"])


def _write_changed_search(path: Path) -> None:
    _changed_search(path).close()


def _copy_open_search(path: Path) -> None:
    """What a copy has that is made while a process has the folder open: the log of SQLite, too."""
    with tempfile.TemporaryDirectory() as folder, closing(_changed_search(Path(folder, "search"))) as search:
        shutil.copytree(search.folder, path, ignore=shutil.ignore_patterns("*-shm"))


def _write_lists(path: Path) -> None:
    index = PartitionedIndex(12, n_lists=4, random_state=0).fit(WIDE)
    index.add(WIDE).remove([3]).tune(WIDE).save(path)


def _read_lists(path: Path) -> np.ndarray:
    index = PartitionedIndex.open(path).verify()
    found = index.search(WIDE, len(WIDE), probes=index.n_lists)
    return np.array([str(part.tolist()) for part in found] + [str(index.plan(10, 0.9))])


def _write_vectors(path: Path) -> None:
    VectorFile.create(path, X.shape[1]).add(X).add(X[:3] + 1)


def _read_vectors(path: Path) -> np.ndarray:
    file = VectorFile.open(path)
    return file.take(np.arange(len(file)))


def _partial_codes(path: Path) -> PartialCodes:
    return PartialCodes(str(path), len(CODES), CODES.shape[1], {"model": "of a test"})


def _write_part(path: Path) -> None:
    """What an encode leaves that was interrupted after the first thirty codes."""
    codes = _partial_codes(path)
    codes.begin()
    with opened_within(codes.part) as file:
        write_at(file, len(codes.header), CODES[:30])
    codes.done = 30
    codes.stop(KeyboardInterrupt())


def _resume(path: Path) -> np.ndarray:
    """The codes after the encode was repeated, which writes only those that are not there."""
    codes = _partial_codes(path)
    first = codes.begin()
    with opened_within(codes.part) as file:
        write_at(file, len(codes.header) + first * codes.width, CODES[first:])
    codes.finish(12, {"path": "model", "method": "itq", "checksum": "of a test"})
    return read_codes(str(path)).codes


def _write_codes(path: Path) -> None:
    codes = _partial_codes(path)
    codes.begin()
    _resume(path)


def _read_codes(path: Path) -> np.ndarray:
    found = read_codes(str(path))
    return np.array([found.codes.tobytes().hex(), str(found.n_bits), str(found.model)])


def _write_lines(path: Path) -> None:
    for number in range(5):
        ResultFolder(path).append("own", {"key": f"k{number}", "config": {"bits": 8}, "data": {"mAP": number / 7}})


def _read_lines(path: Path) -> np.ndarray:
    return np.array([str(line) for line in ResultFolder(path).lines(["own"])])


OWN_FORMATS = {
    "model": Format("model", HASHER.save, _read_model, protected=_whole),
    "index": Format(
        "a.hli",
        lambda path: HammingIndex(12).add(CODES, 3 * np.arange(len(CODES))[::-1]).save(path),
        _read_index,
        protected=_whole,
    ),
    "search": Format(
        "search",
        lambda path: SimilaritySearch(HASHER).add(WIDE, 3 * np.arange(len(WIDE))).save(path),
        _read_search,
        protected=_whole,
    ),
    "search with changes": Format("search", _write_changed_search, _read_search, protected=_whole),
    "search, copied while it was open": Format("search", _copy_open_search, _read_search, protected=_whole),
    "lists": Format("a.hll", _write_lists, _read_lists, protected=_whole),
    "vectors": Format("a.hlv", _write_vectors, _read_vectors, protected=_whole),
    "codes": Format("a.npy", _write_codes, _read_codes, protected=_whole),
    "codes, interrupted": Format("a.npy", _write_part, _resume, protected=_whole),
    "results": Format("results", _write_lines, _read_lines),
}
