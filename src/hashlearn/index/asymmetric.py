"""The index for real queries: codes in, nearest codes by the query's own numbers out.

A Hamming distance knows of the query only the signs of its scores. Here the query stays real: each bit has a weight,
and the distance is the sum of the weights with the signs of the code's bits, plus a correction of the code. See
:mod:`hashlearn.index.weights` for how exact that is.
"""

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_matrix, check_number
from hashlearn.codes import Corrections
from hashlearn.codes.results import NO_ID, Neighbors, RangeResult
from hashlearn.index.base import CodeIndex, check_k, packed
from hashlearn.index.code_table import CodeTable
from hashlearn.index.kernels.asymmetric import (
    POSITION_BITS,
    POSITION_MASK,
    QUERIES_PER_BLOCK,
    QUERY_SHIFT,
    SUM_BITS,
    Codes,
    knn_scan,
    range_scan,
)
from hashlearn.index.kernels.look_up import TABLE
from hashlearn.index.kernels.rounding import all_finite
from hashlearn.index.kernels.tiles import byte_layout, n_tiles
from hashlearn.index.scan import Keys, Part, RangeScan, in_pieces, knn_in_parts
from hashlearn.index.weights import QuantizedQueries, n_table_entries, quantize, sum_type
from hashlearn.threads import check_n_jobs, split

_BYTES_WITH_BOUNDS = 16  # codes that are found faster by bounds of 8 bits first
_LARGEST = float(np.finfo(np.float32).max)


class Affine(NamedTuple):
    """What the corrections of an index stand for: ``offset + scale * byte``."""

    scale: float
    offset: float


NO_CORRECTIONS = Affine(0.0, 0.0)


class RealEngine:
    """Search over the codes of a store as it is now: quantized weights in, positions out, as kernels give them."""

    def __init__(self, store: CodeTable):
        self.store = store

    @cached_property
    def affine(self) -> Affine:
        return Affine(*self.store.metadata["corrections"]) if self.store.corrected else NO_CORRECTIONS

    def quantize(self, weights: NDArray[np.float32]) -> QuantizedQueries:
        return quantize(weights, self.store.n_bits, *self.affine)

    def knn(self, weights: QuantizedQueries, k: int, n_jobs: int) -> Keys:
        """The k nearest codes, k <= len(store), as sorted keys ``sum << 36 | position`` of shape (n_queries, k)."""
        codes, limit = self._codes, self._largest_sum

        def scan(query_part: Part, tile_part: Part, keys: Keys) -> None:
            bounds = None
            if codes.n_bytes <= _BYTES_WITH_BOUNDS:
                bounds = np.empty(len(keys) * (codes.n_bytes + 1) * 2 * TABLE, np.uint8)
            knn_scan(codes, *tile_part, weights.tables(*query_part), bounds, k, limit, keys)

        return knn_in_parts(scan, len(weights.steps), n_tiles(len(self.store)), k, n_jobs)

    def nearest(self, weights: NDArray[np.float32], k: int, n_jobs: int) -> Neighbors:
        """The k nearest codes, k <= len(store), by their distances and ids."""
        queries = self.quantize(weights)
        keys = self.knn(queries, k, n_jobs)
        distances, positions = queries.read_keys(keys)
        return Neighbors(distances, self.store.ids_at(positions))

    def range(self, weights: QuantizedQueries, distance: float, n_jobs: int) -> Keys:
        """Sorted hits ``query << 54 | sum << 36 | position`` of at most 512 queries."""
        limits = np.minimum(weights.limits(distance), int(self._largest_sum)).astype(self._largest_sum.dtype)
        codes, queries = self._codes, weights.tables(0, len(limits))
        scans = [
            RangeScan(partial(range_scan, codes, last, queries, limits, np.zeros(1, np.uint64)), first, last)
            for first, last in split(n_tiles(len(self.store)), n_jobs)
        ]
        return np.sort(np.concatenate(list(in_pieces(scans, n_jobs))))

    @cached_property
    def _largest_sum(self) -> np.unsignedinteger:
        dtype = sum_type(self.store.n_bits)
        return dtype.type(np.iinfo(dtype).max)

    @cached_property
    def _codes(self) -> Codes:
        store = self.store
        corrections = store.arrays.get("corrections")
        if corrections is not None:
            corrections = corrections.view()
            corrections.flags.writeable = False  # one type for the kernels, whether in memory or in a mapped file
        return Codes(store.tiles.front, corrections, store.layout.n_words, len(store))


class AsymmetricIndex(CodeIndex[RealEngine]):
    """Nearest codes of real queries.

    The distance of a query with weights w from a code b in {-1, 1}^n_bits is estimated as ``c + sum(w * b)``, with a
    correction c of the code or without; or, with 16 weights for each four bits, as c and the sum of the weights that
    these bits choose. Weights are rounded to multiples of a step, at least 31 steps to the largest
    (see :mod:`hashlearn.index.weights`); for these weights the result is exact. A distance may be negative: what is
    the same for all codes, such as the length of the query, is left out.

    A code takes n_bits / 8 bytes, one more with corrections, and 8 more where the ids are not 0, 1, 2, ...

    Threads share it as :class:`HammingIndex` says.

    Parameters
    ----------
    n_bits : int or None
        Length of a code, 1 to 4096. None takes all bits of the first codes: 8 times their width in bytes.
    model : str or None
        The digest of the model that made the codes, kept with them and saved with them.

    Examples
    --------
    Bits and scores of any hasher: a code is near where its bits agree with the signs of large scores.

    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> hasher = ITQ(n_bits=64, random_state=0).fit(X)
    >>> index = AsymmetricIndex(n_bits=64).add(hasher.transform(X))
    >>> index.search(-hasher.decision_function(X[:3]), k=1).ids.tolist()
    [[0], [1], [2]]

    With corrections, here of 0 and 0.5:

    >>> corrections = Corrections(np.array([0, 5], np.uint8), scale=0.1, offset=0.0)
    >>> index = AsymmetricIndex(8).add(np.array([[0b11000000]] * 2, np.uint8), corrections=corrections)
    >>> index.search([[-1, 2, 0, 0, 0, 0, 0, 0]], k=2).distances.round(1)
    array([[1. , 1.5]], dtype=float32)
    """

    def _empty_store(self, n_bits: int, metadata: Mapping[str, Any]) -> CodeTable:
        return CodeTable.empty(n_bits, byte_layout(n_bits or 1), metadata=metadata)

    def _engine_of(self, store: CodeTable) -> RealEngine:
        return RealEngine(store)

    @property
    def corrections(self) -> Corrections | None:
        """The corrections of all codes, in the order of :attr:`ids`, or None where they were added without."""
        engine = self._engine
        values = engine.store.corrections
        return None if values is None else Corrections(values, *engine.affine)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None, corrections: Corrections | None = None) -> Self:
        """Add codes.

        Codes behind the others, in the order of their ids, take the time to write them; elsewhere all codes are copied.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array of shape (n,), integers >= 0, or None
            Not yet in the index. By default running numbers: one more than the largest id there has ever been, and so
            on.
        corrections : Corrections or None
            One for every code. Either all codes of an index have one or none has, and all have the same scale and
            offset; the first codes decide.

        Returns
        -------
        AsymmetricIndex
            This object.
        """

        def change(store: CodeTable) -> CodeTable:
            new = packed(codes, store)
            return _fitting(store, corrections).added(new, ids, _values(corrections))

        return self._change(change, codes)

    def upsert(self, codes: ArrayLike, ids: ArrayLike, corrections: Corrections | None = None) -> Self:
        """Add codes, in the place of those that have the same ids. All codes are copied, unless all ids are above.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array of shape (n,), integers >= 0
            Each only once.
        corrections : Corrections or None
            As in :meth:`add`.

        Returns
        -------
        AsymmetricIndex
            This object.
        """

        def change(store: CodeTable) -> CodeTable:
            new = packed(codes, store)
            return _fitting(store, corrections).upserted(new, ids, _values(corrections))

        return self._change(change, codes)

    def search(
        self, weights: ArrayLike, k: int = 10, *, subset: ArrayLike | None = None, n_jobs: int | None = None
    ) -> Neighbors:
        """The k nearest codes of each query.

        Parameters
        ----------
        weights : array of shape (n_queries, n_bits) or (n_queries, 16 * ceil(n_bits / 4))
            A negative weight draws the codes near whose bit is one. The ``query_weights`` of a hasher that has them;
            with a minus before it, the ``decision_function`` of any other. The wider array has 16 numbers for each four
            bits of a code: these bits, the first the highest, are the place of the number that counts.
        k : int
            At least 1, and at most the number of codes or 65536, whichever is more. Where the index has fewer codes,
            the places left over get id -1 and infinite distance.
        subset : array of ids, or boolean array of shape (len(index),), or None
            Look only among these codes, after one copy of them; a mask is in the order of :attr:`ids`.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : float32 and int64 arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id.
        """
        engine = self._engine
        checked = _check_weights(weights, engine.store)
        engine = self._restricted(engine, subset)
        k, threads = check_k(k, len(engine.store)), check_n_jobs(n_jobs)
        k_found = min(k, len(engine.store)) if len(checked) else 0
        if k_found:
            found = engine.nearest(checked, k_found, threads)
            if k_found == k:
                return found
        distances = np.full((len(checked), k), np.inf, np.float32)
        ids = np.full((len(checked), k), NO_ID, np.int64)
        if k_found:
            distances[:, :k_found], ids[:, :k_found] = found
        return Neighbors(distances, ids)

    def within(
        self, weights: ArrayLike, distance: float, *, subset: ArrayLike | None = None, n_jobs: int | None = None
    ) -> RangeResult:
        """All codes at a distance or less of each query.

        Parameters
        ----------
        weights : array of shape (n_queries, n_bits) or (n_queries, 16 * ceil(n_bits / 4))
            As in :meth:`search`.
        distance : float
            The largest distance; it may be negative.
        subset, n_jobs
            As in :meth:`search`.

        Returns
        -------
        RangeResult
            ``result[q]`` has distances and ids of query q, nearest first, ties by the lowest id. A hit takes 12 bytes.
        """
        engine = self._engine
        checked = _check_weights(weights, engine.store)
        distance = check_number("distance", distance)
        engine = self._restricted(engine, subset)
        threads = check_n_jobs(n_jobs)
        counts = np.zeros(len(checked), np.int64)
        distances, ids = [np.empty(0, np.float32)], [np.empty(0, np.int64)]
        for start in range(0, len(checked) if len(engine.store) else 0, QUERIES_PER_BLOCK):
            quantized = engine.quantize(checked[start : start + QUERIES_PER_BLOCK])
            hits = engine.range(quantized, distance, threads)
            query = hits >> QUERY_SHIFT
            counts[start : start + QUERIES_PER_BLOCK] = np.bincount(query, minlength=len(quantized.steps))
            sums = (hits >> POSITION_BITS) & ((1 << SUM_BITS) - 1)
            distances.append(quantized.estimates(query, sums))
            ids.append(engine.store.ids_at(hits & POSITION_MASK))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return RangeResult(offsets, np.concatenate(distances), np.concatenate(ids))

    @classmethod
    def _check_opened(cls, store: CodeTable) -> None:
        if store.layout != byte_layout(store.n_bits):
            raise ValueError("an index of another kind, not of codes for real queries")
        if store.corrected:
            _check_affine(*store.metadata.get("corrections", ()))


def _check_weights(weights: ArrayLike, store: CodeTable) -> NDArray[np.float32]:
    array = np.asarray(weights)
    widths = store.n_bits, n_table_entries(store.n_bits)
    plain = array.dtype == np.float32 and array.ndim == 2 and array.flags.carray  # the one type of the kernels
    if plain and array.shape[1] in widths and all_finite(array):
        return array
    has_tables = np.shape(weights)[1:] == widths[1:]
    checked = check_matrix("weights", weights, (None, np.shape(weights)[1] if has_tables else store.n_bits or None))
    largest = np.abs(checked).max(initial=0.0)
    if largest > _LARGEST:
        raise ValueError(f"weights must be numbers of single precision, below {_LARGEST:.2g}, got {largest:.2g}")
    return checked.astype(np.float32)


def _fitting(store: CodeTable, corrections: Any) -> CodeTable:
    """The store, or one for codes with corrections where these are the first codes; raises where they do not fit."""
    affine = None if corrections is None else _affine(corrections)
    if affine is not None and not store.corrected and store.next_id == 0:
        metadata = {**store.metadata, "corrections": list(affine)}
        return CodeTable.empty(store.n_bits, store.layout, corrections=True, metadata=metadata)
    own = RealEngine(store).affine if store.corrected else None
    if affine is None and own is not None:
        raise ValueError("corrections must be given: the codes of this index have them")
    if affine is not None and own is not None and affine != own:
        raise ValueError(f"corrections must have the index's {_text(own)}, got {_text(affine)}")
    return store


def _values(corrections: Corrections | None) -> ArrayLike | None:
    return None if corrections is None else corrections[0]


def _affine(corrections: Any) -> Affine:
    if not isinstance(corrections, tuple) or len(corrections) != 3:
        raise TypeError(f"corrections must be hashlearn.Corrections, got {type(corrections).__name__}")
    return _check_affine(*corrections[1:])


def _check_affine(scale: Any = None, offset: Any = None) -> Affine:
    return Affine(
        check_number("the scale of corrections", scale, low=1e-30, high=1e30),
        check_number("the offset of corrections", offset, low=-_LARGEST, high=_LARGEST),
    )


def _text(affine: Affine) -> str:
    return f"scale {affine.scale:g} and offset {affine.offset:g}"
