"""What the runs on one dataset share, made once and kept in the results' ``cache`` folder.

The vectors and labels as mapped files, the true neighbors of the queries, and what the methods with anchors share
(:mod:`hashlearn.experiments.anchor_cache`). The folder can be deleted at any time; it is made again.
"""

import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from hashlearn.durable.files import LEFTOVER, replacing
from hashlearn.durable.locks import exclusive_folder
from hashlearn.experiments.data_sources import BLOCK_ROWS, SourceRows, source_data
from hashlearn.experiments.settings import UNIT, DatasetSettings
from hashlearn.metrics import true_neighbors

N_NEIGHBORS = 10
"""True neighbors of a query that recall counts."""


class CachedData:
    """A dataset in a cache folder, ready for the processes that work on it.

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
        """What a result says of its data."""
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
    # Not through a mapped file: on a full disk the operating system would end the process where it writes there.
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
