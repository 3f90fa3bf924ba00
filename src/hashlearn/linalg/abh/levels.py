"""Rows as sums of levels: each of some orthogonal directions has 2^m levels, and m bits of a code choose one of them.

From about three bits for each feature on, levels represent a row with a smaller error than signed words. The bits of a
row need no search: its component in a direction takes the nearest level. The directions are principal directions. A
code has the error e = x - R. The distance from a query q to R is then wrong by 2 (q - x).e, apart from the part that
the correction removes. So an error in a direction is weighted by w, the mean square of q - x in this direction for near
q and x. The next bit always goes to the direction with the largest w variance / 4^bits. Directions with the same number
of bits are rotated at random, which makes their variances similar.

The bits of all directions are joined, and the code is cut after every fourth bit. So it is a code of free words
(:mod:`hashlearn.linalg.abh.words`): the 16 words of a group are the sums of the vectors that its bits add in their
directions. A cut can divide the bits of a direction into pieces. Its levels are then sums of one number for each piece.
The longest piece counts most. The products of the pieces, which the words cannot hold, are small then.

A direction that is cut makes the correction of a code larger, and one byte of it less exact. Where this costs more than
four bits, the last group of a code holds the rest of the correction: its words are zero, and its number is added to the
distance in steps of a sixteenth of the byte's.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled
from hashlearn.linalg.abh.words import GROUP_BITS, GROUP_WORDS

MOST_BITS = 12
"""Bits of a direction, at most."""

_LEAST_COUNT = 1e-3
"""This share of the mean weight over all directions is added to the weight of an error in each direction."""

_ROUNDS = 30
"""Rounds in which the levels of a direction are learned."""

_WIDTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
"""Half widths, in standard deviations, that are tried for the first levels. The one with the smallest error is
taken."""


def shared_bits(losses: NDArray, n_bits: int) -> NDArray[np.intp]:
    """The number of bits of every direction.

    Each bit goes to the direction with the largest loss / 4^bits, and to the first of equal ones.
    """
    bits = np.zeros(len(losses), np.intp)
    waiting = [(-float(loss), i) for i, loss in enumerate(losses)]
    heapq.heapify(waiting)
    for _ in range(n_bits):
        left, i = heapq.heappop(waiting)
        bits[i] += 1
        if bits[i] < MOST_BITS:
            heapq.heappush(waiting, (left / 4, i))
    return bits


def bits_of_directions(X: NDArray, differences: NDArray, n_bits: int) -> tuple[NDArray, NDArray[np.intp]]:
    """The principal directions of centered rows, the leading one first, and the number of bits of each.

    ``differences`` are those between near rows.
    """
    variances, V = np.linalg.eigh(X.T.astype(np.float64) @ X / len(X))
    variances, V = np.maximum(variances[::-1], 0), V[:, ::-1].copy()
    counts = np.square(differences @ V).mean(axis=0)
    return V, shared_bits(variances * (counts + (_LEAST_COUNT * counts.mean() or 1.0)), n_bits)


def pieces_of(first: int, n_bits: int) -> list[int]:
    """Lengths of the pieces into which groups of four cut the bits from ``first`` on; 3 bits from 6 on: [2, 1]."""
    cuts = [first, *range((first // GROUP_BITS + 1) * GROUP_BITS, first + n_bits, GROUP_BITS), first + n_bits]
    return np.diff(cuts).tolist()


def fitted_levels(components: NDArray, pieces: list[int]) -> NDArray[np.float64]:
    """The 2^m levels of a direction, by the number that m bits write; a sum of one number for each piece of the bits.

    Rounds of nearest levels and of means, from levels at equal distances. The longest piece decides first which of
    these levels it is.
    """
    n_bits = sum(pieces)
    points = SortedPoints.of(components)
    middle, deviation = components.mean(dtype=np.float64), components.std(dtype=np.float64)
    steps = (2 * np.arange(1 << n_bits) + 1) / (1 << n_bits) - 1
    levels = min((middle + width * deviation * steps for width in _WIDTHS), key=points.error)
    numbers, shift = np.arange(1 << n_bits), n_bits
    parts = []  # for each piece: the value of its bits within every number of the direction
    for piece in pieces:
        shift -= piece
        parts.append((numbers >> shift) & ((1 << piece) - 1))
    places = np.zeros_like(numbers)
    for part, piece in sorted(zip(parts, pieces, strict=True), key=lambda pair: -pair[1]):
        places = (places << piece) | part
    levels = levels[places]
    for _ in range(_ROUNDS):
        counts, sums = points.of_levels(levels)
        for part, piece in zip(parts, pieces, strict=True):
            counts_of_part = np.bincount(part, counts, minlength=1 << piece)
            missed = np.bincount(part, sums - counts * levels, minlength=1 << piece)
            levels = levels + (missed / np.maximum(counts_of_part, 1))[part]
    return levels


class SortedPoints(NamedTuple):
    """Numbers in ascending order, and the sums of the first of them."""

    points: NDArray[np.float64]
    totals: NDArray[np.float64]

    @classmethod
    def of(cls, components: NDArray) -> "SortedPoints":
        points = np.sort(components.astype(np.float64))
        return cls(points, np.append(0.0, np.cumsum(points)))

    def of_levels(self, levels: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each level, the number of points that are nearest to it, and their sum."""
        order = np.argsort(levels, kind="stable")
        ordered = levels[order]
        ends = np.searchsorted(self.points, (ordered[1:] + ordered[:-1]) / 2, side="right")
        cuts = np.concatenate([[0], ends, [len(self.points)]])
        counts, sums = np.empty(len(levels)), np.empty(len(levels))
        counts[order], sums[order] = np.diff(cuts), np.diff(self.totals[cuts])
        return counts, sums

    def error(self, levels: NDArray) -> float:
        """The sum of the squared distances of the points to their nearest levels, without the squares of the points."""
        counts, sums = self.of_levels(levels)
        return float((counts * levels**2 - 2 * sums * levels).sum())


class Levels(NamedTuple):
    """Directions and their levels; the bits of the directions lie end to end in a code.

    Attributes
    ----------
    directions : ndarray of shape (d, k)
        Orthonormal columns.
    bits : ndarray of int, shape (k,)
    values : ndarray of shape (sum of 2^bits,)
        The levels of the first direction, by their numbers, then those of the second, and so on.
    rest : float or None
        What the number of the last group adds, times this, to the distance; None without such a group.
    """

    directions: NDArray
    bits: NDArray
    values: NDArray
    rest: float | None = None

    @classmethod
    def of(cls, X: NDArray, differences: NDArray, n_bits: int, rng: np.random.RandomState) -> "Levels":
        """Learn directions and levels from centered rows and from differences between near rows."""
        V, bits = bits_of_directions(X, differences, n_bits)
        for same in (np.flatnonzero(bits == count) for count in np.unique(bits[bits > 0])):
            V[:, same] = V[:, same] @ np.linalg.qr(rng.standard_normal((len(same), len(same))))[0]
        order = _order_with_few_cuts(bits)
        bits, V = bits[order], V[:, order].astype(np.float32)
        components = X @ V.astype(X.dtype)
        values = [
            fitted_levels(components[:, i], pieces_of(first, count))
            for i, (first, count) in enumerate(zip(np.cumsum(bits) - bits, bits.tolist(), strict=True))
        ]
        return cls(V, bits, np.concatenate(values).astype(np.float32))

    def with_rest(
        self, X: NDArray, near: NDArray[np.intp], differences: NDArray, rng: np.random.RandomState
    ) -> "Levels":
        """Levels with four bits fewer and a group for the rest of the correction, if that makes estimates better.

        Estimates become better if the rounding error of the byte is larger than the error that four bits fewer add to
        the distances. The differences are those of queries from the rows ``near`` of X.
        """
        n_bits = int(self.bits.sum())
        if n_bits <= GROUP_BITS:
            return self
        bits = LevelSearch(self)(X) > 0
        components = self.components(bits, X.dtype)
        errors = X[near] - components[near] @ self.directions.T
        error = np.var(2 * np.einsum("ij,ij->i", differences, errors))
        missing = np.einsum("ij,ij->i", X, X) - squares_of(self.squares(), bits)
        least, most = np.quantile(missing, (0.001, 0.999))
        if ((most - least) / 255) ** 2 / 12 <= (4 ** (GROUP_BITS / len(self.bits)) - 1) * error:
            return self
        return self.of(X, differences, n_bits - GROUP_BITS, rng)._replace(rest=0.0)

    @property
    def n_groups(self) -> int:
        return int(self.bits.sum()) // GROUP_BITS + (self.rest is not None)

    @property
    def tables(self) -> list[NDArray]:
        """The levels of every direction."""
        return np.split(self.values, np.cumsum(1 << self.bits)[:-1])

    def words(self) -> NDArray[np.float32]:
        """The 16 words of each group of four bits, shape (4 * n_bits, d).

        A piece of a direction adds the difference to the level with zeros in these bits; the first piece adds that
        level too.
        """
        words = np.zeros((self.n_groups, GROUP_WORDS, len(self.directions)))
        numbers, first = np.arange(GROUP_WORDS), 0
        for direction, count, table in zip(self.directions.T, self.bits.tolist(), self.tables, strict=True):
            base, end = float(table[0]), first + count
            for piece in pieces_of(first, count):
                behind = GROUP_BITS - first % GROUP_BITS - piece  # bits of the group behind the piece
                own = (numbers >> behind) & ((1 << piece) - 1)
                added = table[own << (end - first - piece)].astype(np.float64) - table[0] + base
                words[first // GROUP_BITS] += np.outer(added, direction)
                first, base = first + piece, 0.0
        return words.reshape(-1, len(self.directions)).astype(np.float32)

    def squares(self) -> NDArray[np.float64]:
        """The part that each of the 16 words of each group adds to the squared length of a row, shape (4 * n_bits,).

        The sum is exact except for directions that are cut: twice the products of their pieces are missing.
        """
        squares = np.zeros((self.n_groups, GROUP_WORDS))
        numbers, first = np.arange(GROUP_WORDS), 0
        if self.rest is not None:
            squares[-1] = self.rest * numbers
        for count, table in zip(self.bits.tolist(), self.tables, strict=True):
            pieces = pieces_of(first, count)
            grid = np.square(table.astype(np.float64)).reshape([1 << piece for piece in pieces])
            left_out = 0.0
            for axis, piece in enumerate(pieces):
                others = tuple(other for other in range(len(pieces)) if other != axis)
                behind = GROUP_BITS - first % GROUP_BITS - piece
                own = (numbers >> behind) & ((1 << piece) - 1)
                squares[first // GROUP_BITS] += (grid.mean(axis=others) - left_out)[own]
                first, left_out = first + piece, float(grid.mean())
        return squares.reshape(-1)

    def components(self, bits: NDArray, real: np.dtype) -> NDArray:
        """C of some bits, shape (n, n_bits), with C @ directions.T the rows that they stand for, from the mean."""
        components, first = np.empty((len(bits), len(self.bits)), real), 0
        for i, (count, table) in enumerate(zip(self.bits.tolist(), self.tables, strict=True)):
            numbers = bits[:, first : first + count].astype(np.intp) @ (1 << np.arange(count)[::-1])
            components[:, i] = table[numbers]
            first += count
        return components


def squares_of(squares: NDArray, bits: NDArray) -> NDArray:
    """The sums of :meth:`Levels.squares` over the groups of some bits; a last group that has no bits adds nothing."""
    numbers = bits.reshape(len(bits), -1, GROUP_BITS) @ (1 << np.arange(GROUP_BITS)[::-1])
    return squares.reshape(-1, GROUP_WORDS)[np.arange(numbers.shape[1]), numbers].sum(axis=1)


def _order_with_few_cuts(bits: NDArray) -> NDArray[np.intp]:
    """The directions that have bits, in an order in which few are cut: those with four bits, pairs of three and one,
    those with two, then the others.
    """
    kinds = [np.flatnonzero((bits > 0) & (bits % GROUP_BITS == rest)) for rest in range(GROUP_BITS)]
    n_pairs = min(len(kinds[1]), len(kinds[3]))
    pairs = np.stack([kinds[3][:n_pairs], kinds[1][:n_pairs]], axis=1).ravel()
    return np.concatenate([kinds[0], pairs, kinds[2], kinds[1][n_pairs:], kinds[3][n_pairs:]])


class LevelSearch:
    """Finds the bits of rows for given levels. Components are of double precision: they depend on the row alone."""

    def __init__(self, levels: Levels):
        self.directions = levels.directions.astype(np.float64)
        self.bits = levels.bits.astype(np.int64)
        self.values = levels.values.astype(np.float64)
        orders = [np.argsort(table, kind="stable") for table in levels.tables]
        self.order = np.concatenate(orders).astype(np.int64)
        self.ordered = np.concatenate(
            [table[order] for table, order in zip(levels.tables, orders, strict=True)]
        ).astype(np.float64)

    def __call__(self, X: NDArray) -> NDArray:
        """Scores of centered rows, shape (n, b): the sign of a bit, times what its flip would add to the row's error.

        No score is zero: where a flip changes nothing, a small number has the sign that was found.
        """
        scores = np.empty((len(X), int(self.bits.sum())), X.dtype)
        least = np.finfo(X.dtype).tiny
        score_levels(scores, X @ self.directions, self.bits, self.values, self.ordered, self.order, least)
        return scores


@compiled
def score_levels(scores, components, bits, values, ordered, order, least):
    """Find the nearest level of every component by halving, and score its bits."""
    for row in range(len(components)):
        first, start = 0, 0
        for i in range(len(bits)):
            component, count = components[row, i], 1 << bits[i]
            low, high = 0, count - 1
            while low < high:
                middle = (low + high) // 2
                if 2 * component > ordered[start + middle] + ordered[start + middle + 1]:
                    low = middle + 1
                else:
                    high = middle
            number = order[start + low]
            error = (component - values[start + number]) ** 2
            for bit in range(bits[i]):
                mask = count >> (bit + 1)
                added = max((component - values[start + (number ^ mask)]) ** 2 - error, least)
                scores[row, first + bit] = added if number & mask else -added
            first += bits[i]
            start += count
