"""Where an experiment's vectors and labels are: a dataset with a name, or files of your own."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets import Dataset, load
from hashlearn.experiments.settings import ArrayFile, DatasetSettings
from hashlearn.rows.formats import read_array, read_vectors

DRAWING_SEED = 0
MOST_QUERIES = 1000
BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Some rows of an array, with their labels; of a mapped file nothing is read yet.

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
        Of features, labels, queries and scale: results of other data have another one.
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
