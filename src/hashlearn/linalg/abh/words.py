"""Rows as sums of free words: four bits of a code choose one of 16 words, x ~ sum_g w_{g, k_g}.

Signed words (:mod:`hashlearn.linalg.abh.signs`) are the case in which the 16 words of a group are sums of four words
with all signs. Free words fit clusters better, at the same length of the codes. For given words, the numbers k of a row
minimize this, with p = W x and G = W W'::

    ||x - sum_g w_{g, k_g}||^2  =  |x|^2 + sum_g (G_{k_g k_g} - 2 p_{k_g}) + 2 sum_{g < h} G_{k_g k_h}

So a table with one cost for each word has the error that every change of one group adds. A change adds a row of 2 G to
the table. For given numbers, least squares gives the words.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hashlearn.compiled import compiled
from hashlearn.linalg.abh.signs import GUESS_RIDGE, LIMIT, SEED, copy_numbers, next_chance, to_whole_numbers
from hashlearn.rows import row_slices

GROUP_BITS = 4
GROUP_WORDS = 1 << GROUP_BITS

_ATTEMPTS = 8
"""Descents of the first search, and of every restart."""

_GROUPS_PER_CHANGE = 4
_LEAST_CHANGES = 3
"""Each restart replaces the words of 1 in 4 groups (at least 3) at random."""

_LEAST_ERROR = 0.02
"""This share of the mean square of all rows is added to a row's error before its inverse is the row's weight."""

_WIDTHS_IN_USE = 12  # arrays of rows by words, in single precision, while a block is searched

SIGNS = 2.0 * ((np.arange(GROUP_WORDS)[:, None] >> np.arange(GROUP_BITS)[::-1]) & 1) - 1
"""The signs of the four bits of every number, the first bit the highest; shape (16, 4)."""


def combined(words: NDArray) -> NDArray:
    """All sums of the signed words of each group of four: shape (4 b, d) from words of shape (b, d)."""
    groups = words.reshape(-1, GROUP_BITS, words.shape[1])
    return (SIGNS @ groups).reshape(-1, words.shape[1])


def numbers_of_bits(bits: NDArray) -> NDArray[np.intp]:
    """The number that every four bits write, shape (n, b / 4) from bits of shape (n, b)."""
    groups = bits.reshape(len(bits), -1, GROUP_BITS).astype(np.intp)
    return groups @ (1 << np.arange(GROUP_BITS)[::-1])


def coefficients_of(bits: NDArray, n_words: int, real: np.dtype) -> NDArray:
    """B with R = B @ words for the rows of some bits, of shape (n, b).

    With a word for each bit these are signs. With 16 words for each four bits it is a one for each word that is chosen.
    """
    if n_words == bits.shape[1]:
        return 2 * bits.astype(real) - 1
    numbers = numbers_of_bits(bits)
    chosen = np.zeros((*numbers.shape, GROUP_WORDS), real)
    np.put_along_axis(chosen, numbers[:, :, None], 1, axis=2)
    return chosen.reshape(len(bits), -1)


def relative_weights(X: NDArray, coefficients: NDArray, words: NDArray, mean_square: float) -> NDArray:
    """Weights of rows by the inverse of their errors, for the least squares of the words.

    Rows in dense regions have near neighbors, so small errors matter there. These weights reduce the logarithms of the
    errors. ``mean_square`` is the mean square of all rows, above zero.
    """
    error = X - coefficients @ words
    squares = np.einsum("ij,ij->i", error, error)
    return X.dtype.type(mean_square) / (squares + X.dtype.type(_LEAST_ERROR * mean_square))


class WordSearch:
    """Finds the numbers of rows for given free words.

    A row starts with the signs of a linear guess, as in :class:`hashlearn.linalg.abh.signs.SignSearch`, for the signed
    words that are nearest to the free ones. Each group in turn takes its best word until nothing changes. Then some
    groups get random words, and the descent is repeated. The best result is kept. It depends on the row alone.

    Parameters
    ----------
    words : ndarray of shape (4 b, d)
    restarts : int
        How often the whole search is repeated from the best numbers.
    real : numpy dtype
        Precision of the rows.
    """

    def __init__(self, words: NDArray, restarts: int, real: np.dtype):
        W = words.astype(np.float64)
        groups = W.reshape(-1, GROUP_WORDS, W.shape[1])
        signed = (SIGNS.T @ groups / GROUP_WORDS).reshape(-1, W.shape[1])
        gram = signed @ signed.T
        ridge = GUESS_RIDGE * np.trace(gram) / len(gram) or 1.0
        guess = scipy.linalg.inv(gram + ridge * np.eye(len(gram)))
        self.guess = (signed.T @ guess).astype(real)
        self.guess_offset = (groups.mean(axis=1).sum(axis=0) @ signed.T @ guess).astype(real)

        gram = 2 * W @ W.T
        largest = np.abs(gram).reshape(len(W), -1, GROUP_WORDS).max(axis=2).sum(axis=1).max()
        self.scale = 2.0 ** np.floor(np.log2(LIMIT / largest)) if largest > 0 else 1.0
        self.gram = np.rint(gram * self.scale).astype(np.int32)
        for group in range(0, len(W), GROUP_WORDS):  # words of one group are never chosen together
            self.gram[group : group + GROUP_WORDS, group : group + GROUP_WORDS] = 0
        self.squares = np.rint(np.einsum("ij,ij->i", W, W) * self.scale)
        self.projection = np.ascontiguousarray(-2 * W.T, dtype=real)
        self.attempts = _ATTEMPTS * (restarts + 1)

    def __call__(self, X: NDArray) -> NDArray:
        """Scores of centered rows, shape (n, b): the sign of a bit, times what its flip would add to the row's error.

        No score is zero: where a flip changes nothing, a small number has the sign that was found.
        """
        scores = np.empty((len(X), len(self.gram) // GROUP_BITS), X.dtype)
        for part in row_slices(len(X), _WIDTHS_IN_USE * len(self.gram)):
            scores[part] = X[part] @ self.guess - self.guess_offset
            costs = X[part] @ self.projection * X.dtype.type(self.scale)
            to_whole_numbers(costs)
            costs = (costs + self.squares).astype(np.int32)
            search_words(scores[part], costs, self.gram, self.attempts)
        scores *= scores.dtype.type(1 / self.scale)
        return scores


@compiled
def search_words(scores, costs, gram, attempts):
    """Repeated descents for the numbers of every row, starting from the signs of its scores. The scores of the result
    replace them.

    ``costs`` are those of single words, G_kk - 2 p_k. Whole numbers, so that their sums are exact in any order.
    """
    n_groups = len(gram) // GROUP_WORDS
    best, now = np.empty(n_groups, np.int64), np.empty(n_groups, np.int64)
    best_costs, now_costs = np.empty(len(gram), np.int32), np.empty(len(gram), np.int32)
    for row in range(len(scores)):
        copy_numbers(costs[row], best_costs)
        for group in range(n_groups):
            number = 0
            for bit in range(GROUP_BITS):
                number = 2 * number + (scores[row, GROUP_BITS * group + bit] > 0)
            best[group] = GROUP_WORDS * group + number
            for k in range(len(gram)):
                best_costs[k] += gram[best[group], k]
        lowest = _descend(gram, best, best_costs)
        chance = SEED
        for _ in range(attempts - 1):
            copy_numbers(best, now)
            copy_numbers(best_costs, now_costs)
            error = lowest
            for _ in range(max(_LEAST_CHANGES, n_groups // _GROUPS_PER_CHANGE)):
                chance = next_chance(chance)
                word = np.int64(chance % np.uint64(len(gram)))
                error += _take(word, gram, now, now_costs)
            error += _descend(gram, now, now_costs)
            if error < lowest:
                lowest = error
                copy_numbers(now, best)
                copy_numbers(now_costs, best_costs)
        for group in range(n_groups):
            number, own = best[group] % GROUP_WORDS, best_costs[best[group]]
            for bit in range(GROUP_BITS):
                mask = GROUP_WORDS >> (bit + 1)
                raised = max(best_costs[GROUP_WORDS * group + (number ^ mask)] - own, 1)
                scores[row, GROUP_BITS * group + bit] = raised if number & mask else -raised


@compiled
def _descend(gram, numbers, costs):
    """Give each group its best word until none changes; return the error that this adds."""
    added, unchanged, group = np.int64(0), 0, 0
    while unchanged < len(numbers):
        first = GROUP_WORDS * group
        word = numbers[group]
        for k in range(first, first + GROUP_WORDS):
            if costs[k] < costs[word]:
                word = k
        unchanged += 1
        if word != numbers[group]:
            added += _take(word, gram, numbers, costs)
            unchanged = 1
        group = (group + 1) % len(numbers)
    return added


@compiled
def _take(word, gram, numbers, costs):
    """Give a word to its group; return the error that this adds."""
    before = numbers[word // GROUP_WORDS]
    added = np.int64(costs[word]) - np.int64(costs[before])
    if word != before:
        numbers[word // GROUP_WORDS] = word
        new, old = gram[word], gram[before]
        for k in range(len(new)):
            costs[k] += new[k] - old[k]
    return added
