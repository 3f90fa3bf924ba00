"""Which rows are queries: drawn once by rule and seed, stored, and used again."""

import hashlib
import logging
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import replacing
from hashlearn.rows.formats import FileProblem, read_array

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitRule:
    """How many queries are drawn, and from where.

    Attributes
    ----------
    per_class : int or None
        Number of queries of every class; if a row has several labels, of every label, no row twice.
    total : int or None
        Number of queries from all rows. Exactly one of ``per_class`` and ``total`` is given.
    database : int or None
        Rows drawn for the database from those that are left; None keeps them all.
    """

    per_class: int | None = None
    total: int | None = None
    database: int | None = None

    def __post_init__(self) -> None:
        if (self.per_class is None) == (self.total is None):
            raise ValueError(f"a split is drawn either per_class or in total, got {self}")
        for name in ("per_class", "total", "database"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the queries and of the database, each ascending."""

    query: NDArray[np.int64]
    database: NDArray[np.int64]


def draw(n: int, labels: NDArray | None, rule: SplitRule, seed: int) -> Split:
    """Draw a split of ``n`` rows; the same seed gives the same rows on every machine and version of numpy."""
    random = np.random.RandomState(seed)  # the legacy generator never changes its numbers
    query = _in_total(n, rule.total, random) if rule.total else _per_class(labels, rule.per_class or 0, random)
    left = np.setdiff1d(np.arange(n), query)
    if rule.database is not None:
        if len(left) < rule.database:
            raise ValueError(f"the database must be drawn from at least {rule.database} rows, got {len(left)}")
        left = np.sort(random.permutation(left)[: rule.database])
    if len(left) == 0:
        raise ValueError(f"{len(query)} queries leave no row of {n} for the database")
    return Split(np.sort(query), left)


def stored_or_drawn(folder: Path, name: str, n: int, labels: NDArray | None, rule: SplitRule, seed: int) -> Split:
    """The split stored in ``folder`` for these rows, this rule and seed, drawn and stored if there is none.

    The file's name carries a checksum of the labels, so that a split is never used for rows in another order.
    """
    path = folder / f"{name}-seed{seed}-{_fingerprint(n, labels, rule)}.npz"
    if path.is_file():
        try:
            return Split(read_array(path, "query"), read_array(path, "database"))
        except FileProblem as error:
            log.warning("the split is drawn again: %s", error)
    split = draw(n, labels, rule, seed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as (beside,), beside.open("wb") as file:
            np.savez_compressed(file, query=split.query, database=split.database)
    except OSError as error:
        log.warning("the split of %s could not be stored: %s", name, error)
    return split


def _in_total(n: int, total: int, random: np.random.RandomState) -> NDArray[np.int64]:
    if total >= n:
        raise ValueError(f"{total} queries must be fewer than the {n} rows")
    return random.permutation(n)[:total]


def _per_class(labels: NDArray | None, count: int, random: np.random.RandomState) -> NDArray[np.int64]:
    if labels is None:
        raise ValueError("queries per class need labels, and these rows have none")
    if labels.ndim == 1:
        members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    else:
        members = [np.flatnonzero(column) for column in labels.T]
    taken = np.zeros(len(labels), bool)
    for rows in sorted(members, key=len):  # rare labels first, while their rows are still free
        free = rows[~taken[rows]]
        if len(free) < count:
            raise ValueError(f"{count} queries per class need as many rows in every class, got one with {len(free)}")
        taken[random.permutation(free)[:count]] = True
    return np.flatnonzero(taken)


def _fingerprint(n: int, labels: NDArray | None, rule: SplitRule) -> str:
    digest = hashlib.sha256(repr((n, astuple(rule))).encode())
    if labels is not None:
        digest.update(np.ascontiguousarray(labels).astype(np.int64).tobytes())
    return digest.hexdigest()[:16]
