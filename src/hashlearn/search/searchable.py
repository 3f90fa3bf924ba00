"""What can be asked of a similarity search."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.search.held_rows import HeldRows, Options
from hashlearn.search.results import Record
from hashlearn.search.state import Index
from hashlearn.search.tuning import Tuning

_LENGTH_CHECKS = 16
"""Calls whose rows are compared with those of the fit, before it is taken for granted that they are alike."""


class Searchable:
    """The part of :class:`hashlearn.SimilaritySearch` that reads. Any number of threads may use it."""

    def __init__(self, rows: HeldRows):
        # All that a call needs hangs on this one reference.
        self._rows = rows
        self._length_checks = _LENGTH_CHECKS

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: Any) -> bool:
        """Is there a row with this id?"""
        return id in self._rows

    def __iter__(self) -> Iterator[Any]:
        """The ids, ascending, as they are when the iteration begins."""
        return iter(self.ids.tolist())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hasher!r}, {len(self)} vectors)"

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, ascending: int64, or objects that are strings."""
        return self._rows.ids

    @property
    def hasher(self) -> Any:
        """The hasher or pipeline that makes the codes."""
        return self._rows.encoder.hasher

    @property
    def metric(self) -> str:
        return self._rows.encoder.metric

    @property
    def query(self) -> str:
        return self._rows.encoder.query

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._rows.encoder.n_bits

    @property
    def keep_vectors(self) -> str | None:
        return self._rows.keep_vectors

    @property
    def tuning(self) -> Tuning | None:
        """What :meth:`tune` has found."""
        return self._rows.tuning

    @property
    def folder(self) -> Path | None:
        """Where it was opened from or saved to."""
        return self._rows.folder

    @property
    def store(self) -> Any:
        """The store, or its URI, that the rows live in; None if they do not."""
        return self._rows.place

    @property
    def index(self) -> Index:
        """A copy, at no cost, of the index of the codes. Its ids are keys where those of the search are strings."""
        return self._rows.index

    def get(self, ids: ArrayLike) -> list[Record]:
        """Read rows back.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Of the kind that the search has.

        Returns
        -------
        list of Record
            ``id``, ``code``, ``payload`` and ``vector`` (None if none are kept), in the order of the ids; ids that are
            not there are left out.
        """
        return self._rows.get(ids)

    def payloads(self, ids: ArrayLike) -> list[dict[str, Any] | None]:
        """The payloads of rows.

        Parameters
        ----------
        ids : list or array of integers or of strings
            Of the kind that the search has.

        Returns
        -------
        list of dict or None
            The payload of each id, in their order; None for one that is not there.
        """
        return self._rows.payloads(ids)

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes of vectors, as :meth:`add` keeps them and :meth:`search_codes` takes them.

        Parameters
        ----------
        X : array of shape (n, n_features)
            The vectors.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            A code for each.
        """
        return self._rows.encoder.codes(X)

    def search(
        self,
        X: ArrayLike,
        k: int = 10,
        *,
        candidates: int | None = None,
        rerank: Any = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Neighbors:
        """The k nearest of each query vector.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)
            Queries.
        k : int
            At least 1. Where there are fewer rows, the places left over have id -1, or None among strings, and distance
            2147483647, or infinity where distances are real.
        candidates : int or None
            How many codes are found, to be put in another order then. None is what :meth:`tune` has found, or 4 k.
        rerank : None, False, "codes", "asymmetric", "vectors", or an array, memmap or file of vectors
            What the result is ordered by. ``"codes"`` or False: the distances of the codes. ``"asymmetric"``: the
            scores of the query against the bits of the candidates. ``"vectors"``: the distances of the vectors that are
            kept. An array: those of its rows, row i being that of id i. None: kept vectors if there are any, otherwise
            codes.
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.
        subset : list of ids, or boolean array of shape (len(search),), or None
            Look only among these rows; a mask is in the order of :attr:`ids`.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id, strings by their code points. Distances are those that the result is
            ordered by: Hamming distances (int32), or real ones (float32).
        """
        rows = self._rows
        if self._length_checks:
            self._check_lengths(rows, X)
        return rows.search(X, k, Options(rerank, candidates, filter, subset, n_jobs))

    def search_codes(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Neighbors:
        """As :meth:`search`, of packed codes by Hamming distance.

        Parameters
        ----------
        codes : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes of queries.
        k : int
            At least 1.
        filter, subset, n_jobs
            As in :meth:`search`.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id.
        """
        if self.query != "code":
            raise ValueError("search_codes needs a search with query='code'; this one compares real queries with codes")
        return self._rows.search_codes(codes, k, Options(filter=filter, subset=subset, n_jobs=n_jobs))

    def within(
        self,
        X: ArrayLike,
        distance: float,
        *,
        candidates: int | None = None,
        rerank: Any = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> RangeResult:
        """All rows at a distance or less of each query.

        By codes this is exact, and the distance is a number of bits, or what a real query is compared by. By vectors
        the distance is that of the metric, and only the nearest codes of a query are looked at.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)
            Queries.
        distance : float
            The largest distance.
        candidates : int or None
            By vectors: how many of the nearest codes of a query are looked at. None is 1000; ``len(search)`` looks at
            all.
        rerank, filter, subset, n_jobs
            As in :meth:`search`.

        Returns
        -------
        RangeResult
            ``result[q]`` has distances and ids of query q, nearest first, ties by the lowest id.
        """
        rows = self._rows
        if self._length_checks:
            self._check_lengths(rows, X)
        return rows.within(X, distance, Options(rerank, candidates, filter, subset, n_jobs))

    def _check_lengths(self, rows: HeldRows, X: Any) -> None:
        self._length_checks -= 1
        if rows.encoder.check_lengths(X):
            self._length_checks = 0
