"""Vectors in, neighbors out: a hasher, an index, ids and payloads as one object, and as one folder."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from hashlearn import explore
from hashlearn.checks import check_choice, check_flag
from hashlearn.durable.files import write_bytes
from hashlearn.features.encoders import ENCODER_FILE, as_encoder, save_encoder
from hashlearn.index.code_table import thread_lock
from hashlearn.rows.inputs import plain_rows
from hashlearn.search.folder import SearchFolder
from hashlearn.search.guard import Guard, NearRow, put_guarded
from hashlearn.search.in_store import SEARCH_IN, MirroredRows, StoreLink, StoreRows
from hashlearn.search.lists import INDEXES
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.reading import SearchReading
from hashlearn.search.reencode import reencode
from hashlearn.search.rows import CatalogRows
from hashlearn.search.texts import TEXT_FIELD, check_texts, encoded_texts, with_texts
from hashlearn.search.tune import Tuning
from hashlearn.search.vector_records import DTYPES
from hashlearn.search.word_tables import check_text_field

if TYPE_CHECKING:
    from hashlearn.explore import CollectionMap, ShownNeighbors


class SimilaritySearch(SearchReading):
    """Search vectors by learned codes.

    Any number of threads may search while another changes the search: a call sees the rows as they were when it began,
    and waits for nobody. Changes wait for one another. A change that raises leaves the search as it was.

    A search that has a folder is durable: when :meth:`add`, :meth:`upsert` or :meth:`remove` returns, the change is on
    the disk; when it raises, nothing has changed. Several processes may have one folder open and change it.

    It can be sent to another process (pickled): one with a folder is opened there, rows in memory are copied, and a
    store is opened by its URI.

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
    folder : str, Path or None
        Where the search is kept, new or empty; it is made when the hasher is fitted. None keeps it in memory until
        :meth:`save`. A search that is there already is opened by :meth:`open`.
    store : str, Store or None
        Where rows live instead: the URI of a store (see :mod:`hashlearn.stores.uri`), or one that is open. A change is
        in the database when its call returns, and rows that are there already are found. A new store is made for the
        first rows, with vectors if ``keep_vectors`` says so.
    index : {"auto", "flat", "lists"}
        Where a search that keeps vectors looks for candidates. "flat": among all codes. "lists": once there are 1,000
        rows, in the nearest of many lists of rows only, which takes far less time where there are many rows. "auto":
        in lists from 100,000 rows on. The call that makes them takes longer. Rows of a store are searched flat.
    search_in : {"memory", "store"}
        Whether the codes of a store are mirrored in memory and searched there, or searched by the database.
    encoder : str, Encoder, model with ``encode``, function, or None
        What turns texts or images into vectors: a name (:func:`hashlearn.features.encoder_named`), a model of
        sentence-transformers, model2vec or fastembed, or a function of a list of texts or images. It is saved by its
        name.
    text_field : str or None
        The payload field that is searched by its words. None is "text" from the first ``add(texts=...)`` on.

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
        folder: str | Path | None = None,
        store: Any = None,
        index: str = "auto",
        search_in: str = "memory",
        encoder: Any = None,
        text_field: str | None = None,
    ):
        if keep_vectors is not None:
            check_choice("keep_vectors", keep_vectors, DTYPES)
        field = None if text_field is None else check_text_field(text_field)
        self._encoder = None if encoder is None else as_encoder(encoder)
        check_choice("search_in", search_in, SEARCH_IN)
        if check_choice("index", index, INDEXES) == "lists" and (keep_vectors is None or store is not None):
            raise ValueError(
                "index='lists' needs keep_vectors and no store: candidates of lists are compared by vectors"
            )
        own = MetricHasher.of(hasher, metric, query)
        self._wanted_folder = folder
        if store is not None:
            if folder is not None:
                raise ValueError("folder must be None where there is a store: the rows live in the store")
            link = StoreLink(store, own, keep_vectors is not None)
            self._begin(MirroredRows(link) if search_in == "memory" else StoreRows(link))
        elif search_in == "memory":
            if folder is not None and SearchFolder(folder).is_search:
                raise ValueError(f"folder must be new or empty, got {folder}: open it with SimilaritySearch.open")
            self._begin(CatalogRows(own, keep_vectors, index))
        else:
            raise ValueError("search_in='store' needs a store")
        self._rows.keep_words(field)

    def _begin(self, rows: CatalogRows | StoreRows) -> None:
        self._rows = rows
        self.near_rows: list[NearRow] = []
        """New rows that the last call with ``duplicates`` has found to be near others."""
        # Reentrant: an exception inside __exit__ must not deadlock this thread.
        self._changing = thread_lock()

    def __getstate__(self) -> Any:
        with self._changing:
            return *self._rows.pickled_parts(), self._encoder if self.folder is None else None, self._follows

    def __setstate__(self, made: Any) -> None:
        make, arguments, self._encoder, self._follows = made
        self._wanted_folder = None
        self._begin(make(*arguments))

    def fit(self, X: Any = None, *, texts: Any = None, images: Any = None, column: str | None = None) -> Self:
        """Learn the hash functions from rows; rows of an earlier fit are dropped, because their codes mean nothing now.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            At least two rows. They are not added.
        texts : list of str, or None
            Texts in place of X: an encoder that learns from texts learns from these, and makes the rows of them.
        images : list of paths, images of Pillow or arrays, or None
            Images in place of X: the encoder makes the rows of them.
        column : str or None
            The column of a table that holds the vectors, where it has several.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        if images is not None:
            X = self._of_images(X, images)
        if texts is not None:
            X = self._learned(X, texts)
        with self._changing:
            rows, before = plain_rows(X, column), dict(vars(self._rows))
            self._rows.refitted(self._rows.reader.hasher.fitted(rows), rows)
            try:
                self._settle()
            except BaseException:
                vars(self._rows).update(before)
                raise
        return self

    def add(
        self,
        X: Any = None,
        ids: Any = None,
        payloads: Any = None,
        *,
        texts: Any = None,
        images: Any = None,
        column: str | None = None,
        duplicates: str | None = None,
        max_distance: float | None = None,
    ) -> Self:
        """Encode vectors or texts and add them.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`), or None
            The vectors. None where the encoder makes them of texts or images.
        ids : list, array, Series or column of n integers >= 0, or of n strings, or None
            Not yet in the search; all ids of a search are of one kind. By default running numbers: one more than the
            largest there has ever been, and so on.
        payloads : list of n dicts, frame or table of n rows, or None
            Further fields of the rows: JSON values, for :meth:`get` and for filters. None is no payload.
        texts : list of n str, or None
            The texts of the rows, which are searched by their words; they are a field of the payload.
        images : list of n paths, images of Pillow or arrays, or None
            The encoder makes the vectors of them. They are not kept.
        column : str or None
            The column of a table that holds the vectors, where it has several.
        duplicates : {"skip", "flag", "error"} or None
            Compare every new row with all rows and with the new rows before it. Of one that is near another, "skip"
            adds nothing, "flag" adds it with the field ``duplicate_of`` in its payload, and "error" raises ValueError
            and adds no row at all. :attr:`near_rows` tells which they were.
        max_distance : float or None
            How near: a distance of the metric where vectors are kept, otherwise a number of bits.

        Returns
        -------
        SimilaritySearch
            This object.

        Examples
        --------
        >>> from hashlearn import LSH
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.01]], np.float32)
        >>> search = SimilaritySearch(LSH(n_bits=8, random_state=0), keep_vectors="float32").fit(X)
        >>> len(search.add(X, ids=["a", "b", "c"], duplicates="skip", max_distance=0.1))
        2
        >>> [(near.id, near.of) for near in search.near_rows]
        [('c', 'a')]
        """
        rows = X if images is None else self._of_images(X, images)
        return self._put(rows, ids, payloads, texts, column, _guard_of(duplicates, max_distance), only_new=True)

    def upsert(
        self,
        X: Any = None,
        ids: Any = None,
        payloads: Any = None,
        *,
        texts: Any = None,
        images: Any = None,
        column: str | None = None,
        duplicates: str | None = None,
        max_distance: float | None = None,
    ) -> Self:
        """As :meth:`add`, of ids that may be there already: the new rows, payloads included, take their places.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)
            The vectors.
        ids : list or array of n integers >= 0, or of n strings
            Each only once.
        payloads, texts, images, column, duplicates, max_distance
            As in :meth:`add`. A row is not near the row that it replaces.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        if ids is None:
            raise TypeError("ids must be given to upsert")
        rows = X if images is None else self._of_images(X, images)
        return self._put(rows, ids, payloads, texts, column, _guard_of(duplicates, max_distance), only_new=False)

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

    def tune(
        self,
        queries: ArrayLike | None = None,
        k: int = 10,
        target_recall: float = 0.95,
        *,
        keep: bool = True,
        other_n_bits: Sequence[int] | None = None,
    ) -> Tuning:
        """Find, and keep for later searches, how many candidates a wanted recall needs; see :func:`tune`.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features), or None
            None draws some of the kept vectors. Where the search has lists, what a recall needs there is measured
            again with these queries.
        k : int
            Neighbors of a query, at least 1.
        target_recall : float
            Share of the true k nearest, by the kept vectors, that is to be found.
        keep : bool
            False only measures; ``search.tuning = tuning`` keeps it then.
        other_n_bits : list of int, or None
            Lengths of code to learn and judge as well, which takes most of the time. None is twice and four times the
            length, unless 2 k candidates suffice already.

        Returns
        -------
        Tuning
            What was measured, and the number that was chosen; ``print`` shows it as a table.
        """
        tuning = self._rows.reader.tune(queries, k, target_recall, other_n_bits)
        if keep:
            self.tuning = tuning
            if queries is not None and isinstance(self._rows, CatalogRows) and self.has_lists:
                with self._changing:
                    self._rows.tune_lists(queries)
        return tuning

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Group changes: all that are made inside of the block are made at its end, or none if it raises.

        Searches see the changes when the block ends. Other threads and processes wait with their changes.

        Examples
        --------
        >>> from hashlearn import LSH
        >>> X = np.eye(4, dtype=np.float32)
        >>> search = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(X).add(X)
        >>> with search.transaction():
        ...     _ = search.remove([0]).upsert(X[:1] + 1, [7])
        >>> list(search)
        [1, 2, 3, 7]
        """
        with self._changing:
            self._settle()
            own = self._own_rows("transaction needs a folder or memory: a store makes every change at once")
            with own.transaction():
                yield self

    def compact(self) -> Self:
        """Free the space of removed and replaced rows; codes and vectors are written again.

        This happens by itself when more than half of the rows are removed.

        Returns
        -------
        SimilaritySearch
            This object.
        """
        with self._changing:
            self._rows.compact()
        return self

    def reencode(self, hasher: Any = None) -> Self:
        """Give all rows codes of another hasher, made from the kept vectors.

        Searches and changes go on meanwhile; then the new codes replace the old ones in one step. Ids, payloads, texts,
        vectors and lists stay. The result of :meth:`tune` is dropped. In a folder, finished work is kept if the process
        ends, and the next call with the same hasher continues it.

        Parameters
        ----------
        hasher : Hasher, pipeline that ends in one, or None
            A hasher that is not fitted learns from the kept vectors. None fits the hasher of the search again.

        Returns
        -------
        SimilaritySearch
            This object.

        Examples
        --------
        >>> from hashlearn import ITQ, LSH
        >>> X = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
        >>> search = SimilaritySearch(LSH(n_bits=8, random_state=0), keep_vectors="float32").fit(X).add(X)
        >>> search.reencode(ITQ(n_bits=4, random_state=0))
        SimilaritySearch(ITQ(n_bits=4, random_state=0), 100 vectors)
        """
        own = self._own_rows("reencode needs rows in memory or in a folder; add those of a store to a new store")
        if own.keep_vectors is None:
            raise ValueError("reencode needs the vectors of the rows; make the search with keep_vectors='float32'")
        with self._changing:
            own.refuse_inside_transaction("reencode")
            if own.folder is not None:  # it learns from all rows, also from those that others have added
                own.refresh()
        reencode(own, hasher, self._changing)
        return self

    def save(self, folder: str | Path | None = None) -> None:
        """Write a copy of the search to a folder; it is on the disk when this returns.

        The copy is of one moment, also while other threads and processes change the search. A search without a folder
        keeps this one: from then on, its changes are on the disk when their calls return.

        Parameters
        ----------
        folder : str, Path or None
            New, empty, or one with a saved search, which is replaced in one step. None, or the folder that the search
            has, writes nothing: everything is there.
        """
        own = self._own_rows(
            "the rows of this search are in its store already; hashlearn.save(search.hasher, folder) keeps the hasher"
        )
        with self._changing:
            before, target = own.folder, None if folder is None else Path(folder)
            own.save(folder)
            self._keep_encoder(target)
            if target is not None and before is not None and target.resolve() != before:
                if self._encoder is None and (before / ENCODER_FILE).is_file():
                    write_bytes(target / ENCODER_FILE, (before / ENCODER_FILE).read_bytes())
                explore.copy_map(before, target)

    @classmethod
    def open(cls, folder: str | Path, *, encoder: Any = None, follow: bool = False) -> Self:
        """Open a folder; codes and vectors are memory-mapped. One that cannot be written is opened for reading.

        Parameters
        ----------
        folder : str or Path
            The folder of a saved search.
        encoder : str, Encoder, model with ``encode``, function, or None
            In place of the encoder that was saved.
        follow : bool
            Whether every call that reads rows calls :meth:`refresh` first, and so sees what other processes have
            changed before it. Such a call waits for a change that another thread makes.

        Returns
        -------
        SimilaritySearch
            The rows as they are now.
        """
        search = cls.__new__(cls)
        search._follows = follow is not False and check_flag("follow", follow)
        search._wanted_folder = None
        search._encoder = None if encoder is None else as_encoder(encoder)
        search._begin(CatalogRows.open(folder))
        return search

    def show(
        self, query: Any, k: int = 10, *, picture: Callable[[Any], str] | None = None, **options: Any
    ) -> "ShownNeighbors":
        """The nearest rows of one query, as a notebook displays them: texts, fields and bars (extra ``report``).

        Parameters
        ----------
        query : array of shape (n_features,), or the id of a row
            A row is not its own neighbor; its id needs kept vectors.
        k : int
            How many.
        picture : function or None
            From an id to the address of a picture: a file, a URL or a data URI.
        **options : dict
            As in :meth:`search`.

        Returns
        -------
        ShownNeighbors
            Displayed as HTML in a notebook, and as lines of text elsewhere.
        """
        return explore.shown_neighbors(self, query, k, picture, **options)

    def map(self) -> "CollectionMap":
        """A point in the plane for every row, and clusters with names; near points are alike (extra ``map``).

        It is kept in the folder of the search, and extended when rows were added. Without the package openTSNE, points
        are the two principal components.

        Returns
        -------
        CollectionMap
            Displayed as a drawing in a notebook.
        """
        return explore.map_of(self)

    def close(self) -> None:
        """Close files and connections; the search cannot be used any more."""
        with self._changing:
            self._rows.close()

    def _put(
        self,
        X: Any,
        ids: Any,
        payloads: Any,
        texts: Any,
        column: str | None,
        guard: Guard | None,
        *,
        only_new: bool,
    ) -> Self:
        listed = None if texts is None else check_texts("texts", texts)
        if X is None and listed is None:
            raise TypeError("X, texts or images must be given")
        rows = encoded_texts(self.encoder, listed) if X is None and listed is not None else plain_rows(X, column)
        with self._changing:
            self._settle()
            if self._length_checks:
                self._length_checks = self._rows.reader.hasher.check_lengths(rows, self._length_checks)
            if listed is None:
                self._write(rows, ids, payloads, only_new, guard)
            else:
                self._put_texts(rows, ids, payloads, listed, only_new, guard)
        return self

    def _write(self, rows: Any, ids: Any, payloads: Any, only_new: bool, guard: Guard | None) -> None:
        if guard is None:
            self._rows.put(rows, ids, payloads, only_new=only_new)
        else:
            message = "duplicates must be None where there is a store: the guard is for rows in memory or in a folder"
            self.near_rows = put_guarded(self._own_rows(message), rows, ids, payloads, guard, only_new=only_new)

    def _put_texts(
        self, rows: Any, ids: Any, payloads: Any, texts: list[str], only_new: bool, guard: Guard | None
    ) -> None:
        field = self.text_field
        if field is not None:
            self._write(rows, ids, with_texts(payloads, field, texts), only_new, guard)
            return
        own = self._rows
        if isinstance(own, StoreRows):
            own.keep_words(TEXT_FIELD)
            return
        with own.changing():  # the first texts: their words are kept from this change on
            own.keep_words(TEXT_FIELD)
            self._write(rows, ids, with_texts(payloads, TEXT_FIELD, texts), only_new, guard)

    def _learned(self, X: Any, texts: Any) -> Any:
        """The rows that texts are, once the encoder has learned from them."""
        if X is not None:
            raise TypeError("X must be None where texts are given")
        listed, encoder = check_texts("texts", texts), self.encoder
        if encoder is not None:
            encoder.fit(listed)
        rows = encoded_texts(encoder, listed)
        self._keep_encoder(self.folder)
        return rows

    def _settle(self) -> None:
        """Make the folder that was wanted, once there is something to put into it."""
        if self._wanted_folder is not None:
            assert isinstance(self._rows, CatalogRows)
            self._rows.save(self._wanted_folder)
            self._wanted_folder = None
            self._keep_encoder(self.folder)

    def _own_rows(self, message: str) -> CatalogRows:
        """The rows, which are in memory or in a folder; ValueError where they are in a store."""
        if type(self._rows) is not CatalogRows:
            raise ValueError(message)
        return self._rows

    def _keep_encoder(self, folder: Path | None) -> None:
        if self._encoder is not None and folder is not None:
            save_encoder(self._encoder, folder / ENCODER_FILE)

    @property
    def tuning(self) -> Tuning | None:
        """What :meth:`tune` has found."""
        return self._rows.reader.tuning

    @tuning.setter
    def tuning(self, tuning: Tuning) -> None:
        with self._changing:
            self._rows.keep_tuning(tuning)


def _guard_of(duplicates: Any, max_distance: Any) -> Guard | None:
    """The guard that a caller asks for; None for none."""
    return None if duplicates is None and max_distance is None else Guard.checked(duplicates, max_distance)
