"""The public class: codes, payloads and vectors in a database, searched by Hamming distance."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_integer
from hashlearn.codes import Corrections, check_codes
from hashlearn.codes.results import NO_DISTANCE, NO_ID, Neighbors, RangeResult
from hashlearn.stores.arguments import (
    check_corrections,
    check_ids,
    check_key,
    check_new_ids,
    check_vectors,
    distinct,
    payload_of,
    payload_texts,
)
from hashlearn.stores.base import (
    Block,
    CorrectionScale,
    Description,
    Hits,
    IdType,
    Rows,
    StoreEngine,
    StoreRecord,
    id_array,
)
from hashlearn.stores.filters import parse_filter

BLOCK_ROWS = 1 << 16


class Store:
    """Codes in a database; :func:`~hashlearn.stores.open_store` makes one.

    Arguments are checked before the database sees them. An error of the database becomes one line: a ``ValueError``, or
    a ``ConnectionError`` if the database cannot be reached or another process keeps it locked. Ids are integers of at
    least 0, or strings, one kind in a store. A payload is a dict of JSON values.

    Searching is exact unless the store was opened with an ``index``. Several threads may use one store.

    A store made with ``corrections`` keeps codes for real queries, such as those of ABH, and one byte beside each. It
    does not search these codes: :class:`hashlearn.SimilaritySearch` does, in memory.

    Examples
    --------
    >>> from hashlearn.stores import open_store
    >>> folder = getfixture("tmp_path")  # any folder
    >>> codes = np.array([[0b11110000], [0b11111111], [0b00001111]], dtype=np.uint8)
    >>> with open_store(f"duckdb://{folder}/codes.duckdb", n_bits=8, id_type="str", create=True) as store:
    ...     store.upsert(["a", "b", "c"], codes, payloads=[{"year": 2019}, {"year": 2024}, {"year": 2024}])
    ...     store.search(codes[:1], k=2, filter={"year": {"$gte": 2020}})
    Neighbors: 2 of 1 query, id (distance), nearest first
      'b' (4), 'c' (8)
    """

    def __init__(self, engine: StoreEngine, description: Description, uri: str, exact: bool):
        self._engine = engine
        self._description = description
        self.uri = uri
        self.exact = exact

    def __repr__(self) -> str:
        return f"Store({self.uri!r}, n_bits={self.n_bits}, id_type={self.id_type!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.count()

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._description.n_bits

    @property
    def id_type(self) -> IdType:
        """Kind of the ids: "int64" or "str"."""
        return self._description.id_type

    @property
    def n_features(self) -> int | None:
        """Length of the vectors that are kept with the codes; None if the store keeps none."""
        return self._description.n_features

    @property
    def model(self) -> str | None:
        """Digest of the model that made the codes, if it is known."""
        return self._description.model

    @property
    def corrections(self) -> CorrectionScale | None:
        """Scale and offset of the correction bytes; None if the codes have none and are compared by their bits."""
        return self._description.corrections

    def upsert(
        self,
        ids: ArrayLike,
        codes: ArrayLike,
        vectors: ArrayLike | None = None,
        payloads: list | None = None,
        corrections: ArrayLike | Corrections | None = None,
    ) -> None:
        """Write rows; a row with a known id replaces the whole old row, payload and vector included.

        Parameters
        ----------
        ids : list or array of n integers >= 0, or of n strings
            No id twice. A string has no control characters and at most 1,024 bytes.
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        vectors : array of shape (n, n_features) or None
            Required if the store keeps vectors, otherwise not allowed. They are kept as float32.
        payloads : list of n dicts, or None
            None, or None in place of a dict, is no payload.
        corrections : array of shape (n,), uint8, or Corrections, or None
            Required if the store was made with ``corrections``, otherwise not allowed: the result of
            ``hasher.corrections(X, codes)``, or its bytes alone.
        """
        packed = check_codes(codes, self.n_bits)
        n = len(packed)
        checked = check_new_ids(ids, self.id_type, n)
        rows = Rows(
            checked,
            packed,
            payload_texts(payloads, n),
            check_vectors(vectors, n, self.n_features),
            check_corrections(corrections, n, self.corrections),
        )
        if n:
            with self._explained():
                self._engine.upsert(rows)

    def delete(self, ids: ArrayLike) -> int:
        """Remove rows; unknown ids are ignored.

        Parameters
        ----------
        ids : list or array of integers >= 0, or of strings
            Of the kind that the store has.

        Returns
        -------
        int
            How many rows were removed.
        """
        checked = check_ids(ids, self.id_type)
        if not len(checked):
            return 0
        with self._explained():
            return self._engine.delete(distinct(checked))

    def get(self, ids: ArrayLike) -> list[StoreRecord]:
        """Read rows back, without their vectors.

        Parameters
        ----------
        ids : list or array of integers >= 0, or of strings
            Of the kind that the store has.

        Returns
        -------
        list of StoreRecord
            ``id``, ``code``, ``payload`` and ``correction``, in the order of the ids; unknown ids are left out.
        """
        checked = check_ids(ids, self.id_type)
        if not len(checked):
            return []
        with self._explained():
            found = {row[0]: row for row in self._engine.get(distinct(checked))}
        records = []
        for id in checked.tolist():
            if id in found:
                _, code, payload, correction = found[id]
                records.append(StoreRecord(id, np.frombuffer(code, np.uint8), payload_of(payload), correction))
        return records

    def vectors(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Read vectors back.

        Parameters
        ----------
        ids : list or array of integers >= 0, or of strings
            Of the kind that the store has.

        Returns
        -------
        ndarray of shape (n, n_features), float32
            In the order of the ids. Raises ValueError for an unknown id.
        """
        if self.n_features is None:
            raise ValueError(f"{self.uri} keeps no vectors: it was made without n_features")
        checked = check_ids(ids, self.id_type)
        kept = self.find_vectors(checked)
        missing = np.isnan(kept).any(axis=1)
        if missing.any():
            raise ValueError(f"ids must be in the store, got {checked[missing].tolist()[0]!r}, which is not")
        return kept

    def find_vectors(self, ids: ArrayLike) -> NDArray[np.float32]:
        """As :meth:`vectors`, with rows of NaN for unknown ids.

        Parameters
        ----------
        ids : list or array of integers >= 0, or of strings
            Of the kind that the store has.

        Returns
        -------
        ndarray of shape (n, n_features), float32
            In the order of the ids.
        """
        if self.n_features is None:
            raise ValueError(f"{self.uri} keeps no vectors: it was made without n_features")
        checked = check_ids(ids, self.id_type)
        with self._explained():
            found = dict(self._engine.vectors(distinct(checked))) if len(checked) else {}
        kept = np.full((len(checked), self.n_features), np.nan, np.float32)
        for row, id in enumerate(checked.tolist()):
            if id in found:
                kept[row] = found[id]
        return kept

    def count(self, filter: dict | None = None) -> int:
        """The number of rows, or of rows that meet a filter.

        Parameters
        ----------
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.

        Returns
        -------
        int
            Number of rows.
        """
        condition = parse_filter(filter)
        with self._explained():
            return self._engine.count(condition)

    def search(self, codes: ArrayLike, k: int = 10, filter: dict | None = None) -> Neighbors:
        """The k nearest codes of each query. Refused in a store of codes with corrections.

        Parameters
        ----------
        codes : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes of queries.
        k : int
            At least 1. If fewer codes meet the filter, the empty places have distance 2147483647 and id -1 (None for
            strings).
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.

        Returns
        -------
        distances, ids : arrays of shape (n_queries, k), int32 and int64 or objects that are strings
            Nearest first, ties by the lowest id, strings by their code points.
        """
        self._refuse_real_queries()
        queries = check_codes(codes, self.n_bits)
        k = check_integer("k", k, low=1)
        condition = parse_filter(filter)
        with self._explained():
            found = self._engine.nearest(queries, k, condition) if len(queries) else []
        return self._neighbors(found, k)

    def within(self, codes: ArrayLike, radius: int, filter: dict | None = None) -> RangeResult:
        """All codes at distance ``radius`` or less of each query; exact even if the store has an index.

        Refused in a store of codes with corrections.

        Parameters
        ----------
        codes : array of shape (n_queries, ceil(n_bits / 8)), uint8
            Packed codes of queries.
        radius : int
            At least 0.
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.

        Returns
        -------
        RangeResult
            ``result[q]`` has distances and ids of query q, nearest first, ties by the lowest id.
        """
        self._refuse_real_queries()
        queries = check_codes(codes, self.n_bits)
        radius = min(check_integer("radius", radius, low=0), self.n_bits)
        condition = parse_filter(filter)
        with self._explained():
            found = self._engine.within(queries, radius, condition) if len(queries) else []
        hits = [hit for each in found for hit in each]
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        distances = np.array([distance for distance, _ in hits], np.int32)
        return RangeResult(offsets, distances, id_array([id for _, id in hits], self.id_type))

    def scan(
        self, block_rows: int = BLOCK_ROWS, filter: dict | None = None, *, payloads: bool = False
    ) -> Iterator[Block]:
        """All rows, or those that meet a filter, a block at a time, in any order.

        Parameters
        ----------
        block_rows : int
            Rows of a block at most; memory holds one block.
        filter : dict or None
            A condition on the payloads; see :mod:`hashlearn.stores.filters`.
        payloads : bool
            Whether blocks include payloads.

        Returns
        -------
        iterator of Block
            ``ids``, ``codes``, ``payloads`` and ``corrections``, which are None if the store has none. A row that is
            written during the scan may be missed or seen in its old state.
        """
        block_rows = check_integer("block_rows", block_rows, low=1)
        return self._scan(self._engine.blocks(block_rows, parse_filter(filter), payloads))

    def note(self, key: str) -> str | None:
        """The text that :meth:`keep_note` has stored beside the codes.

        Parameters
        ----------
        key : str
            Letters, digits, spaces and ``_.-``, at most 100 of them.

        Returns
        -------
        str or None
            None if there is no such note.
        """
        with self._explained():
            return self._engine.note(check_key(key))

    def keep_note(self, key: str, text: str) -> None:
        """Store a short text beside the codes; it replaces an older text under this key.

        Parameters
        ----------
        key : str
            As for :meth:`note`.
        text : str
            What to keep.
        """
        with self._explained():
            self._engine.keep_note(check_key(key), text)

    def drop_note(self, key: str) -> None:
        """Remove the text under this key, if there is one.

        Parameters
        ----------
        key : str
            As for :meth:`note`.
        """
        with self._explained():
            self._engine.drop_note(check_key(key))

    def compact(self) -> None:
        """Tidy up the database after many writes; searches are faster afterwards."""
        with self._explained():
            self._engine.compact()

    def close(self) -> None:
        """Close files and connections."""
        self._engine.close()

    def _refuse_real_queries(self) -> None:
        if self.corrections is not None:
            raise ValueError(
                f"{self.uri} holds codes with corrections, as those of ABH, which are not compared by their bits; take "
                f"SimilaritySearch(hasher, store={self.uri!r}), which searches a mirror in memory"
            )

    def _scan(self, blocks: Iterator[Block]) -> Iterator[Block]:
        with self._explained():
            for block in blocks:
                payloads = None if block.payloads is None else [payload_of(text) for text in block.payloads]
                yield block._replace(payloads=payloads)

    def _neighbors(self, found: list[Hits], k: int) -> Neighbors:
        distances = np.full((len(found), k), NO_DISTANCE, np.int32)
        ids = np.full((len(found), k), *((NO_ID, np.int64) if self.id_type == "int64" else (None, object)))
        for row, hits in enumerate(found):
            if hits:
                distances[row, : len(hits)], ids[row, : len(hits)] = zip(*hits)
        return Neighbors(distances, ids)

    def _explained(self) -> Any:
        return explained(self._engine.errors, self._engine.explain)


@contextmanager
def explained(errors: tuple[type[Exception], ...], explain: Callable[[Exception], Exception]) -> Iterator[None]:
    """Turn exceptions of the database into errors of one line."""
    try:
        yield
    except errors as error:
        raise explain(error) from error
