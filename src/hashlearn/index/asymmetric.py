"""The index for real queries: codes in, nearest codes by the query's own numbers out.

A Hamming distance knows of the query only the signs of its scores. Here the query stays real: each bit has a weight,
and the distance is the sum of the weights with the signs of the code's bits, plus a correction of the code. See
:mod:`hashlearn.index.kernels.rounding` for how exact that is.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.checks import check_matrix, check_number
from hashlearn.codes import Corrections
from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.index.base import CodeIndex, check_k, filled_up, found_in_blocks, joined_ranges, nearest_of, packed
from hashlearn.index.choose import Shown
from hashlearn.index.code_table import CodeTable, Segment
from hashlearn.index.kernels.asymmetric import (
    POSITION_MASK,
    QUERY_SHIFT,
    SUM_BITS,
    Codes,
    knn_scan,
    range_scan,
    sums_of_hits,
)
from hashlearn.index.kernels.look_up import TABLE
from hashlearn.index.kernels.rounding import QuantizedQueries, all_finite, n_table_entries, quantize, sum_type
from hashlearn.index.kernels.tiles import byte_layout, n_tiles
from hashlearn.index.scan import Keys, Part, RangeScan, in_pieces, knn_in_parts
from hashlearn.threads import check_n_jobs, split

_BYTES_WITH_BOUNDS = 16  # codes that are found faster by bounds of 8 bits first
_LARGEST = float(np.finfo(np.float32).max)


class Affine(NamedTuple):
    """What the corrections of an index stand for: ``offset + scale * byte``."""

    scale: float
    offset: float


NO_CORRECTIONS = Affine(0.0, 0.0)


@dataclass(eq=False)
class RealEngine:
    """Search over the codes of a segment: quantized weights in, positions out, as kernels give them."""

    segment: Segment

    def knn(self, weights: QuantizedQueries, k: int, n_jobs: int, shown: Shown) -> Keys:
        """The k nearest codes, of at least k that are shown, as sorted keys ``sum << 36 | position``."""
        codes, largest = self._codes, self._largest_sum
        if shown.alive.size:
            codes = codes._replace(alive=shown.alive)

        def scan(query_part: Part, tile_part: Part, keys: Keys) -> None:
            bounds = None
            if codes.n_bytes <= _BYTES_WITH_BOUNDS:
                bounds = np.empty(len(keys) * (codes.n_bytes + 1) * 2 * TABLE, np.uint8)
            knn_scan(codes, tile_part, weights.tables(*query_part), bounds, k, largest, keys)

        return knn_in_parts(scan, len(weights.units), len(self.segment), k, n_jobs)

    def nearest(self, queries: QuantizedQueries, k: int, n_jobs: int, shown: Shown) -> Neighbors:
        """The k nearest codes, of at least k that are shown, by their distances and ids."""
        keys = self.knn(queries, k, n_jobs, shown)
        distances, positions = queries.read_keys(keys)
        return Neighbors(distances, self.segment.ids_at(positions))

    def within(
        self, weights: NDArray[np.float32], affine: Affine, distance: float, n_jobs: int, shown: Shown
    ) -> RangeResult:
        """All codes that are shown at a distance or less."""

        def found(part: slice) -> tuple[Keys, NDArray[np.float32], Keys]:
            quantized = quantize(weights[part], self.segment.n_bits, *affine)
            hits, sums = self._range(quantized, distance, n_jobs, shown)
            query = hits >> QUERY_SHIFT
            return query, quantized.estimates(query, sums), self.segment.ids_at(hits & POSITION_MASK)

        return found_in_blocks(len(weights), found, np.float32)

    def _range(self, weights: QuantizedQueries, distance: float, n_jobs: int, shown: Shown) -> tuple[Keys, Keys]:
        """Hits ``query << 54 | position`` of at most 512 queries and their sums, by query, sum and position."""
        limits = weights.limits(distance)
        most = np.minimum((limits - 1) // weights.divisors + 1, int(self._largest_sum))
        thresholds = most.astype(self._largest_sum.dtype)
        codes, queries = self._codes._replace(alive=shown.alive), weights.tables(0, len(limits))
        scans = [
            RangeScan(
                partial(range_scan, codes, last, queries, limits, thresholds, np.zeros(1, np.uint64)), first, last
            )
            for first, last in split(n_tiles(len(self.segment)), n_jobs)
        ]
        hits = np.sort(np.concatenate(list(in_pieces(scans, n_jobs))))
        sums = np.empty(len(hits), np.int64)
        sums_of_hits(codes, queries, hits, sums)
        order = np.argsort((hits >> QUERY_SHIFT << SUM_BITS) | sums, kind="stable")
        return hits[order], sums[order]

    @cached_property
    def _largest_sum(self) -> np.unsignedinteger:
        dtype = sum_type(self.segment.n_bits)
        return dtype.type(np.iinfo(dtype).max)

    @cached_property
    def _codes(self) -> Codes:
        segment = self.segment
        return Codes(segment.tiles.front, segment.corrections, segment.layout.n_words, len(segment))


class AsymmetricIndex(CodeIndex[RealEngine]):
    """Nearest codes of real queries.

    The distance of a query with weights w from a code b in {-1, 1}^n_bits is estimated as ``c + sum(w * b)``, with a
    correction c of the code or without; or, with 16 weights for each four bits, as c and the sum of the weights that
    these bits choose. The search computes with integers that are about as exact as single precision (see
    :mod:`hashlearn.index.kernels.rounding`); for these the result is exact. A distance may be negative: what is the
    same for all codes, such as the length of the query, is left out.

    A code takes n_bits / 8 bytes, one more with corrections, and 8 more where the ids are not running numbers

    Threads share it as :class:`HammingIndex` says.

    Parameters
    ----------
    n_bits : int or None
        Length of a code, 1 to 16384. None takes all bits of the first codes: 8 times their width in bytes.
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

    _layout = staticmethod(byte_layout)
    _engine = RealEngine
    _purpose = "real queries"
    _takes_corrections = True
    _most_bits = 16384

    @property
    def corrections(self) -> Corrections | None:
        """The corrections of all codes, in the order of :attr:`ids`, or None where they were added without."""
        table = self.view.table
        values = table.live().corrections
        return None if values is None else Corrections(values, *_affine_of(table))

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None, corrections: Corrections | None = None) -> Self:
        """Add codes.

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

        def change(table: CodeTable) -> CodeTable:
            new = packed(codes, table)
            return _fitting(table, corrections).added(new, ids, _values(corrections))

        return self._change(change, codes)

    def upsert(self, codes: ArrayLike, ids: ArrayLike, corrections: Corrections | None = None) -> Self:
        """Add codes, in the place of those that have the same ids.

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

        def change(table: CodeTable) -> CodeTable:
            new = packed(codes, table)
            return _fitting(table, corrections).upserted(new, ids, _values(corrections))

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
            Look only among these codes; a mask is in the order of :attr:`ids`, or has a place for each of the numbers
            0 to ``next_id - 1``.
        n_jobs : int or None
            Threads: None is 1, -1 is all cores.

        Returns
        -------
        distances, ids : float32 and int64 arrays of shape (n_queries, k)
            Nearest first, ties by the lowest id.
        """
        checked = _check_weights(weights, self.view.table)
        view = self._looked_at(subset, len(checked))
        parts = view.parts()
        k = check_k(k, sum(shown.n_shown for _, shown in parts))
        threads = 1 if n_jobs is None else check_n_jobs(n_jobs)
        if not parts or not len(checked):
            nothing = Neighbors(np.empty((len(checked), 0), np.float32), np.empty((len(checked), 0), np.int64))
            return filled_up(nothing, k, np.inf)
        queries = quantize(checked, view.table.n_bits, *_affine_of(view.table))
        found = [engine.nearest(queries, min(k, shown.n_shown), threads, shown) for engine, shown in parts]
        return filled_up(nearest_of(found, k, in_order=view.table.in_order), k, np.inf)

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
        checked = _check_weights(weights, self.view.table)
        distance = check_number("distance", distance)
        view = self._looked_at(subset, len(checked))
        threads = check_n_jobs(n_jobs)
        affine = _affine_of(view.table)
        found = [engine.within(checked, affine, distance, threads, shown) for engine, shown in view.parts()]
        if not found:
            return RangeResult(np.zeros(len(checked) + 1, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))
        return joined_ranges(found, in_order=view.table.in_order)


def _check_weights(weights: ArrayLike, table: CodeTable) -> NDArray[np.float32]:
    array = np.asarray(weights)
    widths = table.n_bits, n_table_entries(table.n_bits)
    plain = array.dtype == np.float32 and array.ndim == 2 and array.flags.carray  # the one type of the kernels
    if plain and array.shape[1] in widths and all_finite(array):
        return array
    has_tables = np.shape(weights)[1:] == widths[1:]
    checked = check_matrix("weights", weights, (None, np.shape(weights)[1] if has_tables else table.n_bits or None))
    largest = np.abs(checked).max(initial=0.0)
    if largest > _LARGEST:
        raise ValueError(f"weights must be numbers of single precision, below {_LARGEST:.2g}, got {largest:.2g}")
    return checked.astype(np.float32)


def _affine_of(table: CodeTable) -> Affine:
    return Affine(*table.metadata["corrections"]) if table.corrected else NO_CORRECTIONS


def _fitting(table: CodeTable, corrections: Any) -> CodeTable:
    """The table, or one for codes with corrections where these are the first codes; raises where they do not fit."""
    affine = None if corrections is None else _affine(corrections)
    if affine is not None and not table.corrected and table.next_id == 0:
        metadata = {**table.metadata, "corrections": list(affine)}
        return CodeTable.empty(table.n_bits, table.layout, corrections=True, metadata=metadata)
    own = _affine_of(table) if table.corrected else None
    if affine is None and own is not None:
        raise ValueError("corrections must be given: the codes of this index have them")
    if affine is not None and own is not None and affine != own:
        raise ValueError(f"corrections must have the index's {_text(own)}, got {_text(affine)}")
    return table


def _values(corrections: Corrections | None) -> ArrayLike | None:
    return None if corrections is None else corrections[0]


def _affine(corrections: Any) -> Affine:
    if not isinstance(corrections, tuple) or len(corrections) != 3:
        raise TypeError(f"corrections must be hashlearn.Corrections, got {type(corrections).__name__}")
    _, scale, offset = corrections
    return Affine(
        check_number("the scale of corrections", scale, low=1e-30, high=1e30),
        check_number("the offset of corrections", offset, low=-_LARGEST, high=_LARGEST),
    )


def _text(affine: Affine) -> str:
    return f"scale {affine.scale:g} and offset {affine.offset:g}"
