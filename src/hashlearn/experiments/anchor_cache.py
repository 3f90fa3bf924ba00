"""What runs of methods with anchors share, kept beside the data: the centers of k-means, the same for every method and
length, and the sums over the data, the same for every length.

All that experiments know of how such a method learns is here.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import replacing
from hashlearn.experiments.data_cache import CachedData
from hashlearn.experiments.tasks import Task, key_of
from hashlearn.hashers.anchored import AnchoredHasher, AnchorSummary
from hashlearn.hashers.union import HasherUnion
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.rows import RowBlocks


class AnchorSet(NamedTuple):
    """What names a set of anchors.

    Attributes
    ----------
    n_anchors : their number
    seed : of the draws
    rounds : of k-means
    n_sampled : rows that k-means goes over; None for all
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
    """An array, and the seconds it took to find it."""

    values: NDArray
    seconds: float


class AnchoredPart(NamedTuple):
    """A hasher that takes the centers of k-means, a union's part or a whole method, and the anchors it shares."""

    hasher: AnchoredHasher
    anchors: AnchorSet


def anchored_parts(task: Task, n_rows: int) -> list[AnchoredPart]:
    """What shares anchors among the hashers of a task."""
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
    with suppress(ValueError):  # more anchors than rows: the fit will say so
        n_sampled = hasher.n_kmeans_rows_for(n_rows)
        sample = n_sampled if n_sampled < n_rows else None
        return AnchorSet(hasher.n_anchors_for(n_rows), seed, hasher.kmeans_max_iter, sample)
    return None


def shared_anchors(data: CachedData, wanted: AnchorSet) -> Timed:
    """Centers of k-means and the seconds it took to find them.

    They start from rows drawn with the seed, as the methods' own anchors do, and serve every method and length.
    """
    if not data.has(wanted.name):
        start = time.perf_counter()
        rows, rng = RowBlocks(data.database), np.random.RandomState(wanted.seed)
        if wanted.n_sampled is not None:
            rows = RowBlocks(rows.draw(wanted.n_sampled, rng))
        centers = kmeans(rows, rows.draw(wanted.n_anchors, rng), wanted.rounds).centers
        seconds = time.perf_counter() - start
        # The seconds lie beside the centers in one file, so that a kill cannot part them.
        data.save(wanted.name, np.append(centers.ravel().astype(np.float64), seconds))
    kept = data.read(wanted.name)
    return Timed(np.array(kept[:-1]).reshape(wanted.n_anchors, -1), float(kept[-1]))


def sums_path(part: AnchoredPart, data: CachedData) -> Path:
    """The file of the sums that a hasher shares with those of other lengths."""
    return _path(part.hasher, data, part.anchors)


def make_sums(part: AnchoredPart, data: CachedData) -> None:
    """Have the sums made that a hasher shares with those of other lengths."""
    with suppress(ValueError):  # the fit will say so
        _summary(part.hasher, data, part.anchors, {})


def fit_from_sums(hasher: Any, data: CachedData, wanted: AnchorSet) -> dict[str, float]:
    """Fit on the database with what is shared, and say in seconds what each step takes or took when it was made."""
    seconds: dict[str, float] = {}
    summary = _summary(hasher, data, wanted, seconds)
    start = time.perf_counter()
    hasher.n_features_in_ = data.database.shape[1]
    hasher.fit_summary(summary)
    return {**seconds, "fit": time.perf_counter() - start}


def _summary(hasher: Any, data: CachedData, wanted: AnchorSet, seconds: dict[str, float]) -> AnchorSummary:
    """What the hasher learns from, through the shared anchors, which it is given."""
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
