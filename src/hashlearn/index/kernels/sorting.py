"""Sorting of a few hundred keys inside a kernel."""

import numpy as np

from hashlearn.compiled import lean, spliced
from hashlearn.index.kernels.simd import copy_words

_RUN = 32


@lean
def sort_keys(keys, count, spare):
    """Sort ``keys[:count]``, integers, in place. ``spare`` has room for as many.

    The place of a key in its run of 32 is the number of keys before it, which vector instructions count. Runs are
    merged. No branch depends on the keys.
    """
    for start in range(0, count, _RUN):
        end = min(start + _RUN, count)
        for i in range(start, end):
            spare[start + _n_not_above(keys[start:i], keys[i]) + _n_below(keys[i:end], keys[i])] = keys[i]
    width, is_spare = _RUN, True
    while width < count:
        if is_spare:
            _merge_runs(spare, keys, count, width)
        else:
            _merge_runs(keys, spare, count, width)
        is_spare = not is_spare
        width *= 2
    if is_spare:
        copy_words(spare, 0, keys, 0, count)


@spliced
def _n_below(keys, limit):
    count = np.int64(0)
    for i in range(keys.size):
        count += np.int64(keys[i] < limit)
    return count


@spliced
def _n_not_above(keys, limit):
    count = np.int64(0)
    for i in range(keys.size):
        count += np.int64(keys[i] <= limit)
    return count


@lean
def _merge_runs(source, target, count, width):
    for start in range(0, count, 2 * width):
        middle, end = min(start + width, count), min(start + 2 * width, count)
        left, right, place = np.uint64(start), np.uint64(middle), np.uint64(start)
        last, stop = np.uint64(middle), np.uint64(end)
        while left < last and right < stop:
            a, b = source[left], source[right]
            takes_right = np.uint64(b < a)
            target[place] = min(a, b)
            right += takes_right
            left += np.uint64(1) - takes_right
            place += np.uint64(1)
        while left < last:
            target[place] = source[left]
            left += np.uint64(1)
            place += np.uint64(1)
        while right < stop:
            target[place] = source[right]
            right += np.uint64(1)
            place += np.uint64(1)
