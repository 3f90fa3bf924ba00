"""The nearest anchors of a few rows: compiled, for calls of numpy would take longer than the arithmetic."""

import numpy as np

from hashlearn.compiled import compiled

FEW_ROWS = 32


@compiled
def nearest_of_few(products, constants, handicap, index, distances) -> None:
    """For every row the anchors with the smallest ``products + constants``, nearest first, and these less the handicap.

    ``index`` and ``distances``, both of shape (rows, k), are filled. Equal sums are taken in the order of the anchors.
    """
    k = index.shape[1]
    for row in range(len(products)):
        n_found = 0
        for anchor in range(len(constants)):
            distance = products[row, anchor] + constants[anchor]
            if n_found == k and distance >= distances[row, k - 1]:
                continue
            place = min(n_found, k - 1)
            while place > 0 and distances[row, place - 1] > distance:
                distances[row, place] = distances[row, place - 1]
                index[row, place] = index[row, place - 1]
                place -= 1
            distances[row, place], index[row, place] = distance, anchor
            n_found = min(n_found + 1, k)
        for place in range(k):
            distances[row, place] -= handicap[index[row, place]]


@compiled
def blend_of_few(offsets, nearest, squared, sigma, blend) -> None:
    """Fill ``blend``, shape (rows, n_bits), with the offsets of the nearest anchors, weighted by their distances.

    The weights are ``exp(-(d^2 - d_nearest^2) / sigma^2)``, divided by their sum; with sigma = 0 only anchors as near
    as the nearest have a weight.
    """
    n_bits = offsets.shape[1]
    for row in range(len(nearest)):
        total = 0.0
        sums = np.zeros(n_bits)
        for place in range(nearest.shape[1]):
            farther = max(squared[row, place] - squared[row, 0], 0)
            weight = np.exp(-farther / (sigma * sigma)) if sigma > 0 else 1.0 * (farther == 0)
            total += weight
            for bit in range(n_bits):
                sums[bit] += weight * offsets[nearest[row, place], bit]
        for bit in range(n_bits):
            blend[row, bit] = sums[bit] / total
