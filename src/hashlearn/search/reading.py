"""What a search is asked, and how it answers: everything that changes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes.results import Neighbors
from hashlearn.features.encoders import ENCODER_FILE, Encoder, load_encoder
from hashlearn.rows.inputs import as_vectors
from hashlearn.search.catalog import OutdatedError
from hashlearn.search.columns import Facet, Histogram
from hashlearn.search.graph import nearest_rows, neighbor_graph
from hashlearn.search.in_store import StoreRows
from hashlearn.search.metric_hasher import Index
from hashlearn.search.nearest import Options, first_of
from hashlearn.search.results import Page, Record
from hashlearn.search.rows import CatalogRows
from hashlearn.search.texts import Asked, encoded_images

_INCLUDED = ("payload", "vector")
_MOST_ROWS_OF_A_PAGE = 100_000


class SearchReading:
    """The questions that :class:`hashlearn.SimilaritySearch` answers, by the rows as they were when it was asked."""

    _rows: CatalogRows | StoreRows
    _changing: Any
    """The lock of the thread that changes the rows."""
    _encoder: Encoder | None
    _length_checks = 16
    """The lengths of rows are compared with those of the fit in the first calls only."""
    _follows = False
    """Whether every call that reads rows refreshes first."""

    def search(
        self,
        X: Any = None,
        k: int = 10,
        *,
        text: str | Sequence[str] | None = None,
        image: Any = None,
        by: str | None = None,
        weights: Mapping[str, float] | None = None,
        operators: bool = False,
        like: Any = None,
        unlike: Any = None,
        diversity: float = 0.0,
        expand: int | None = None,
        recall: float | None = None,
        candidates: int | None = None,
        rerank: Any = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
        include: Sequence[str] = (),
        column: str | None = None,
    ) -> Neighbors:
        """The k nearest of each query: a vector, a text, or rows to be like.

        Parameters
        ----------
        X : array of shape (n_queries, n_features), frame, tensor, ..., or one vector of shape (n_features,), or None
            Queries. Beside a text, the vector of that text.
        k : int
            At least 1. Where there are fewer rows, the places left over have id -1, or None among strings, and distance
            2147483647, or infinity where distances are real.
        text : str, or list of n_queries str, or None
            What a person types.
        image : path, image of Pillow or array, or a list of these, or None
            In place of X: the encoder makes the vectors of the queries.
        by : {"words", "meaning", "both"} or None
            Whether a text is compared by its words (BM25), by its vector, or by both lists joined by reciprocal rank.
            None is "both" where there are texts and vectors, otherwise what there is.
        weights : dict or None
            Of "words" and "meaning" in "both". None is what the encoder says (``"tfidf"`` puts words first), or 1 each.
        operators : bool
            Whether quotes, ``*``, ``+`` and ``-`` in a text mean something; see :mod:`hashlearn.search.word_query`.
        like, unlike : lists of ids, or None
            In place of a query: rows to be like, and rows to avoid. They are not among the results.
        diversity : float
            From 0 to 1: how much results should differ from each other (maximal marginal relevance).
        expand : int or None
            How many of the nearest rows of a query, by the kept vectors, to make its query from: the mean of its scores
            and theirs is compared with all codes, and the result is ordered by that. It finds more by meaning, with
            hashers such as JPSH; ``recall`` and ``candidates`` are for finding these rows. None or 0 for none.
        recall : float or None
            The share of the true k nearest, by the kept vectors, that is to be found. 1.0 compares all vectors and
            finds all of them. None is the recall of :meth:`tune`, or 0.95, where the search has lists
            (:attr:`has_lists`). A search without lists takes the number of candidates that :meth:`tune` has found for
            it, and compares all vectors where none was found.
        candidates : int or None
            How many codes are found, among all of them, to be put in another order then. None is what :meth:`tune` has
            found, or 4 k.
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
        include : list of "payload" and "vector"
            Further attributes of the result: ``payloads`` and ``vectors`` of the neighbors.
        column : str or None
            The column of a table that holds the vectors, where it has several.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k), or (k,) for one vector
            Nearest first, ties by the row that was added first. Distances are those that the result is ordered by:
            Hamming distances (int32), or real ones (float32). By words they are minus the scores, by both 1 minus the
            joined score, and the attribute ``parts`` says what words and meaning have given to it. Where lists were
            searched or a recall was asked for, the result has two more attributes: ``recall``, the share of the true
            neighbors that is expected in it, and ``probed``, how many lists each query looked at.

        Notes
        -----
        The result is exact with ``recall=1.0``: the k nearest vectors. It is exact for the codes, too, where it is
        ordered by them (``rerank="codes"``). Everything else finds candidates by codes first, so that some of the
        nearest vectors may be missing.
        """
        options = Options(rerank, candidates, filter, subset, n_jobs, recall, expand)
        wanted = _checked_names(include) if include else ()
        if image is not None:
            several = isinstance(image, (list, tuple))
            vectors = self._of_images(X, image if several else [image])
            X = vectors if several else vectors[0]
        if text is not None or like is not None or unlike is not None or diversity:
            asked = Asked(X, text, by, weights, operators, like, unlike, diversity, column)
            question, was_one = asked.question(self.encoder, has_words=self.text_field is not None)
            found = self._asked(lambda reader: reader.ask(question, k, options, wanted))
            return first_of(found) if was_one else found
        if X is None:
            raise TypeError("X, text, image or like must be given")
        queries, was_one_row = as_vectors(X, column)
        if self._length_checks:
            self._length_checks = self._rows.reader.hasher.check_lengths(queries, self._length_checks)
        found = self._asked(lambda reader: reader.search(queries, k, options, wanted))
        return first_of(found) if was_one_row else found

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
            Nearest first, ties by the row that was added first.
        """
        if self.query != "code":
            raise ValueError("search_codes needs a search with query='code'; this one compares real queries with codes")
        options = Options(filter=filter, subset=subset, n_jobs=n_jobs)
        return self._asked(lambda reader: reader.search_codes(codes, k, options))

    def within(
        self,
        X: Any,
        distance: float,
        *,
        candidates: int | None = None,
        rerank: Any = None,
        filter: dict | None = None,
        subset: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Any:
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
            ``result[q]`` has distances and ids of query q, nearest first, ties by the row that was added first. Of one
            vector, of shape (n_features,), these are the result.
        """
        queries, was_one_row = as_vectors(X)
        if self._length_checks:
            self._length_checks = self._rows.reader.hasher.check_lengths(queries, self._length_checks)
        options = Options(rerank, candidates, filter, subset, n_jobs)
        found = self._asked(lambda reader: reader.within(queries, distance, options))
        return found[0] if was_one_row else found

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True, *, recall: float | None = None
    ) -> Any:
        """The nearest rows by their numbers, as scikit-learn's ``kneighbors`` gives them.

        Parameters
        ----------
        X : array of shape (n_queries, n_features), or another form of :meth:`search`, or None
            None takes all rows, by the vectors that are kept; then no row is its own neighbor.
        n_neighbors : int
            Neighbors of a query.
        return_distance : bool
            Whether distances are returned as well.
        recall : float or None
            As in :meth:`search`; 1.0 is exact.

        Returns
        -------
        distances, rows : arrays of shape (n_queries, n_neighbors), float64 and int64
            Nearest first; ``search.ids[rows]`` are the ids. The rows alone without ``return_distance``.
        """
        distances, rows = nearest_rows(self, X, n_neighbors, recall=recall)
        return (distances, rows) if return_distance else rows

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int = 5, mode: str = "connectivity", *, recall: float | None = None
    ) -> csr_matrix:
        """The nearest rows as a sparse graph, for estimators of scikit-learn with ``metric="precomputed"``.

        Parameters
        ----------
        X, n_neighbors
            As in :meth:`kneighbors`.
        mode : {"connectivity", "distance"}
            Whether the graph has ones or distances.
        recall : float or None
            As in :meth:`search`; 1.0 is exact.

        Returns
        -------
        csr_matrix of shape (n_queries, len(search))
            Columns are in the order of :attr:`ids`.
        """
        return neighbor_graph(*nearest_rows(self, X, n_neighbors, recall=recall), len(self), mode)

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
        return self._asked(lambda reader: reader.get(ids))

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
        return self._asked(lambda reader: reader.payloads(ids))

    def codes(self, ids: ArrayLike | None = None) -> NDArray[np.uint8]:
        """The packed codes of rows.

        Parameters
        ----------
        ids : list or array of integers or of strings, or None
            Ids of rows that are there; None for all, in the order of :attr:`ids`.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            In the order of the ids.
        """
        return self._reader.codes(ids)

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
        rows, was_one_row = as_vectors(X)
        codes = self._rows.reader.hasher.codes(rows)
        return codes[0] if was_one_row else codes

    def count(self, filter: dict | None = None) -> int:
        """How many rows there are, or how many meet a filter.

        Parameters
        ----------
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.

        Returns
        -------
        int
            Number of rows.
        """
        return len(self) if filter is None else self._asked(lambda reader: reader.count(filter))

    def matching(self, filter: dict | None = None) -> NDArray[np.bool_]:
        """Which rows meet a filter.

        Parameters
        ----------
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`. None is met by all.

        Returns
        -------
        ndarray of shape (len(search),), bool
            In the order of :attr:`ids`, as ``subset`` of :meth:`search` takes it.
        """
        return self._asked(lambda reader: reader.matching(filter))

    def facets(
        self, field: str, filter: dict | None = None, limit: int | None = None, *, subset: ArrayLike | None = None
    ) -> list[Facet]:
        """The values that a payload field has, and how many rows have each.

        Parameters
        ----------
        field : str
            A key of the payloads.
        filter : dict or None
            Count only rows that meet it.
        limit : int or None
            The most frequent values only.
        subset : list of ids, or boolean array of shape (len(search),), or None
            Count only these rows; a mask is in the order of :attr:`ids`.

        Returns
        -------
        list of Facet
            ``value`` (a string, number or boolean) and ``count``, the most frequent first.

        Examples
        --------
        >>> from hashlearn import LSH
        >>> X = np.eye(3, dtype=np.float32)
        >>> search = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(X)
        >>> search.add(X, payloads=[{"color": "red"}, {"color": "blue"}, {"color": "red"}]).facets("color")
        [Facet(value='red', count=2), Facet(value='blue', count=1)]
        """
        if not isinstance(field, str) or not field:
            raise TypeError(f"field must be the name of a payload field, got {field!r:.60}")
        most = None if limit is None else check_integer("limit", limit, low=1)
        return self._asked(lambda reader: reader.facets(field, filter, subset, most))

    def histogram(
        self, field: str, n_bins: int = 24, filter: dict | None = None, *, subset: ArrayLike | None = None
    ) -> Histogram:
        """How the numbers of a payload field are distributed.

        Parameters
        ----------
        field : str
            A key of the payloads. Values that are no numbers are left out.
        n_bins : int
            Bins of equal width, from the least number to the largest.
        filter, subset
            As in :meth:`facets`.

        Returns
        -------
        Histogram
            ``counts`` of rows, shape (n_bins,), and ``edges`` of the bins, shape (n_bins + 1,).

        Examples
        --------
        >>> from hashlearn import LSH
        >>> X = np.eye(3, dtype=np.float32)
        >>> search = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(X)
        >>> search.add(X, payloads=[{"year": 1990}, {"year": 2000}, {"year": 2010}]).histogram("year", 2).counts
        array([1, 2])
        """
        n = check_integer("n_bins", n_bins, low=1, high=10_000)
        return self._asked(lambda reader: reader.histogram(field, filter, subset, n))

    def scroll(self, filter: dict | None = None, limit: int = 100, after: str | None = None) -> Page:
        """Rows in the order in which they were added, a page at a time.

        Parameters
        ----------
        filter : dict or None
            List only rows that meet it.
        limit : int
            Rows of a page, at most 100,000.
        after : str or None
            The ``after`` of the page before; None begins with the first row.

        Returns
        -------
        Page
            ``records``, and ``after`` for the next page; None where this is the last one.
        """
        n = check_integer("limit", limit, low=1, high=_MOST_ROWS_OF_A_PAGE)
        return self._asked(lambda reader: reader.scroll(filter, n, after))

    def refresh(self) -> bool:
        """Take over what other processes have changed in the folder. With a store, all rows are read again.

        Returns
        -------
        bool
            Whether there was something new.
        """
        with self._changing:
            return self._rows.refresh()

    def warm(self) -> Self:
        """Prepare what the first search would otherwise wait for: compiled loops, the hasher, tables.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        self._rows.reader.warm()
        return self

    def __len__(self) -> int:
        return len(self._reader)

    def __contains__(self, id: Any) -> bool:
        """Is there a row with this id?"""
        return id in self._reader

    def __iter__(self) -> Iterator[Any]:
        """The ids, ascending, as they are when the iteration begins."""
        return iter(self.ids.tolist())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hasher!r}, {len(self)} vectors)"

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, ascending: int64, or objects that are strings."""
        return self._reader.ids

    @property
    def hasher(self) -> Any:
        """The hasher or pipeline that makes the codes."""
        return self._rows.reader.hasher.hasher

    @property
    def metric(self) -> str:
        return self._rows.reader.hasher.metric

    @property
    def query(self) -> str:
        return self._rows.reader.hasher.query

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._rows.reader.hasher.n_bits

    @property
    def keep_vectors(self) -> str | None:
        return self._rows.keep_vectors

    @property
    def text_field(self) -> str | None:
        """The payload field that is searched by its words; None where there is none."""
        return self._rows.text_field

    @property
    def encoder(self) -> Encoder | None:
        """What turns texts or images into vectors; it is read from the folder when it is first asked for."""
        if self._encoder is None and self.folder is not None and (self.folder / ENCODER_FILE).is_file():
            self._encoder = load_encoder(self.folder / ENCODER_FILE)
        return self._encoder

    @property
    def folder(self) -> Path | None:
        """Where it was opened from or saved to."""
        return self._rows.folder

    @property
    def moment(self) -> Any:
        """An object that stands for the rows as they are now: after a change it is another one."""
        return self._rows.reader if isinstance(self._rows, CatalogRows) else None

    @property
    def store(self) -> Any:
        """The store, or its URI, that the rows live in; None if they do not."""
        return self._rows.place

    @property
    def index(self) -> Index:
        """A copy, at no cost, of the index of the codes. Its ids are numbers of rows, in the order of their adding."""
        return self._reader.index.copy()

    @property
    def has_lists(self) -> bool:
        """Are candidates looked for in lists, so that a search finds the share of neighbors that its recall says?"""
        return self._rows.reader.lists is not None

    @property
    def list_sizes(self) -> NDArray[np.int64] | None:
        """How many rows each list has, removed ones included; None where there are no lists."""
        lists = self._rows.reader.lists
        return None if lists is None else lists.sizes

    @property
    def clipped_share(self) -> float | None:
        """The share of kept values that were beyond the range of the fit; None where vectors are not kept as int8."""
        return self._rows.clipped_share

    def _asked(self, ask: Any) -> Any:
        """The answer of a reader of the rows; another is asked where they were compacted meanwhile."""
        while True:
            rows, reader = self._rows, self._reader
            try:
                return ask(reader)
            except OutdatedError:
                with self._changing:
                    if rows.reader is reader and (rows.folder is None or not rows.refresh()):
                        raise

    @property
    def _reader(self) -> Any:
        """The rows as they are now."""
        if self._follows:
            self.refresh()
        return self._rows.reader

    def _of_images(self, X: Any, images: Any) -> Any:
        """The vectors of images."""
        if X is not None:
            raise TypeError("X must be None where images are given")
        return encoded_images(self.encoder, images)


def _checked_names(include: Any) -> list[str]:
    return [check_choice("include", name, _INCLUDED) for name in ([include] if isinstance(include, str) else include)]
