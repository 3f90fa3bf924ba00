"""Some rows and queries of a data set, in an order that favors nobody, with the true neighbors."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets import load
from hashlearn.linalg.projections import unit_rows
from hashlearn.metrics import true_neighbors

N_NEIGHBORS = 10
SHUFFLE_SEED = 0
COSINE = {"angular", "cosine", "normalized"}
EUCLIDEAN = {"euclidean", "l2"}


class BoardData(NamedTuple):
    """Rows of the database, shuffled once: equal distances by the lowest row are then fair."""

    name: str
    metric: str
    rows: NDArray[np.float32]
    queries: NDArray[np.float32]
    labels: NDArray | None
    query_labels: NDArray | None
    tenth: NDArray[np.float64]
    """The distance of the 10th neighbor of every query."""


def board_data(name: str, n_rows: int, n_queries: int, cosine: bool) -> BoardData:
    """Of a name or a file that :func:`hashlearn.datasets.load` reads."""
    dataset, rng = load(name), np.random.default_rng(SHUFFLE_SEED)
    kept = dataset.database_rows[rng.permutation(len(dataset.database_rows))[:n_rows]]
    asked = dataset.query[rng.permutation(len(dataset.query))[:n_queries]]
    rows, queries = (np.asarray(dataset.features[part], np.float32) for part in (kept, asked))
    if len(rows) <= N_NEIGHBORS:
        raise ValueError(f"{name} must have more than {N_NEIGHBORS} rows beside the queries, got {len(rows)}")
    of_file = distance_of_file(Path(name))
    if of_file not in COSINE | EUCLIDEAN | {None}:
        raise ValueError(f"{name} compares by {of_file}; the leaderboard has Euclidean distances and cosines only")
    is_cosine = cosine or of_file in COSINE or bool(np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3))
    if is_cosine:
        rows, queries = (np.asarray(unit_rows(part), np.float32) for part in (rows, queries))
    nearest = true_neighbors(rows, queries, N_NEIGHBORS)
    labels = (None, None) if dataset.labels is None else (dataset.labels[kept], dataset.labels[asked])
    tenth = distances_of(rows, queries, nearest).max(axis=1)
    return BoardData(dataset.name, "cosine" if is_cosine else "euclidean", rows, queries, *labels, tenth)


def distance_of_file(path: Path) -> str | None:
    """What an HDF5 file of ann-benchmarks or VIBE says of its distance; None for any other file."""
    if path.suffix not in (".hdf5", ".h5"):
        return None
    import h5py

    with h5py.File(path) as file:
        return file.attrs.get("distance")


def distances_of(rows: NDArray, queries: NDArray, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """True distances of the rows that were found for every query; of no row (-1) infinity."""
    found = [np.linalg.norm(rows[of].astype(np.float64) - query, axis=1) for query, of in zip(queries, ids)]
    return np.where(ids < 0, np.inf, np.array(found))
