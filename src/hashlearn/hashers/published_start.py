"""The codes that the published programs of JSH and JPSH start from: the same in every run.

Both programs call MATLAB's ``randn('seed', 2)`` before they draw the codes of the anchors, so that of their ten runs
only the anchors differ. What the start is worth varies a lot (at 16 bits on MNIST the mAP of JPSH's runs spreads from
0.40 to 0.60), which makes this one start a part of the published results.
"""

import math

import numpy as np
from numpy.typing import NDArray

PUBLISHED_SEED = 2

_MULTIPLIER, _MODULUS = 7**5, 2**31 - 1
_SEED_SHIFT = 16
"""The generator starts from the seed in the upper half of its word."""

_STATE_OF_SEED_0 = 1144108930


def published_start(n_bits: int, n_anchors: int) -> NDArray[np.float64]:
    """The scores whose signs are the anchors' first codes, shape (n_bits, n_anchors)."""
    normals = matlab4_normals(PUBLISHED_SEED, n_bits * n_anchors)
    return normals.reshape(n_anchors, n_bits).T  # MATLAB fills a matrix column by column


def matlab4_normals(seed: int, count: int) -> NDArray[np.float64]:
    """What ``randn('seed', seed); randn(count, 1)`` gives in MATLAB, for a seed below 2^15.

    A multiplicative congruential generator gives points of a square until one lies in the unit circle; the polar method
    makes two normal numbers of it, of which the first is taken.
    """
    state, numbers = seed << _SEED_SHIFT if seed else _STATE_OF_SEED_0, np.empty(count)
    for place in range(count):
        squared = 2.0
        while squared > 1:
            state = _MULTIPLIER * state % _MODULUS
            x = 2 * state / _MODULUS - 1
            state = _MULTIPLIER * state % _MODULUS
            y = 2 * state / _MODULUS - 1
            squared = x * x + y * y
        numbers[place] = x * math.sqrt(-2 * math.log(squared) / squared)
    return numbers
