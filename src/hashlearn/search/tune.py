"""How many candidates to rerank for a wanted recall: measured, not guessed."""

import io
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from hashlearn.checks import check_integer, check_number
from hashlearn.codes.results import count_found
from hashlearn.durable.files import write_bytes
from hashlearn.extras import require
from hashlearn.hashers.saving import is_pipeline, n_bits_of
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.rows.blocks import Source
from hashlearn.search.code_search import CodeSearch
from hashlearn.search.exact import nearest_vectors
from hashlearn.search.vector_records import VectorView
from hashlearn.search.vectors import VectorFile

_NARROW = 1.1
"""The number that is chosen is at most this many times one that was measured and is too small."""

_MOST_CANDIDATES = 1000
"""Times k, beyond which no numbers are tried: reranking is then most of the search."""

_SAMPLE = 10_000
"""Vectors from which codes of other lengths are learned and judged."""

_LONGEST_CODE = 4096


@dataclass(frozen=True)
class Tuning:
    """Recall against the number of candidates that are reranked.

    Attributes
    ----------
    k : int
    target_recall : float
    candidates : tuple of int
        The numbers that were measured, ascending.
    recalls : tuple of float
        The share of the true k nearest that was found with each.
    milliseconds : tuple of float
        Time of a query with each, searched in one batch with the others.
    by_n_bits : dict of int to int
        About how many candidates codes of other lengths need for the target, as far as this was measured.

    Examples
    --------
    >>> tuning = Tuning(10, 0.9, (10, 20, 40), (0.6, 0.92, 0.99), (0.1, 0.1, 0.2), {128: 12})
    >>> tuning.chosen, tuning.met
    (20, True)
    >>> print(tuning)
    candidates  recall 10@10  ms a query
            10        0.6000       0.100
            20        0.9200       0.100  <- chosen
            40        0.9900       0.200
    20 candidates reach recall 0.9. With n_bits=128 about 12 candidates would do.
    """

    k: int
    target_recall: float
    candidates: tuple[int, ...]
    recalls: tuple[float, ...]
    milliseconds: tuple[float, ...]
    by_n_bits: dict[int, int] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Does any number of candidates that was measured reach the target?"""
        return max(self.recalls) >= self.target_recall

    @property
    def chosen(self) -> int:
        """The least number of candidates that reaches the target; if none does, the least of the best recall."""
        wanted = min(self.target_recall, max(self.recalls))
        return min(n for n, recall in zip(self.candidates, self.recalls) if recall >= wanted)

    def table(self) -> str:
        """The measurements as plain text, a line for each number of candidates; the chosen one is marked."""
        lines = [f"candidates  recall {self.k}@{self.k}  ms a query"]
        width = len(f"recall {self.k}@{self.k}")
        for candidates, recall, milliseconds in zip(self.candidates, self.recalls, self.milliseconds):
            mark = "  <- chosen" if candidates == self.chosen else ""
            lines.append(f"{candidates:>10}  {recall:>{width}.4f}  {milliseconds:>10.3f}{mark}")
        return "\n".join(lines)

    def verdict(self) -> str:
        """What to do, in a few sentences."""
        if self.met:
            sentences = [f"{self.chosen} candidates reach recall {self.target_recall:g}."]
        else:
            sentences = [
                f"The target of {self.target_recall:g} cannot be met with up to {self.candidates[-1]} candidates: "
                f"the best recall is {max(self.recalls):.4f}, with {self.chosen}."
            ]
        fewer = {n: c for n, c in sorted(self.by_n_bits.items()) if not self.met or c < self.chosen}
        sentences += [f"With n_bits={n} about {c} candidates would do." for n, c in fewer.items()]
        if not self.met and not fewer:
            sentences.append("Try longer codes, or vectors kept with more precision.")
        return " ".join(sentences)

    def __str__(self) -> str:
        return f"{self.table()}\n{self.verdict()}"

    def to_dict(self) -> dict[str, Any]:
        """The measurements as JSON can say them."""
        said = asdict(self)
        return {**said, "by_n_bits": {str(n): c for n, c in self.by_n_bits.items()}}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> "Tuning":
        """The tuning from what :meth:`to_dict` returned."""
        try:
            curve = {name: tuple(said[name]) for name in ("candidates", "recalls", "milliseconds")}
            by_n_bits = {int(n): int(c) for n, c in said["by_n_bits"].items()}
            return cls(k=int(said["k"]), target_recall=float(said["target_recall"]), by_n_bits=by_n_bits, **curve)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError("a tuning must be as Tuning.to_dict gives it, got something else") from None

    def plot(self, path: str | Path) -> None:
        """Write the curve as a picture; the suffix says which kind (.png, .svg, .pdf)."""
        write_bytes(path, self.picture(Path(path).suffix.lstrip(".") or "png"))

    def picture(self, kind: str) -> bytes:
        """The curve as the content of a file: "png", "svg" or "pdf"."""
        figure = require("matplotlib.figure", "report").Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        axes.semilogx(self.candidates, self.recalls, marker="o")
        axes.axhline(self.target_recall, linestyle="--", color="gray", label=f"target {self.target_recall:g}")
        axes.axvline(self.chosen, linestyle=":", color="gray", label=f"{self.chosen} candidates")
        axes.set_xlabel("candidates that are reranked")
        axes.set_ylabel(f"recall {self.k}@{self.k}")
        axes.legend()
        content = io.BytesIO()
        figure.savefig(content, format=kind)
        return content.getvalue()


class Searching(Protocol):
    """What is tuned: :class:`hashlearn.SimilaritySearch`."""

    hasher: Any
    ids: Any

    def search(self, X: Any, k: int, *, candidates: int, rerank: Any) -> Any: ...


def tune(
    search: Searching,
    queries: ArrayLike | None = None,
    k: int = 10,
    target_recall: float = 0.95,
    *,
    vectors: Any,
    other_n_bits: Iterable[int] | None = None,
    n_queries: int = 200,
    random_state: Any = 0,
) -> Tuning:
    """Measure recall against the number of candidates, and find the least number that reaches the target.

    The number is doubled from k on until the target is reached, or there are 1000 k candidates or all vectors; then the
    gap is halved until it is small. True neighbors are those by the vectors that candidates are reranked by. Nothing is
    changed.

    Parameters
    ----------
    search : SimilaritySearch
    queries : array of shape (n_queries, n_features), or None
        None draws ``n_queries`` of the vectors, and no query finds itself.
    k : int, default=10
    target_recall : float, default=0.95
        The share of the true k nearest that is to be found, above 0 and at most 1.
    vectors : VectorFile, VectorView, array, memmap or CSR matrix
        What candidates are reranked by; row i of an array is the vector of id i.
    other_n_bits : iterable of int, or None
        Lengths of code to learn and judge, on a sample of 10000 vectors, so that you see whether they need fewer
        candidates. None is twice and four times the length, unless 2 k candidates suffice already.
    n_queries : int, default=200
        At most half of the vectors are drawn.
    random_state : int, RandomState instance or None, default=0

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import ITQ, SimilaritySearch
    >>> X, _ = load_digits(return_X_y=True)
    >>> search = SimilaritySearch(ITQ(n_bits=16, random_state=0)).fit(X).add(X)
    >>> tuning = tune(search, target_recall=0.9, vectors=X)
    >>> tuning.met, tuning.chosen < len(X) / 4
    (True, True)
    """
    target_recall = check_number("target_recall", target_recall, low=0, high=1)
    if target_recall == 0:
        raise ValueError("target_recall must be above 0 and at most 1, got 0")
    n_queries, rng = check_integer("n_queries", n_queries, low=1), check_random_state(random_state)
    database = _Database.of(search, vectors)
    if database.n < 2:
        raise ValueError(f"search must hold at least 2 vectors to be tuned, got {database.n}")
    k = check_integer("k", k, low=1, high=database.n - 1)
    asked = _drawn(database, n_queries, rng) if queries is None else _given(queries)
    metric = getattr(search, "metric", "euclidean")
    nearest = nearest_vectors(database.rows, asked.vectors, k + asked.n_own, metric).ids
    truth = _first_others(nearest, asked.own, k)

    def found_with(candidates: int) -> NDArray:
        n_own = asked.n_own
        _, ids = search.search(asked.vectors, k + n_own, candidates=candidates + n_own, rerank=vectors)
        return _first_others(np.asarray(ids), database.ids[asked.own], k)

    most = min(database.n - asked.n_own, _MOST_CANDIDATES * k)
    tuning = _measured(found_with, database.ids[truth], most, target_recall)
    lengths = _lengths_to_try(tuning, search.hasher) if other_n_bits is None else list(other_n_bits)
    if not lengths:
        return tuning
    sample = _Sample.of(database, asked, truth, rng)
    needed = {
        n: sample.candidates_needed(_with_n_bits(search.hasher, n), target_recall)
        for n in track(lengths, "tune other lengths")
    }
    return replace(tuning, by_n_bits={n: max(k, c) for n, c in needed.items() if c is not None})


class _Database(NamedTuple):
    """The vectors that are searched, and their ids."""

    rows: RowBlocks
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, search: Searching, vectors: Any) -> "_Database":
        view = vectors.view if isinstance(vectors, VectorFile) else vectors
        rows = RowBlocks(view) if isinstance(view, VectorView) else as_rows(vectors)
        ids = np.asarray(search.ids)
        if len(ids) and ids.max() >= len(rows):
            raise ValueError(f"vectors must have a row for every id, got {len(rows)} rows for id {ids.max()}")
        return cls(rows if len(ids) == len(rows) else RowBlocks(_SomeRows(rows.source, ids)), ids)

    @property
    def n(self) -> int:
        return len(self.ids)


class _SomeRows(Source):
    """Some rows of a source, as one."""

    def __init__(self, source: Source, numbers: NDArray[np.int64]):
        self.source, self.numbers = source, numbers
        self.shape, self.dtype = (len(numbers), source.shape[1]), source.dtype

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Any:
        return self.source[self.numbers[rows]]


class _Queries(NamedTuple):
    """Queries and, of each, the numbers of the vectors it must not find: itself, if it was drawn from them."""

    vectors: NDArray
    own: NDArray[np.int64]

    @property
    def n_own(self) -> int:
        return self.own.shape[1]


def _drawn(database: _Database, n_queries: int, rng: np.random.RandomState) -> _Queries:
    numbers = np.sort(rng.choice(database.n, min(n_queries, max(1, database.n // 2)), replace=False))
    return _Queries(database.rows.take(numbers), numbers[:, None])


def _given(queries: ArrayLike) -> _Queries:
    rows = as_rows(queries)
    return _Queries(rows.take(np.arange(len(rows))), np.empty((len(rows), 0), np.int64))


def _first_others(found: NDArray, own: NDArray, k: int) -> NDArray:
    """The first k of each row that are not among its own."""
    is_own = (found[:, :, None] == own[:, None, :]).any(axis=2)
    order = np.argsort(is_own, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1)


def _measured(found_with: Callable[[int], NDArray], truth: NDArray, most: int, target: float) -> Tuning:
    """Recall and time of a few numbers of candidates up to ``most``: doubled, then halved around the target."""
    n_queries, k = truth.shape
    recalls: dict[int, float] = {}
    milliseconds: dict[int, float] = {}

    def reaches(candidates: int) -> bool:
        start = time.perf_counter()
        found = found_with(candidates)
        milliseconds[candidates] = 1000 * (time.perf_counter() - start) / n_queries
        recalls[candidates] = float(count_found(found, truth).sum() / truth.size)
        return recalls[candidates] >= target

    found_with(k)  # what is compiled or read for the first time is not what is measured
    too_few, enough = 0, k
    while not reaches(enough) and enough < most:
        too_few, enough = enough, min(2 * enough, most)
    while recalls[enough] >= target and too_few and enough > max(_NARROW * too_few, too_few + 1):
        middle = (too_few + enough) // 2
        if reaches(middle):
            enough = middle
        else:
            too_few = middle
    tried = tuple(sorted(recalls))
    return Tuning(k, target, tried, tuple(recalls[n] for n in tried), tuple(milliseconds[n] for n in tried))


class _Sample(NamedTuple):
    """A part of the vectors, all true neighbors among them, on which other codes are tried.

    Attributes
    ----------
    vectors : ndarray of shape (n_sample, d)
    queries : ndarray of shape (n_queries, d)
    truth : ndarray of shape (n_queries, k)
        Rows of ``vectors``.
    share : float
        Of all vectors.
    """

    vectors: NDArray
    queries: NDArray
    truth: NDArray[np.int64]
    share: float

    @classmethod
    def of(
        cls, database: _Database, asked: _Queries, truth: NDArray[np.int64], rng: np.random.RandomState
    ) -> "_Sample":
        drawn = rng.choice(database.n, min(_SAMPLE, database.n), replace=False)
        numbers = np.union1d(drawn, truth)
        rows = np.searchsorted(numbers, truth)
        return cls(database.rows.take(numbers), asked.vectors, rows, len(numbers) / database.n)

    def candidates_needed(self, hasher: Any, target: float) -> int | None:
        """About how many candidates of all vectors this hasher needs; None where it has no codes of its length.

        A true neighbor with a number of codes of the sample before it has 1 / share as many before it among all.
        """
        try:
            hasher.fit(self.vectors)
        except ValueError:
            return None
        order = CodeSearch.of(hasher, self.vectors).nearest(self.queries, len(self.vectors)).ids
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(order.shape[1])[None], axis=1)
        of_truth = np.sort(np.take_along_axis(ranks, self.truth, axis=1), axis=None)
        last = of_truth[max(0, int(np.ceil(target * of_truth.size)) - 1)]
        return int(np.ceil((last + 1) / self.share))


def _lengths_to_try(tuning: Tuning, hasher: Any) -> list[int]:
    """Twice and four times the length, unless the codes are good enough as they are."""
    if tuning.met and tuning.chosen <= 2 * tuning.k:
        return []
    return [n for n in (2 * n_bits_of(hasher), 4 * n_bits_of(hasher)) if n <= _LONGEST_CODE]


def _with_n_bits(hasher: Any, n_bits: int) -> Any:
    name = f"{hasher.steps[-1][0]}__n_bits" if is_pipeline(hasher) else "n_bits"
    return clone(hasher).set_params(**{name: n_bits})
