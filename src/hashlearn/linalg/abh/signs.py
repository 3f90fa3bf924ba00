"""Rows as sums of signed words: x ~ sum_j s_j d_j with signs s_j in {-1, +1}.

The words d_j are the rows of a dictionary D, one word for every bit. For given words, the signs of a row minimize::

    ||x - s D||^2  =  |x|^2 - 2 s.p + s G s',        p = D x,   G = D D'

Flipping sign j raises this error by 4 h_j, where h_j = s_j (p_j - (G s)_j) + G_jj. For given signs, least squares gives
the words, from B'B and B'X alone.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.compiled import inlined, lean
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions, projected
from hashlearn.linalg.rotations import quantizing_rotation, random_rotation
from hashlearn.rows import RowBlocks, row_slices

TENURE = 4
"""The number of flips during which a flipped sign must not be flipped back."""

LIMIT = 2.0**27
"""The search computes with whole numbers up to this limit. Their sums are exact in any order. So machines with the same
products find the same signs."""

GUESS_RIDGE = 0.05
"""The linear guess of the signs adds this share of G's mean diagonal to G."""

_WIDTHS_IN_USE = 8  # arrays of rows by bits, in single precision, while a block is searched
_BANNED = np.int32(1 << 30)
_LARGEST = np.int32((1 << 31) - 1)
SEED = np.uint64(88172645463325252)


class WordSums(NamedTuple):
    """The sums that the least squares of the words needs, over rows X (n x d) and the coefficients B (n x b) of their
    words.

    The coefficients of signed words are signs. Rows may have weights, the diagonal of V.

    Attributes
    ----------
    gram : ndarray of shape (b, b)
        B'VB.
    cross : ndarray of shape (b, d)
        B'VX.
    square : ndarray of shape ()
        The trace of X'VX.
    n : ndarray of shape ()
        The sum of the weights.
    """

    gram: NDArray[np.float64]
    cross: NDArray[np.float64]
    square: NDArray[np.float64]
    n: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray, coefficients: NDArray) -> "WordSums":
        B = coefficients.astype(X.dtype, copy=False)
        square = np.einsum("ij,ij->", X, X, dtype=np.float64)
        return cls(
            (B.T @ B).astype(np.float64), (B.T @ X).astype(np.float64), np.array(square), np.array(float(len(X)))
        )

    @classmethod
    def weighted(cls, X: NDArray, coefficients: NDArray, weights: NDArray) -> "WordSums":
        roots = np.sqrt(weights)[:, None]
        return cls.of(roots * X, roots * coefficients)._replace(n=np.array(weights.sum(dtype=np.float64)))

    def words(self, ridge: float) -> NDArray[np.float64]:
        """The words that minimize the weighted ||X - B D||^2 + ridge n ||D||^2, shape (b, d)."""
        return scipy.linalg.solve(self.gram + ridge * self.n * np.eye(len(self.gram)), self.cross, assume_a="pos")

    def error(self, words: NDArray) -> float:
        """||X - B D||^2 / ||X||^2 with these words D; 0 if X is zero."""
        left = self.square - 2 * (self.cross * words).sum() + (self.gram * (words @ words.T)).sum()
        return float(left / self.square) if self.square > 0 else 0.0


def starting_words(
    X: NDArray, n_words: int, ridge: float, rounds: int, rng: np.random.RandomState
) -> NDArray[np.float64]:
    """Words for the bits of iterative quantization. From the word d + 1 on, words quantize the part of the rows that
    the earlier words do not represent.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Centered rows.
    n_words : int
    ridge : float
    rounds : int
        Of the alternation between bits and rotation.
    rng : RandomState
    """
    words, rest = np.empty((0, X.shape[1])), X
    while True:
        signs = _quantized(rest, min(n_words - len(words), X.shape[1]), rounds, rng)
        layer = WordSums.of(rest, signs).words(ridge)
        words = np.vstack([words, layer])
        if len(words) == n_words:
            return words
        rest = rest - signs @ layer.astype(X.dtype)


def _quantized(X: NDArray, n_bits: int, rounds: int, rng: np.random.RandomState) -> NDArray:
    """The signs of ITQ."""
    rows = RowBlocks(X)
    V = projected(rows, principal_directions(Moments.of(rows), n_bits))
    rotation, _ = quantizing_rotation(V, random_rotation(n_bits, rng), range(rounds))
    return signs_of(V @ rotation.astype(V.dtype))


def signs_of(scores: NDArray) -> NDArray:
    """+1 where a score is above zero, else -1, in the precision of the scores."""
    return np.where(scores > 0, scores.dtype.type(1), scores.dtype.type(-1))


class SignSearch:
    """Finds the signs of rows for given words.

    A row starts with the signs of ``p (G + c I)^-1``, a linear guess. Each step flips the sign that raises the error
    least, even if the error rises. A flipped sign then stays for ``TENURE`` flips (tabu search). The search ends after
    ``patience`` flips without a new lowest error, and returns the signs with the lowest error. They depend on the row
    alone.

    Parameters
    ----------
    words : ndarray of shape (b, d)
    patience : int
        0 for a plain descent: flips while the error falls.
    restarts : int
        How often the search is repeated from the best signs with some of them flipped at random.
    real : numpy dtype
        Precision of the rows.
    """

    def __init__(self, words: NDArray, patience: int, restarts: int, real: np.dtype):
        D = words.astype(np.float64)
        gram = D @ D.T
        ridge = GUESS_RIDGE * np.trace(gram) / len(gram) or 1.0
        self.projection = np.ascontiguousarray(words.T, dtype=real)
        self.from_rows = len(D) > D.shape[1]  # D'(DD' + cI)^-1 is (D'D + cI)^-1 D': the smaller one is inverted
        if self.from_rows:
            guess = scipy.linalg.solve(D.T @ D + ridge * np.eye(D.shape[1]), D.T, assume_a="pos")
        else:
            guess = scipy.linalg.inv(gram + ridge * np.eye(len(gram)))
        self.guess = guess.astype(real)
        # A product beyond the sum of |G_jk| leaves sign j no choice, so this sum bounds all numbers of the search.
        largest = np.abs(gram).sum(axis=1).max()
        self.scale = 2.0 ** np.floor(np.log2(LIMIT / largest)) if largest > 0 else 1.0
        self.gram = np.rint(gram * self.scale).astype(np.int32)
        self.patience, self.restarts = patience, restarts

    def __call__(self, X: NDArray) -> NDArray:
        """Scores of centered rows, shape (n, b): the sign, times the error that its flip would add.

        The scores of a row far from all sums of words are smaller. No score is zero: where a flip changes nothing, the
        score is a small number with the sign that was found.
        """
        scores, gram = np.empty((len(X), len(self.gram)), X.dtype), self.gram.astype(np.float64)
        for part in row_slices(len(X), _WIDTHS_IN_USE * len(gram)):
            products = X[part] @ self.projection
            scores[part] = (X[part] if self.from_rows else products) @ self.guess
            products *= products.dtype.type(self.scale)
            to_whole_numbers(products)
            # p - G s of the guess; whole numbers, exact in double precision
            residuals = products - signs_of(scores[part]).astype(np.float64) @ gram
            room = np.empty((8, len(gram)), np.int32)
            search_signs(scores[part], residuals.astype(np.int32), self.gram, self.patience, self.restarts, room)
        scores *= scores.dtype.type(4 / self.scale)
        return scores


def to_whole_numbers(products: NDArray) -> None:
    """Round products in place and limit them to LIMIT. A product is NaN if a row is too large for its precision."""
    np.rint(products, out=products)
    np.fmin(products, LIMIT, out=products)
    np.fmax(products, -LIMIT, out=products)


class _Signs(NamedTuple):
    """Signs of a row, 0 for +1 and -1 for -1, so that ``(v ^ sign) - sign`` is v times the sign; and p - G s."""

    signs: NDArray[np.int32]
    residual: NDArray[np.int32]


class _Flips(NamedTuple):
    """A quarter of the error that each flip would add, and the part of it that does not depend on the signs.

    This part is G_jj, or a large number for a sign that must stay.
    """

    raised: NDArray[np.int32]
    fixed: NDArray[np.int32]


@lean
def search_signs(scores, residuals, gram, patience, restarts, room):
    """Tabu search for the signs of every row, starting from the signs of its scores. The scores of the result replace
    them.

    ``residuals`` are p - G s of the signs to start from; ``room`` is memory to work with, 8 numbers for each bit.
    """
    n, b = scores.shape
    now, best, flips = _Signs(room[0], room[1]), _Signs(room[2], room[3]), _Flips(room[4], room[5])
    numbers, recent = room[6], room[7, : max(1, min(TENURE, b // 2))]
    for k in range(b):
        numbers[k] = k
    for row in range(n):
        for k in range(b):
            best.signs[k] = 0 if scores[row, k] > 0 else -1
            best.residual[k] = residuals[row, k]
        lowest, chance = np.int64(0), SEED
        for attempt in range(restarts + 1):
            _copy(best, now)
            _allow_all(gram, now, flips)
            error = lowest
            for _ in range(max(2, b // 16) if attempt > 0 else 0):
                chance = next_chance(chance)
                error += _flip(np.int64(chance % np.uint64(b)), gram, now, flips)
            lowest = _search(error, lowest, gram, now, best, flips, numbers, recent, patience)
        for k in range(b):
            sign = best.signs[k]
            raised = ((best.residual[k] ^ sign) - sign) + gram[k, k]
            scores[row, k] = (max(raised, 1) ^ sign) - sign


@inlined
def _search(error, lowest, gram, now, best, flips, numbers, recent, patience):
    """One search. Returns the lowest error and leaves its signs in ``best``."""
    for place in range(len(recent)):
        recent[place] = -1
    n_flips, idle = 0, 0
    while idle <= patience:
        j = _best_flip(flips.raised, numbers)
        place = n_flips % len(recent)
        if recent[place] >= 0:
            flips.fixed[recent[place]] = gram[recent[place], recent[place]]
        flips.fixed[j], recent[place] = _BANNED, j
        error += _flip(j, gram, now, flips)
        n_flips += 1
        idle += 1
        if error < lowest:
            lowest, idle = error, 0
            _copy(now, best)
    return lowest


@inlined
def _copy(source, target):
    copy_numbers(source.signs, target.signs)
    copy_numbers(source.residual, target.residual)


@lean
def copy_numbers(source, target):
    """``target[:] = source``.

    For an assignment of slices numba also compiles the text of an error, which takes two seconds.
    """
    for k in range(len(source)):
        target[k] = source[k]


@inlined
def _allow_all(gram, now, flips):
    for k in range(len(gram)):
        flips.fixed[k] = gram[k, k]
        flips.raised[k] = ((now.residual[k] ^ now.signs[k]) - now.signs[k]) + gram[k, k]


@lean
def _flip(j, gram, now, flips):
    """Flip sign j; return a quarter of the error that this adds."""
    sign, word, added = now.signs[j], gram[j], flips.raised[j]
    now.signs[j] = ~sign
    for k in range(len(word)):
        residual = now.residual[k] + (((word[k] ^ sign) - sign) << 1)
        now.residual[k] = residual
        flips.raised[k] = ((residual ^ now.signs[k]) - now.signs[k]) + flips.fixed[k]
    return added


@inlined
def _best_flip(raised, numbers):
    """The number of the flip that raises the error least.

    The lowest bits of each compared value are replaced by its number, so that the least value contains its number.
    """
    low_bits = np.int32((1 << _bit_length(len(raised) - 1)) - 1)
    least = _LARGEST
    for k in range(len(raised)):
        least = min(least, (raised[k] & ~low_bits) | numbers[k])
    return np.int64(least & low_bits)


@inlined
def _bit_length(number):
    length = 0
    while number >> length:
        length += 1
    return length


@inlined
def next_chance(state):
    """The next number of a xorshift generator (Marsaglia, Journal of Statistical Software 8(14), 2003)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))
