"""The doctor: problems of a search and their solutions, in plain words."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import unpack
from hashlearn.search import SimilaritySearch
from hashlearn.upkeep.drift import DriftReference
from hashlearn.upkeep.recall import RecallEstimate, estimated_recall, recall_of_query

_FEWEST_ROWS = 50
_QUERIES = 100
_K = 10
_GOOD_RECALL = 0.9
_DEAD_SHARE = 0.005
_MANY_BURIED = 0.3
_MANY_TOGETHER = 0.05
_LONG_LIST = 20
_MANY_CLIPPED = 0.01


class Finding(NamedTuple):
    """The result of one check.

    Attributes
    ----------
    is_good : bool
    what : str
        The result in a sentence.
    remedy : str
        What to do; empty if there is no problem.
    """

    is_good: bool
    what: str
    remedy: str = ""


def examine(search: SimilaritySearch, *, n_queries: int = _QUERIES, random_state: int = 0) -> list[Finding]:
    """Check a search.

    Parameters
    ----------
    search : SimilaritySearch
        It is not changed.
    n_queries : int
        Rows that are searched for, to measure the recall.
    random_state : int
        Determines these rows.

    Returns
    -------
    list of Finding
        About the recall, removed rows, useless bits, rows with equal codes, and the drift of late rows; also about the
        sizes of lists and the share of clipped int8 values, if the search has these.

    Examples
    --------
    >>> from hashlearn import LSH
    >>> X = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    >>> search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(X).add(X)
    >>> [finding.is_good for finding in examine(search)]
    [False, True, True, True, True]
    """
    if len(search) < _FEWEST_ROWS:
        return [Finding(True, f"{len(search)} rows: too few to say more")]
    codes = search.codes()
    return [
        _recall(search, n_queries, random_state),
        _removed_rows(search),
        _dead_bits(codes, search),
        _equal_codes(codes, search),
        _drift(search, n_queries, random_state),
        *_lists(search),
        *_clipped(search),
    ]


def measured_recall(
    search: SimilaritySearch, n_queries: int, random_state: int, among: NDArray | None = None
) -> RecallEstimate | None:
    """The recall of rows as queries. A little noise is added, because a row finds itself too easily."""
    rng = np.random.default_rng(random_state)
    rows = search.ids if among is None else among
    ids = rows[rng.choice(len(rows), min(n_queries, len(rows)), replace=False)]
    vectors = np.array([record.vector for record in search.get(ids)], np.float32)
    noise = rng.standard_normal(vectors.shape) * (0.1 * vectors.std(axis=0))
    queries = (vectors + noise).astype(np.float32)
    recalls = [recall_of_query(search, query, _K) for query in queries]
    return estimated_recall([recall for recall in recalls if recall is not None])


def _recall(search: SimilaritySearch, n_queries: int, random_state: int) -> Finding:
    place = _place(search)
    if search.keep_vectors is None:
        return Finding(
            False,
            "The recall cannot be measured: the search keeps no vectors.",
            "add the rows to a search that is made with keep_vectors='int8' or 'float16'",
        )
    found = measured_recall(search, n_queries, random_state)
    if found is None:
        return Finding(True, "The recall was not measured: rows came and went meanwhile.")
    told = f"The search finds {found.recall:.1%} of the true {_K} nearest rows ({found.low:.1%} to {found.high:.1%})."
    if found.high >= _GOOD_RECALL:
        return Finding(True, told)
    return Finding(False, told, f"hashlearn tune {place} (more candidates); if that is not enough, longer codes")


def _removed_rows(search: SimilaritySearch) -> Finding:
    n_places = search.index.next_id if search.store is None else len(search)
    buried = 1 - len(search) / max(1, n_places)
    told = f"{buried:.0%} of the places are of removed or replaced rows."
    if buried < _MANY_BURIED:
        return Finding(True, told)
    return Finding(False, told, f"hashlearn compact {_place(search)}")


def _dead_bits(codes: NDArray[np.uint8], search: SimilaritySearch) -> Finding:
    shares = np.zeros(search.n_bits)
    for start in range(0, len(codes), 1 << 16):
        shares += unpack(codes[start : start + (1 << 16)], search.n_bits).sum(axis=0)
    shares /= len(codes)
    dead = int(np.count_nonzero((shares < _DEAD_SHARE) | (shares > 1 - _DEAD_SHARE)))
    if not dead:
        return Finding(True, f"All {search.n_bits} bits tell rows apart.")
    told = f"{dead} of {search.n_bits} bits are the same for nearly all rows."
    return Finding(False, told, _learned_anew(search))


def _equal_codes(codes: NDArray[np.uint8], search: SimilaritySearch) -> Finding:
    _, counts = np.unique(codes, axis=0, return_counts=True)
    together = float(counts[counts > 4 * _K].sum() / len(codes))
    told = f"{together:.0%} of the rows share their code with more than {4 * _K} others."
    if together < _MANY_TOGETHER:
        return Finding(True, told)
    longer = f"longer codes: {2 * search.n_bits} bits instead of {search.n_bits}"
    if search.keep_vectors is not None and search.folder is not None:
        longer += f" (hashlearn reencode {_place(search)} --model MODEL)"
    return Finding(False, told, longer)


def _drift(search: SimilaritySearch, n_queries: int, random_state: int) -> Finding:
    """Compare the last tenth of the rows, in the order of adding, with the rows before them.

    Where late rows are found as well as the others, it is no fault that they are of another kind.
    """
    in_order = search.ids if search.store is not None else search.index.ids
    codes = search.codes() if search.store is not None else search.index.codes(in_order)
    n_late = max(_FEWEST_ROWS // 2, len(codes) // 10)
    report = DriftReference(codes[:-n_late], search.n_bits).compare(codes[-n_late:][:4000])
    if not report.is_large:
        return Finding(True, "Late rows are of the kind of early rows.")
    told = (
        f"The last {n_late} rows are of another kind than those before (bits differ by {report.shares:.0%}, novelty "
        f"{report.novelty:+.2f})"
    )
    if search.keep_vectors is None or search.store is not None:
        return Finding(False, f"{told}.", _learned_anew(search))
    ids = search.moment.ids_at(in_order)
    early, late = (measured_recall(search, n_queries, random_state, part) for part in (ids[:-n_late], ids[-n_late:]))
    if early is None or late is None or late.high >= early.low:
        return Finding(True, f"{told}, and are found as well.")
    told += f", and fewer of their true {_K} nearest rows are found: {late.recall:.1%} instead of {early.recall:.1%}."
    return Finding(False, told, _learned_anew(search))


def _lists(search: SimilaritySearch) -> list[Finding]:
    sizes = search.list_sizes
    if sizes is None:
        return []
    told = f"The {len(sizes)} lists have {sizes.mean():.0f} rows on average, the largest {sizes.max()}."
    if sizes.max() < _LONG_LIST * sizes.mean():
        return [Finding(True, told)]
    return [Finding(False, told, f"hashlearn compact {_place(search)} (it makes the lists anew)")]


def _clipped(search: SimilaritySearch) -> list[Finding]:
    share = search.clipped_share
    if share is None:
        return []
    told = f"{share:.2%} of the int8 values are beyond the range that was fitted."
    if share < _MANY_CLIPPED:
        return [Finding(True, told)]
    return [Finding(False, told, "add the rows to a search that is made with keep_vectors='float16'")]


def _learned_anew(search: SimilaritySearch) -> str:
    if search.keep_vectors is None or search.folder is None:
        return "fit the hasher on rows of today, and encode the rows anew"
    return f"hashlearn reencode {_place(search)}"


def _place(search: SimilaritySearch) -> str:
    return "SEARCH" if search.folder is None else str(Path(search.folder))
