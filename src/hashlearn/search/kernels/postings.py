"""The rows of one word in pages of FTS5. :mod:`hashlearn.search.postings` says what a page is."""

import numpy as np

from hashlearn.compiled import compiled

DAMAGED = -1
_HEADER = 4
_LONGEST_VARINT = 9
_ONE_SHORT_POSITION = 2
"""The length of the positions, twice, where one byte is all of them: it is the most frequent one."""


@compiled
def _number(text, at, end):
    """A number as SQLite writes it, and the place behind it; the place is -1 where the number does not end in time.

    7 bits a byte, the highest ones first; only the last byte is below 128, but a ninth byte has 8 bits.
    """
    value = np.int64(0)
    for i in range(_LONGEST_VARINT):
        if at + i >= end:
            break
        byte = np.int64(text[at + i])
        if i == _LONGEST_VARINT - 1:
            return (value << 8) | byte, at + i + 1
        value = (value << 7) | (byte & 127)
        if byte < 128:
            return value, at + i + 1
    return value, -1


@compiled
def _find_word(text, start, body_end, end, word):
    """Where the rows of a word begin and end in the page ``text[start:end]``, and whether its last row may be on
    the next page; -1 where the page has not the word, -2 where the page is damaged."""
    at, index = start, body_end
    same = 0  # letters that the term at hand and the word have in common
    is_first = True
    while index < end:
        step, index = _number(text, index, end)
        if index < 0 or step <= 0 or step >= body_end - at:
            return -2, 0, False
        at += step
        n_shared, behind = (0, at) if is_first else _number(text, at, body_end)
        is_first = False
        if behind < 0 or n_shared < 0:
            return -2, 0, False
        n_own, behind = _number(text, behind, body_end)
        if behind < 0 or n_own < 0 or n_own > body_end - behind:
            return -2, 0, False
        if same >= n_shared:
            same = n_shared
            while same < len(word) and same - n_shared < n_own and text[behind + same - n_shared] == word[same]:
                same += 1
        if same == len(word) and n_shared + n_own == len(word):
            if index == end:
                return behind + n_own, body_end, True
            step, index = _number(text, index, end)
            if index < 0 or step < behind + n_own - at or step > body_end - at:
                return -2, 0, False
            return behind + n_own, at + step, False
    return -1, 0, False


@compiled
def read_rows(text, ends, word, rows, counts):
    """The rows of a word and how often each has it, from pages one behind the other.

    The first page is where the word can begin. Returns how many rows there are, or ``DAMAGED``.
    """
    n = 0
    row = np.int64(0)
    left = np.int64(0)  # bytes of the positions of the last row that are on the next page
    for page in range(len(ends)):
        start = ends[page - 1] if page else 0
        end = ends[page]
        if end - start < _HEADER:
            return DAMAGED
        body_end = start + ((np.int64(text[start + 2]) << 8) | np.int64(text[start + 3]))
        if body_end > end or body_end < start + _HEADER:
            return DAMAGED
        if page == 0:
            at, until, goes_on = _find_word(text, start, body_end, end, word)
            if at < 0:
                return 0 if at == -1 else DAMAGED
            is_whole = True  # the number of the first row of a word or of a page is whole, others are differences
        else:
            at, until, goes_on = start + _HEADER, body_end, body_end == end
            if not goes_on:
                step, behind = _number(text, body_end, end)
                if behind < 0 or step < _HEADER or step > body_end - start:
                    return DAMAGED
                until = start + step
            is_whole = True
        while True:
            seen = min(left, until - at)
            for i in range(at, at + seen):
                counts[n - 1] += text[i] < 128
            at += seen
            left -= seen
            if left or at >= until:
                break
            if n == len(rows):
                return DAMAGED
            step = np.int64(text[at])
            at += 1
            if step >= 128:
                step, at = _number(text, at - 1, until)
            row = step if is_whole else row + step
            is_whole = False
            if n and row <= rows[n - 1]:
                return DAMAGED
            rows[n] = row
            n += 1
            if at >= 0 and at + 1 < until and text[at] == _ONE_SHORT_POSITION:
                counts[n - 1] = 1
                at += 2
                continue
            size, at = _number(text, at, until) if at >= 0 else (0, at)
            if at < 0 or size < 0:
                return DAMAGED
            counts[n - 1] = 0
            left = size >> 1
        if not goes_on:
            return DAMAGED if left else n
    return DAMAGED if left else n
