"""Strings as one array of bytes: where each ends, its digest, a table to find it, the fields of JSON texts, and scores.

Text i is ``text[starts[i] : ends[i]]``, UTF-8.
"""

import numpy as np

from hashlearn.compiled import compiled

_PRIME = np.uint64(0x100000001B3)
_START = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(32)
_NEWLINE, _QUOTE, _COMMA, _BACKSLASH = 10, 34, 44, 92
_OPEN_LIST, _CLOSE_LIST, _OPEN_DICT, _CLOSE_DICT = 91, 93, 123, 125
_LOOKUP_COST = 16  # additions that take as long as one binary search
EMPTY = -1
"""A slot without a place, and the place of what is not there."""


@compiled
def split_lines(lines, text, ends):
    """Copy texts without the line feeds between them, and say where each ends; returns how many there are."""
    n = at = 0
    for letter in lines:
        if letter == _NEWLINE:
            if n == len(ends) - 1:
                return n + 2
            ends[n] = at
            n += 1
        else:
            text[at] = letter
            at += 1
    ends[n] = at
    return n + 1


@compiled
def mixed(value):
    """64 bits of which each depends on all bits of the value."""
    value = (value ^ (value >> _SHIFT)) * _MIX
    value = (value ^ (value >> _SHIFT)) * _MIX
    return value ^ (value >> _SHIFT)


@compiled
def digests_of_texts(text, starts, ends, found):
    """64-bit digests of texts (FNV-1a, mixed)."""
    for i in range(len(ends)):
        value = _START
        for at in range(starts[i], ends[i]):
            value = (value ^ np.uint64(text[at])) * _PRIME
        found[i] = mixed(value ^ np.uint64(ends[i] - starts[i]))


@compiled
def digests_of_numbers(numbers, found):
    """64-bit digests of integers."""
    for i in range(len(numbers)):
        found[i] = mixed(np.uint64(numbers[i]) ^ _START)


@compiled
def row_sums(rows, digests, payload_sums, found):
    """31 bits for each row that tell whether its number, its id or the sum of its payload were changed."""
    for i in range(len(rows)):
        value = mixed(digests[i] ^ mixed(np.uint64(rows[i]) + _PRIME)) + np.uint64(payload_sums[i])
        found[i] = np.int64(mixed(value) >> np.uint64(33))


@compiled
def parse_numbers(text, found):
    """Integers of at least 0 with commas between them; returns how many, or -1 where the text is another one."""
    n = 0
    value = np.uint64(0)
    n_digits = 0
    for at in range(len(text) + 1):
        letter = _COMMA if at == len(text) else text[at]
        if 48 <= letter <= 57:
            value = value * np.uint64(10) + np.uint64(letter - 48)
            n_digits += 1
        elif letter == _COMMA and 0 < n_digits <= 19 and n < len(found):
            found[n] = np.int64(value)
            n += 1
            value = np.uint64(0)
            n_digits = 0
        else:
            return -1
    return n


def numbers_in(text):
    """The integers of at least 0 in a text with commas between them; ValueError where it is another text."""
    found = np.empty(text.count(",") + 1, np.int64)
    if parse_numbers(np.frombuffer(text.encode(), np.uint8), found) != len(found):
        raise ValueError("not integers with commas between them")
    return found


@compiled
def insert_places(slots, digests, first, last):
    """Put places into a table by their digests; its length is a power of two, and it has room."""
    mask = np.uint64(len(slots) - 1)
    for place in range(first, last):
        slot = digests[place] & mask
        while slots[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = place


@compiled
def _is_alive(alive, place):
    return (alive[place >> 6] >> np.uint64(place & 63)) & np.uint64(1) != np.uint64(0)


@compiled
def find_numbers(slots, digests, numbers, alive, n_places, wanted, wanted_digests, found):
    """The places of wanted numbers among the first places that are alive; -1 for those that are not there."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(wanted)):
        slot = wanted_digests[i] & mask
        found[i] = EMPTY
        while slots[slot] != EMPTY:
            place = slots[slot]
            same = place < n_places and digests[place] == wanted_digests[i] and numbers[place] == wanted[i]
            if same and _is_alive(alive, place):
                found[i] = place
                break
            slot = (slot + np.uint64(1)) & mask


@compiled
def find_texts(slots, digests, text, ends, alive, n_places, wanted, wanted_ends, wanted_digests, found):
    """As :func:`find_numbers`, of texts that lie one behind the other."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(wanted_ends)):
        start = wanted_ends[i - 1] if i else 0
        slot = wanted_digests[i] & mask
        found[i] = EMPTY
        while slots[slot] != EMPTY:
            place = slots[slot]
            if place < n_places and digests[place] == wanted_digests[i] and _is_alive(alive, place):
                first = ends[place - 1] if place else 0
                if ends[place] - first == wanted_ends[i] - start:
                    same = True
                    for at in range(wanted_ends[i] - start):
                        if text[first + at] != wanted[start + at]:
                            same = False
                            break
                    if same:
                        found[i] = place
                        break
            slot = (slot + np.uint64(1)) & mask


@compiled
def _behind_string(text, at, end):
    """The place behind a JSON string that begins at a quote."""
    at += 1
    while at < end and text[at] != _QUOTE:
        at += 2 if text[at] == _BACKSLASH else 1
    return at + 1


@compiled
def _behind_value(text, at, end):
    """The place behind a JSON value, before a comma or the end of its dict."""
    depth = 0
    while at < end:
        letter = text[at]
        if letter == _QUOTE:
            at = _behind_string(text, at, end)
            continue
        if letter in (_OPEN_LIST, _OPEN_DICT):
            depth += 1
        elif letter in (_CLOSE_LIST, _CLOSE_DICT):
            if depth == 0:
                return at
            depth -= 1
        elif letter == _COMMA and depth == 0:
            return at
        at += 1
    return at


@compiled
def field_spans(text, starts, ends, key, first, last):
    """Where the value of a field is in each of some JSON dicts; an empty span where there is no such field.

    The texts have no space between their parts; ``key`` is the name as JSON writes it, with its quotes.
    """
    for i in range(len(ends)):
        first[i] = last[i] = starts[i]
        at, end = starts[i] + 1, ends[i]
        while at < end and text[at] == _QUOTE:
            behind = _behind_string(text, at, end)
            same = behind - at == len(key)
            if same:
                for j in range(len(key)):
                    if text[at + j] != key[j]:
                        same = False
                        break
            value = behind + 1
            at = _behind_value(text, value, end)
            if same:
                first[i], last[i] = value, at
                break
            at += 1


@compiled
def code_spans(text, first, last, digests, slots, codes, examples):
    """Number the different texts of some spans in the order in which they come; empty ones get -1.

    ``codes`` gets the number of every span and ``examples`` the place of the first span of every number. Returns how
    many numbers there are. ``slots``, all -1, is a table whose length is a power of two.
    """
    mask = np.uint64(len(slots) - 1)
    n_codes = 0
    for i in range(len(first)):
        length = last[i] - first[i]
        codes[i] = -1
        if length == 0:
            continue
        slot = digests[i] & mask
        while slots[slot] != EMPTY:
            example = examples[slots[slot]]
            same = digests[example] == digests[i] and last[example] - first[example] == length
            if same:
                for j in range(length):
                    if text[first[example] + j] != text[first[i] + j]:
                        same = False
                        break
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == EMPTY:
            slots[slot] = n_codes
            examples[n_codes] = i
            n_codes += 1
        codes[i] = slots[slot]
    return n_codes


@compiled
def list_spans(text, first, last, found):
    """Copy some spans of a text, one behind the other, with a comma behind each."""
    n = 0
    for i in range(len(first)):
        for at in range(first[i], last[i]):
            found[n] = text[at]
            n += 1
        found[n] = _COMMA
        n += 1


@compiled
def add_weights(places, weights, count, mask, scores, found, n_found):
    """Add ``count`` times the weights of places, which ascend, to the scores, and list those that had none.

    Only the first ``len(scores)`` places count, and only those of the mask, which has length 0 where all do. Returns
    how many places are listed.
    """
    all_count = len(mask) == 0
    for i in range(len(places)):
        place = places[i]
        if place >= len(scores):
            break
        if all_count or mask[place]:
            if scores[place] == 0:
                found[n_found] = place
                n_found += 1
            scores[place] += count * weights[i]
    return n_found


@compiled
def add_to_found(places, weights, count, found, scores):
    """Add ``count`` times the weights of places, which ascend, to the scores of the places found.

    Where many were found, all places are added: the scores of the others are not looked at again.
    """
    if len(found) * _LOOKUP_COST > len(places):
        for i in range(len(places)):
            if places[i] >= len(scores):
                break
            scores[places[i]] += count * weights[i]
        return
    for place in found:
        at = np.searchsorted(places, place)
        if at < len(places) and places[at] == place:
            scores[place] += count * weights[at]
