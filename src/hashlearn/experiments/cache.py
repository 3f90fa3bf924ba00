"""Data that the runs on one dataset share, made once and kept in the ``cache`` folder of the results.

The cache has the vectors and labels as mapped files, and the true neighbors of the queries. For the methods with
anchors it has the centers of k-means, which are the same for every method and length, and the sums over the data, which
are the same for every length. You can delete the folder at any time; the next run makes it again.
"""

import hashlib
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from hashlearn.datasets import Dataset, load
from hashlearn.durable.files import LEFTOVER, replacing
from hashlearn.durable.locks import exclusive_folder
from hashlearn.experiments.define.settings import UNIT, ArrayFile, DatasetSettings
from hashlearn.experiments.define.tasks import Task, key_of
from hashlearn.experiments.judge import N_NEIGHBORS
from hashlearn.hashers.anchored import AnchoredHasher, AnchorSummary
from hashlearn.hashers.union import HasherUnion
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.metrics import true_neighbors
from hashlearn.rows import RowBlocks
from hashlearn.rows.formats import read_array, read_vectors

DRAWING_SEED = 0
MOST_QUERIES = 1000
BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Some rows of an array, with their labels. A mapped file is not read yet.

    Attributes
    ----------
    features : ndarray of shape (n, d)
    rows : ndarray of row numbers
    labels : ndarray of shape (len(rows),) or (len(rows), n_labels), or None
    """

    features: NDArray
    rows: NDArray[np.int64]
    labels: NDArray | None


@dataclass(frozen=True, eq=False)
class SourceData:
    """A dataset before it is scaled.

    Attributes
    ----------
    database, queries : SourceRows
    digest : str
        The digest of features, labels, queries and scale. Results of other data have another digest.
    """

    database: SourceRows
    queries: SourceRows
    digest: str


def source_data(settings: DatasetSettings) -> SourceData:
    """Find the vectors and labels of a dataset."""
    if settings.features is None:
        return _of_dataset(load(settings.source), settings.scale)
    if settings.queries is None:
        return _of_dataset(_drawn(settings, settings.features), settings.scale)
    return _of_files(settings, settings.features, settings.queries)


def _drawn(settings: DatasetSettings, features: ArrayFile) -> Dataset:
    """A dataset whose queries are drawn from its rows."""
    vectors = read_vectors(*features)
    labels = _labels(settings, "labels", settings.labels, len(vectors))
    count = settings.n_queries or max(1, min(MOST_QUERIES, len(vectors) // 10))
    if count >= len(vectors):
        raise ValueError(f"dataset {settings.name}: n_queries must be below its {len(vectors)} rows, got {count}")
    drawn = np.random.RandomState(DRAWING_SEED).permutation(len(vectors))[:count]
    return Dataset(settings.name, vectors, labels, np.sort(drawn), source=features.path)


def _of_dataset(dataset: Dataset, scale: float | str) -> SourceData:
    return SourceData(
        SourceRows(dataset.features, dataset.database_rows, dataset.database_labels),
        SourceRows(dataset.features, dataset.query, dataset.query_labels),
        _digest(scale, dataset.features, dataset.labels, dataset.query),
    )


def _of_files(settings: DatasetSettings, features: ArrayFile, queries: ArrayFile) -> SourceData:
    vectors, asked = read_vectors(*features), read_vectors(*queries)
    if vectors.shape[1] != asked.shape[1]:
        raise ValueError(
            f"dataset {settings.name}: queries must have the {vectors.shape[1]} columns of features, "
            f"got {asked.shape[1]}"
        )
    labels = _labels(settings, "labels", settings.labels, len(vectors))
    query_labels = _labels(settings, "query_labels", settings.query_labels, len(asked))
    return SourceData(
        SourceRows(vectors, np.arange(len(vectors)), labels),
        SourceRows(asked, np.arange(len(asked)), query_labels),
        _digest(settings.scale, vectors, labels, asked, query_labels),
    )


def _labels(settings: DatasetSettings, name: str, file: ArrayFile | None, n: int) -> NDArray | None:
    if file is None:
        return None
    labels = np.asarray(read_array(*file))
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.reshape(-1)
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise ValueError(f"dataset {settings.name}: {name} must have {n} rows, got shape {labels.shape}")
    return labels


def _digest(scale: float | str, features: NDArray, labels: NDArray | None, *others: Any) -> str:
    unit = scale if isinstance(scale, str) else float(scale)
    shapes = (features.shape, None if labels is None else labels.shape, unit)
    digest = hashlib.sha256(repr(shapes).encode())
    for part in (features, labels, *others):
        if part is not None:
            for start in range(0, len(part), BLOCK_ROWS):
                digest.update(np.ascontiguousarray(part[start : start + BLOCK_ROWS]).tobytes())
    return digest.hexdigest()[:12]


class CachedData:
    """A dataset in a cache folder, ready for the processes that work on it.

    Attributes
    ----------
    folder : Path
    digest : str
        The digest of features, labels, queries and scale. Results of other data have another digest.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.digest = self.folder.name.rpartition("-")[2]

    @classmethod
    def of(cls, settings: DatasetSettings, cache: Path) -> "CachedData":
        """Load the dataset and put it into the cache if it is not there."""
        source = source_data(settings)
        target = cache / f"{settings.name}-{source.digest}"
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive_folder(cache):
            if not target.is_dir():
                beside = target.with_name(target.name + LEFTOVER)
                shutil.rmtree(beside, ignore_errors=True)
                beside.mkdir()
                try:
                    _write(source.database, settings.scale, beside / "database.npy", beside / "labels.npy")
                    _write(source.queries, settings.scale, beside / "queries.npy", beside / "query_labels.npy")
                    beside.rename(target)
                except BaseException:
                    shutil.rmtree(beside, ignore_errors=True)
                    raise
        return cls(target)

    @cached_property
    def database(self) -> NDArray[np.float32]:
        """Features of the database, mapped, shape (n, d)."""
        return self.read("database")

    @cached_property
    def queries(self) -> NDArray[np.float32]:
        return self.read("queries")

    @cached_property
    def labels(self) -> NDArray | None:
        """Labels of the database; None if there are none."""
        return self.read("labels") if self.has("labels") else None

    @cached_property
    def query_labels(self) -> NDArray | None:
        return self.read("query_labels") if self.has("query_labels") else None

    @property
    def facts(self) -> dict[str, Any]:
        """The description of its data in a result."""
        n, d = self.database.shape
        return {"digest": self.digest, "n_database": n, "n_queries": len(self.queries), "n_features": d}

    @property
    def has_neighbors(self) -> bool:
        return self.has("neighbors")

    def neighbors(self) -> NDArray[np.int64]:
        """The true nearest neighbors of the queries, shape (n_queries, 10)."""
        if not self.has_neighbors:
            self.save("neighbors", true_neighbors(self.database, self.queries, N_NEIGHBORS))
        return self.read("neighbors")

    def has(self, name: str) -> bool:
        """Whether an array of this name is in the cache."""
        return self._path(name).is_file()

    def read(self, name: str) -> NDArray:
        """An array of the cache, mapped."""
        return np.load(self._path(name), mmap_mode="r", allow_pickle=False)

    def save(self, name: str, array: NDArray) -> None:
        """Put an array into the cache."""
        _save(self._path(name), array)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


def _write(source: SourceRows, scale: float | str, path: Path, label_path: Path) -> None:
    # Not through a mapped file: on a full disk, a write to a mapped file ends the process.
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(source.rows), source.features.shape[1])}
    with replacing(path) as (beside,), beside.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(source.rows), BLOCK_ROWS):
            part = source.features[source.rows[start : start + BLOCK_ROWS]].astype(np.float32)
            block = normalize(part) if scale == UNIT else part / np.float32(scale)
            file.write(block.astype("<f4", order="C").data)
    if source.labels is not None:
        _save(label_path, np.asarray(source.labels))


def _save(path: Path, array: NDArray) -> None:
    with replacing(path) as (beside,), beside.open("wb") as file:
        np.save(file, array)


class AnchorSet(NamedTuple):
    """The settings that identify a set of anchors.

    Attributes
    ----------
    n_anchors : their number
    seed : seed of the random draws rounds : rounds of k-means n_sampled : number of rows for k-means; None for all
    """

    n_anchors: int
    seed: int
    rounds: int
    n_sampled: int | None = None

    @property
    def name(self) -> str:
        sample = "" if self.n_sampled is None else f"-sample{self.n_sampled}"
        return f"anchors-{self.n_anchors}-seed{self.seed}-rounds{self.rounds}{sample}"


class Timed(NamedTuple):
    """An array, and the seconds that its computation took."""

    values: NDArray
    seconds: float


class AnchoredPart(NamedTuple):
    """A hasher that uses the centers of k-means, alone or as a part of a union, and the anchors that it shares with
    others.
    """

    hasher: AnchoredHasher
    anchors: AnchorSet


def anchored_parts(task: Task, n_rows: int) -> list[AnchoredPart]:
    """The hashers of a task that share anchors."""
    if task.method is None:
        return []
    hasher = task.hasher()
    parts = hasher.hashers if isinstance(hasher, HasherUnion) else [hasher]
    found = ((part, anchors_of(part, task.run, n_rows)) for part in parts)
    return [AnchoredPart(part, anchors) for part, anchors in found if anchors is not None]


def anchors_of(hasher: Any, seed: int, n_rows: int) -> AnchorSet | None:
    """The shared anchors a hasher works with, if it takes the centers of k-means."""
    if not isinstance(hasher, AnchoredHasher) or not isinstance(hasher.anchors, str) or hasher.anchors != "kmeans":
        return None
    with suppress(ValueError):  # more anchors than rows: the fit raises the error
        n_sampled = hasher.n_kmeans_rows_for(n_rows)
        sample = n_sampled if n_sampled < n_rows else None
        return AnchorSet(hasher.n_anchors_for(n_rows), seed, hasher.kmeans_max_iter, sample)
    return None


def shared_anchors(data: CachedData, wanted: AnchorSet) -> Timed:
    """Centers of k-means and the seconds it took to find them.

    K-means starts from rows drawn with the seed, as in the methods themselves. All methods and lengths use these
    centers.
    """
    if not data.has(wanted.name):
        start = time.perf_counter()
        rows, rng = RowBlocks(data.database), np.random.RandomState(wanted.seed)
        if wanted.n_sampled is not None:
            rows = RowBlocks(rows.draw(wanted.n_sampled, rng))
        centers = kmeans(rows, rows.draw(wanted.n_anchors, rng), wanted.rounds).centers
        seconds = time.perf_counter() - start
        # The seconds are in the same file as the centers, so that a kill cannot separate them.
        data.save(wanted.name, np.append(centers.ravel().astype(np.float64), seconds))
    kept = data.read(wanted.name)
    return Timed(np.array(kept[:-1]).reshape(wanted.n_anchors, -1), float(kept[-1]))


def sums_path(part: AnchoredPart, data: CachedData) -> Path:
    """The file of the sums that a hasher shares with hashers of other lengths."""
    return _path(part.hasher, data, part.anchors)


def make_sums(part: AnchoredPart, data: CachedData) -> None:
    """Make the sums that a hasher shares with hashers of other lengths."""
    with suppress(ValueError):  # the fit raises the error
        _summary(part.hasher, data, part.anchors, {})


def fit_from_sums(hasher: Any, data: CachedData, wanted: AnchorSet) -> dict[str, float]:
    """Fit on the database with the shared data.

    Returns the seconds of each step, also of steps that were done before.
    """
    seconds: dict[str, float] = {}
    summary = _summary(hasher, data, wanted, seconds)
    start = time.perf_counter()
    hasher.n_features_in_ = data.database.shape[1]
    hasher.fit_summary(summary)
    return {**seconds, "fit": time.perf_counter() - start}


def _summary(hasher: Any, data: CachedData, wanted: AnchorSet, seconds: dict[str, float]) -> AnchorSummary:
    """The summary from which the hasher learns. It also gives the hasher the shared anchors."""
    anchors = shared_anchors(data, wanted)
    hasher.set_params(anchors=anchors.values)
    path = _path(hasher, data, wanted)
    if not path.is_file():
        start = time.perf_counter()
        summary = hasher.summarize(data.database)
        arrays = {**summary.to_arrays(), "seconds": np.array(time.perf_counter() - start)}
        with replacing(path) as (beside,), beside.open("wb") as file:
            np.savez(file, **arrays)
    with np.load(path, allow_pickle=False) as kept:
        arrays = dict(kept)
    seconds |= {"anchors": anchors.seconds, "sums": float(arrays["seconds"])}
    return AnchorSummary.from_arrays(RowBlocks(data.database), arrays)


def _path(hasher: Any, data: CachedData, wanted: AnchorSet) -> Path:
    asked = {"method": type(hasher).__name__, "needs": hasher.summary_needs(), "anchors": wanted._asdict()}
    return data.folder / f"sums-{key_of(asked)}.npz"
