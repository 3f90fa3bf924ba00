"""What the runs on one dataset share, made once and kept in the results' ``cache`` folder: the vectors as a mapped
file, the true neighbours of the queries, the anchors of k-means, and the sums over the data that a method with anchors
learns from, which are the same for all lengths.

The folder can be deleted at any time; it is made again.
"""

import hashlib
import shutil
import time
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from hashlearn.datasets import Dataset, load
from hashlearn.experiments.experiment import DatasetSettings
from hashlearn.experiments.tasks import key_of
from hashlearn.files import LEFTOVER, replacing
from hashlearn.hashers.anchored import AnchoredHasher
from hashlearn.hashers.view import AnchorView
from hashlearn.linalg.anchors import kmeans
from hashlearn.metrics import true_neighbours
from hashlearn.rows import RowBlocks

N_NEIGHBOURS = 10
_ROWS = 4096


class AnchorSet(NamedTuple):
    """What names a set of anchors: their number, the seed, and the rounds of k-means."""

    n_anchors: int
    seed: int
    rounds: int


class Prepared:
    """A dataset in a cache folder, ready for the workers.

    Attributes
    ----------
    folder : Path
    digest : str
        Of features, labels, queries and scale. Results of other data have another one.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.digest = self.folder.name.rpartition("-")[2]

    @classmethod
    def of(cls, settings: DatasetSettings, cache: Path) -> "Prepared":
        """Load the dataset and put it into the cache if it is not there."""
        dataset = load(settings.source)
        if dataset.labels is None:
            raise ValueError(f"{settings.source} has no labels ({dataset.source}), and the experiments judge by labels")
        target = cache / f"{settings.name}-{_digest(dataset, settings.scale)}"
        if not target.is_dir():
            beside = target.with_name(target.name + LEFTOVER)
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(parents=True)
            _write(dataset, settings.scale, beside)
            beside.rename(target)
        return cls(target)

    @cached_property
    def database(self) -> NDArray[np.float32]:
        """Features of the database, mapped, shape (n, d)."""
        return self._read("database")

    @cached_property
    def queries(self) -> NDArray[np.float32]:
        return self._read("queries")

    @cached_property
    def labels(self) -> NDArray:
        return self._read("labels")

    @cached_property
    def query_labels(self) -> NDArray:
        return self._read("query_labels")

    @property
    def facts(self) -> dict[str, Any]:
        """What a result says of its data."""
        n, d = self.database.shape
        return {"digest": self.digest, "n_database": n, "n_queries": len(self.queries), "n_features": d}

    @property
    def has_neighbours(self) -> bool:
        return self._path("neighbours").is_file()

    def neighbours(self) -> NDArray[np.int64]:
        """The true nearest neighbours of the queries, shape (n_queries, 10)."""
        if not self.has_neighbours:
            self._save("neighbours", true_neighbours(self.queries, self.database, N_NEIGHBOURS))
        return self._read("neighbours")

    def has_anchors(self, wanted: AnchorSet) -> bool:
        return self._path(_anchor_name(wanted)).is_file()

    def anchors(self, wanted: AnchorSet) -> tuple[NDArray, float]:
        """Centres of k-means and the seconds it took to find them.

        They start from rows drawn with the seed, as the methods' own anchors do, and serve every method and length.
        """
        name = _anchor_name(wanted)
        if not self.has_anchors(wanted):
            start = time.perf_counter()
            rows = RowBlocks(self.database)
            chosen = np.random.RandomState(wanted.seed).choice(len(rows), wanted.n_anchors, replace=False)
            centres = kmeans(rows, rows.take(np.sort(chosen)), range(wanted.rounds))
            seconds = time.perf_counter() - start
            # The seconds lie beside the centres in one file, so that a kill cannot part them.
            self._save(name, np.append(centres.ravel().astype(np.float64), seconds))
        stored = self._read(name)
        return np.array(stored[:-1]).reshape(wanted.n_anchors, -1), float(stored[-1])

    def view(self, hasher: AnchoredHasher, wanted: AnchorSet) -> tuple[AnchorView, np.random.RandomState, float]:
        """What ``hasher``, which has the wanted anchors, sees of the database; its random numbers as they are after the
        look; and the seconds the look took.
        """
        path, rng = self.view_path(hasher, wanted), np.random.RandomState(wanted.seed)
        if not path.is_file():
            start = time.perf_counter()
            view = hasher._look(self.database, rng)
            arrays = {**view.to_arrays(), "seconds": np.array(time.perf_counter() - start), "rng": _packed(rng)}
            with replacing(path) as (beside,), beside.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
        keys, place = arrays["rng"][:-1], int(arrays["rng"][-1])
        rng.set_state(("MT19937", keys, place, 0, 0.0))
        return AnchorView.from_arrays(hasher._rows_to_fit(self.database), arrays), rng, float(arrays["seconds"])

    def view_path(self, hasher: AnchoredHasher, wanted: AnchorSet) -> Path:
        """The file of :meth:`view`."""
        asked = {"method": type(hasher).__name__, "needs": hasher._needs()._asdict(), "anchors": wanted._asdict()}
        return self.folder / f"sums-{key_of(asked)}.npz"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _read(self, name: str) -> NDArray:
        return np.load(self._path(name), mmap_mode="r", allow_pickle=False)

    def _save(self, name: str, array: NDArray) -> None:
        with replacing(self._path(name)) as (beside,), beside.open("wb") as file:
            np.save(file, array)


def _packed(rng: np.random.RandomState) -> NDArray[np.uint32]:
    """The state of random numbers as one array; the looks draw no normal numbers, which would leave a half behind."""
    _, keys, place, *_ = rng.get_state(legacy=True)
    return np.append(keys, np.uint32(place))


def _anchor_name(wanted: AnchorSet) -> str:
    return f"anchors-{wanted.n_anchors}-seed{wanted.seed}-rounds{wanted.rounds}"


def _digest(dataset: Dataset, scale: float | str) -> str:
    assert dataset.labels is not None
    unit = scale if isinstance(scale, str) else float(scale)
    digest = hashlib.sha256(repr((dataset.features.shape, dataset.labels.shape, unit)).encode())
    for start in range(0, len(dataset.features), _ROWS):
        digest.update(np.ascontiguousarray(dataset.features[start : start + _ROWS]).tobytes())
    digest.update(np.ascontiguousarray(dataset.labels).tobytes())
    digest.update(dataset.query.tobytes())
    return digest.hexdigest()[:12]


def _write(dataset: Dataset, scale: float | str, folder: Path) -> None:
    _write_vectors(folder / "database.npy", dataset.features, dataset.database_rows, scale)
    _write_vectors(folder / "queries.npy", dataset.features, dataset.query, scale)
    np.save(folder / "labels.npy", np.asarray(dataset.database_labels))
    np.save(folder / "query_labels.npy", np.asarray(dataset.query_labels))


def _write_vectors(path: Path, features: NDArray, rows: NDArray, scale: float | str) -> None:
    out = np.lib.format.open_memmap(path, "w+", np.float32, (len(rows), features.shape[1]))
    for start in range(0, len(rows), _ROWS):
        part = features[rows[start : start + _ROWS]].astype(np.float32)
        out[start : start + len(part)] = normalize(part) if scale == "unit" else part / np.float32(scale)
    out.flush()
