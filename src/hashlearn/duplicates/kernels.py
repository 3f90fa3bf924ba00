"""Compiled loops over rows and pairs of rows."""

import numpy as np

from hashlearn.compiled import compiled, fast

CHUNK = 64
"""Products that are looked at together: most hold no near pair, and their least value says so."""


@compiled
def facts_of_rows(block, words, negative_zero, hashes, lengths):
    """Two 64-bit hashes of every row, and its length; they depend on nothing but its numbers.

    ``words`` are the numbers of the block as unsigned integers. ``negative_zero`` is the pattern of -0.0, which counts
    as 0.0.
    """
    for row in range(words.shape[0]):
        total = 0.0
        first, second = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
        for column in range(words.shape[1]):
            total += np.float64(block[row, column]) * np.float64(block[row, column])
            word = np.uint64(words[row, column])
            if word == negative_zero:
                word = np.uint64(0)
            first = (first ^ word) * np.uint64(0xFF51AFD7ED558CCD)
            first ^= first >> np.uint64(32)
            second = (second ^ word) * np.uint64(0x9FB21C651E98DF25)
            second ^= second >> np.uint64(29)
        hashes[row, 0], hashes[row, 1] = first, second
        lengths[row] = np.sqrt(total)


@fast
def squared_pair_distances(left, left_scales, right, right_scales, first, second, out):
    """``|| left[first] * scale - right[second] * scale ||^2`` of every pair.

    The difference is squared, not the product subtracted: a distance near zero keeps its digits.
    """
    for pair in range(len(first)):
        a, b = first[pair], second[pair]
        a_scale, b_scale = left_scales[a], right_scales[b]
        total = left_scales[0] * 0
        for column in range(left.shape[1]):
            difference = left[a, column] * a_scale - right[b, column] * b_scale
            total += difference * difference
        out[pair] = total


@compiled
def settle_scores(block, mean, projection, tolerances, scores):
    """Compute again, in an order that no block size changes, the scores too near zero to be sure of their sign."""
    for row in range(scores.shape[0]):
        for bit in range(scores.shape[1]):
            if abs(scores[row, bit]) < tolerances[row]:
                total = 0.0
                for column in range(block.shape[1]):
                    total += (np.float64(block[row, column]) - np.float64(mean[column])) * np.float64(
                        projection[column, bit]
                    )
                scores[row, bit] = 1.0 if total > 0 else -1.0


@fast
def near_in_products(products, left_squares, right_squares, limit, first_row, pairs):
    """Places (row, column) where ``left_squares + right_squares - 2 products <= limit``.

    It begins at ``first_row`` and ends at a row's end when ``pairs`` has no room for another whole row. Returns how
    many places it found and the row that comes next.
    """
    count = 0
    n_columns = products.shape[1]
    for row in range(first_row, products.shape[0]):
        if count + n_columns > pairs.shape[0]:
            return count, row
        wanted = limit - left_squares[row]
        for start in range(0, n_columns, CHUNK):
            stop = min(start + CHUNK, n_columns)
            least = right_squares[start] - 2 * products[row, start]
            for column in range(start + 1, stop):
                least = min(least, right_squares[column] - 2 * products[row, column])
            if least <= wanted:
                for column in range(start, stop):
                    if right_squares[column] - 2 * products[row, column] <= wanted:
                        pairs[count, 0], pairs[count, 1] = row, column
                        count += 1
    return count, products.shape[0]


@compiled
def leaders_in_order(order, starts, neighbors, is_leader):
    """Go through the rows in order; one that is near no earlier leader is a leader."""
    is_taken = np.zeros(len(order), np.bool_)
    for row in order:
        if is_taken[row]:
            continue
        is_leader[row] = True
        for place in range(starts[row], starts[row + 1]):
            is_taken[neighbors[place]] = True
