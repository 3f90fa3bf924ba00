"""Vectors in, neighbors out: a hasher, an index, ids and payloads as one object, and as one folder."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from hashlearn.checks import check_choice
from hashlearn.search.attached import PLACES, Attached
from hashlearn.search.held_rows import HeldRows
from hashlearn.search.kept_vectors import DTYPES
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.rows_in_memory import RowsInMemory
from hashlearn.search.rows_in_store import RowsInStore
from hashlearn.search.rows_mirrored import RowsMirrored
from hashlearn.search.searchable import Searchable
from hashlearn.search.state import State
from hashlearn.search.tuning import Tuning


class SimilaritySearch(Searchable):
    """Search vectors by learned codes.

    Any number of threads may search while another changes the search: a call sees the rows as they were when it began,
    and waits for nobody. Changes wait for one another. A change that raises leaves the search as it was.

    It can be sent to another process (pickled): rows in memory are copied, vectors that are kept must be saved and are
    opened from their folder there, and a store is opened by its URI.

    Parameters
    ----------
    hasher : Hasher, or a pipeline of scikit-learn that ends in one
        Fitted or not. :meth:`fit` learns with a copy of it.
    metric : {"euclidean", "cosine", "dot"} or None
        What is near: a small distance, a small angle, a large inner product. For "cosine" the hasher sees all rows
        scaled to length one. None is the metric of the hasher if it has one, otherwise "euclidean".
    query : {"code", "real"} or None
        How a query is compared with codes: by its own code, in Hamming distance, or by its real scores, which finds
        more and takes longer. None is "code", but "real" for a hasher made for it, such as ABH.
    keep_vectors : {"float32", "float16", "int8"} or None
        Keep the vectors, on disk, and order candidates by them. A store keeps float32.
    store : str, Store or None
        Where rows live instead: the URI of a store (see :mod:`hashlearn.stores.uri`), or one that is open. A change is
        in the database when its call returns, and rows that are there already are found. A new store is made for the
        first rows, with vectors if ``keep_vectors`` says so.
    search_in : {"memory", "store"}
        Whether the codes of a store are mirrored in memory and searched there, or searched by the database.

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> search = SimilaritySearch(ITQ(n_bits=32, random_state=0), metric="cosine", keep_vectors="float16").fit(X)
    >>> search.add(X, ids=[f"digit-{row:04}" for row in range(len(X))], payloads=[{"label": int(label)} for label in y])
    SimilaritySearch(ITQ(n_bits=32, random_state=0), 1797 vectors)
    >>> search.search(X[:2], k=2, filter={"label": {"$ne": 0}}).ids.tolist()
    [['digit-0505', 'digit-1507'], ['digit-0001', 'digit-0093']]
    >>> "digit-0001" in search.remove(["digit-0001"])
    False
    """

    def __init__(
        self,
        hasher: Any,
        *,
        metric: str | None = None,
        query: str | None = None,
        keep_vectors: str | None = None,
        store: Any = None,
        search_in: str = "memory",
    ):
        if keep_vectors is not None:
            check_choice("keep_vectors", keep_vectors, DTYPES)
        check_choice("search_in", search_in, PLACES)
        encoder = MetricHasher(hasher, metric, query)
        if store is not None:
            attached = Attached(store, encoder, keep_vectors is not None)
            self._begin(RowsMirrored(attached) if search_in == "memory" else RowsInStore(attached))
        elif search_in == "memory":
            self._begin(RowsInMemory(State.empty(encoder), keep_vectors))
        else:
            raise ValueError("search_in='store' needs a store")

    def _begin(self, rows: HeldRows) -> None:
        super().__init__(rows)
        # Reentrant, for a debugger that raises on the way out of a "with" leaves the lock to its thread.
        self._changing = threading.RLock()

    def __getstate__(self) -> HeldRows:
        with self._changing:
            return self._rows.as_now()

    def __setstate__(self, rows: HeldRows) -> None:
        self._begin(rows)

    def fit(self, X: ArrayLike) -> Self:
        """Learn the hash functions from rows; rows of an earlier fit are dropped, for their codes mean nothing now.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            At least two rows. They are not added.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        with self._changing:
            rows = self._rows
            self._rows = rows.refitted(rows.encoder.fitted(X), X)
        return self

    def add(self, X: ArrayLike, ids: ArrayLike | None = None, payloads: Sequence[dict | None] | None = None) -> Self:
        """Encode vectors and add them.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            The vectors.
        ids : list or array of n integers >= 0, or of n strings, or None
            Not yet in the search; all ids of a search are of one kind. By default running numbers: one more than the
            largest there has ever been, and so on.
        payloads : list of n dicts, or None
            What else is known of the rows: JSON values, for :meth:`get` and for filters. None is no payload.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        return self._put(X, ids, payloads, only_new=True)

    def upsert(self, X: ArrayLike, ids: ArrayLike, payloads: Sequence[dict | None] | None = None) -> Self:
        """As :meth:`add`, of ids that may be there already: the new rows, payloads included, take their places.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            The vectors.
        ids : list or array of n integers >= 0, or of n strings
            Each only once.
        payloads : list of n dicts, or None
            As in :meth:`add`.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        return self._put(X, ids, payloads, only_new=False)

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows.

        Parameters
        ----------
        ids : list or array of integers or of strings
            If one is not there, ValueError is raised and none is removed.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        with self._changing:
            self._rows.remove(ids)
        return self

    def tune(self, queries: ArrayLike | None = None, k: int = 10, target_recall: float = 0.95) -> Tuning:
        """Find, and keep for later searches, how many candidates a wanted recall needs; see :func:`tune`.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features), or None
            None draws some of the kept vectors.
        k : int
            Neighbors of a query, at least 1.
        target_recall : float
            Share of the true k nearest, by the kept vectors, that is to be found.

        Returns
        -------
        Tuning
            What was measured, and the number that was chosen; ``print`` shows it as a table.
        """
        tuning = self._rows.tune(queries, k, target_recall)
        with self._changing:
            self._rows.keep_tuning(tuning)
        return tuning

    def warm(self) -> Self:
        """Have everything ready that the first search would otherwise wait for: compiled loops, the encoder, tables.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        self._rows.warm()
        return self

    def save(self, folder: str | Path | None = None) -> None:
        """Write the search to a folder; it is on the disk when this returns.

        Where few rows have changed since the last save to the folder, only these are written. The folder has a whole
        state at every moment, whoever reads it or saves to it meanwhile. Other files in it are left alone.

        Parameters
        ----------
        folder : str, Path or None
            New, empty, or one that a search was saved to before. None is the folder that this search was opened from or
            saved to.

        Raises
        ------
        ValueError
            Another process has saved to the folder since this search has read it: :meth:`refresh` first.
        """
        with self._changing:
            self._rows.save(folder)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; codes and vectors are memory-mapped.

        Parameters
        ----------
        folder : str or Path
            The folder of a saved search.

        Returns
        -------
        SimilaritySearch
            The state that was saved last.
        """
        search = cls.__new__(cls)
        search._begin(RowsInMemory.open(folder))
        return search

    def refresh(self) -> bool:
        """Take over what other processes have saved since to the folder.

        Changes of this search that are not saved are made again on top of it. Of a store all rows are read again.

        Returns
        -------
        bool
            Whether there was something.
        """
        with self._changing:
            return self._rows.refresh()

    def close(self) -> None:
        """Let go of the connection to a store; the search cannot be used any more."""
        with self._changing:
            self._rows.close()

    def _put(self, X: Any, ids: Any, payloads: Any, *, only_new: bool) -> Self:
        with self._changing:
            if self._length_checks:
                self._check_lengths(self._rows, X)
            self._rows.put(X, ids, payloads, only_new=only_new)
        return self
