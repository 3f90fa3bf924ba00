"""The loops over codes and real queries, against numpy."""

import numpy as np
import pytest

from hashlearn.index.kernels.asymmetric import (
    POSITION_BITS,
    QUERY_SHIFT,
    SUM_BITS,
    Codes,
    Queries,
    knn_scan,
    range_scan,
    sums_of_hits,
)
from hashlearn.index.kernels.look_up import TABLE
from hashlearn.index.kernels.rounding import fill_tables

LENGTHS = (1, 2, 8, 16, 20, 64, 192, 193, 257, 512)  # bytes


def byte_planar(codes):
    n, n_bytes = codes.shape
    padded = np.zeros((-(-n // 64) * 64, n_bytes), np.uint8)
    padded[:n] = codes
    return np.ascontiguousarray(padded.reshape(-1, 64, n_bytes).transpose(0, 2, 1)).reshape(-1)


def asked(tables, factors):
    """Queries with these tables, of shape (n_queries, 32 * n_bytes), and what corrections are multiplied by."""
    largest = tables.reshape(len(tables), -1, 2, TABLE).max(axis=3).astype(np.int64)
    divisors = np.maximum(largest.sum(axis=2).max(axis=1) // 255, (255 * factors >> 16) // 16000) + 1
    coarse = tables // divisors[:, None]
    coarse_factors = factors // (divisors << 8)
    return Queries(
        tables.reshape(-1), factors, coarse.astype(np.uint8).reshape(-1), coarse_factors.astype(np.uint16), divisors
    )


class Case:
    """Random codes and queries, what the kernels get of them, and their sums by numpy."""

    def __init__(self, n, n_bytes, n_queries, corrections=True, seed=0):
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
        largest = rng.choice([1, 31, 16000], n_queries)[:, None]  # four of the last stay below 65536
        values = rng.integers(-largest, largest, (n_queries, 8 * n_bytes), endpoint=True).astype(np.int32)
        factors = rng.integers(0, 40000 << 8, n_queries) if corrections else np.zeros(n_queries, np.int64)
        bytes_of_corrections = rng.integers(0, 256, -(-n // 64) * 64, dtype=np.uint8) if corrections else None
        tables = np.empty((n_queries, n_bytes * 2 * TABLE), np.uint16)
        for row, table in zip(values, tables):
            fill_tables(row, table)
        self.n, self.n_queries = n, n_queries
        self.codes = Codes(byte_planar(codes), bytes_of_corrections, n_bytes, n)
        self.queries = asked(tables, factors)
        self.dtype = np.uint16 if n_bytes <= 192 else np.uint32
        signs = np.unpackbits(codes, axis=1).astype(np.int64) * 2 - 1
        self.sums = (values @ signs.T + np.abs(values).sum(axis=1, keepdims=True)) // 2
        if corrections:
            self.sums += bytes_of_corrections[:n].astype(np.int64) * factors[:, None] >> 16
        self.keys = (self.sums << POSITION_BITS) | np.arange(n)

    def ask(self, table, factor=0):
        """Every query has this table for each four bits, and this factor."""
        n_tables = 2 * self.codes.n_bytes
        tables = np.tile(np.array(table, np.uint16), (self.n_queries, n_tables))
        self.queries = asked(tables, np.full(self.n_queries, factor))

    def largest(self):
        return self.dtype(np.iinfo(self.dtype).max)

    def bounds(self):
        return np.empty(self.n_queries * (self.codes.n_bytes + 1) * 2 * TABLE, np.uint8)


def read_only(codes):
    """The arrays as an index gives them: for others the kernels would be compiled once more."""
    arrays = [array if array is None else array.view() for array in codes[:2]]
    for array in arrays:
        if array is not None:
            array.flags.writeable = False
    return Codes(*arrays, *codes[2:])


def nearest(case, k, bounds, first_tile=0, last_tile=None):
    keys = np.empty((case.n_queries, k), np.int64)
    last_tile = -(-case.n // 64) if last_tile is None else last_tile
    knn_scan(read_only(case.codes), (first_tile, last_tile), case.queries, bounds, k, case.largest(), keys)
    return np.sort(keys, axis=1)


def test_tables_add_the_magnitude_of_a_weight_where_its_sign_is_the_bits():
    tables = np.empty(2 * TABLE, np.uint16)
    fill_tables(np.array([5, -3, 0, 1, 0, 0, 0, 9], np.int32), tables)
    first, last = tables.reshape(2, TABLE)
    assert first[0b0000] == 3
    assert first[0b1001] == 5 + 3 + 1
    assert first[0b0110] == 0
    assert last.tolist() == [0, 9] * 8


@pytest.mark.parametrize("n_bytes", LENGTHS)
@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize(("n", "k", "n_queries"), [(1, 1, 1), (63, 5, 2), (64, 64, 5), (1000, 1, 4), (1000, 100, 7)])
def test_knn_scan_finds_the_smallest_keys_by_sums_and_by_bounds(n_bytes, corrections, n, k, n_queries):
    case = Case(n, n_bytes, n_queries, corrections)
    expected = np.sort(case.keys, axis=1)[:, :k]
    np.testing.assert_array_equal(nearest(case, k, None), expected)
    if case.dtype == np.uint16:  # longer codes are never scanned by bounds
        np.testing.assert_array_equal(nearest(case, k, case.bounds()), expected)


@pytest.mark.parametrize("k", [1, 10, 30])
def test_a_guess_from_some_tiles_changes_no_result(k):
    case = Case(20_100, 8, 5)
    expected = np.sort(case.keys, axis=1)[:, :k]
    for bounds in (None, case.bounds()):
        np.testing.assert_array_equal(nearest(case, k, bounds), expected)


def test_a_guess_that_leaves_fewer_than_k_codes_is_given_up():
    """All near codes are in the tiles that the guess is made from: every 20th of 1,600."""
    case = Case(64 * 1600, 1, 2, corrections=False)
    case.ask(np.arange(TABLE))  # the sum of a code is that of its two numbers
    case.codes.tiles[:] = 0x77
    near = np.arange(0, 64 * 1600, 64 * 20)
    case.codes.tiles[near] = 0
    expected = np.r_[near, np.setdiff1d(np.arange(200), near)[:10] | (14 << POSITION_BITS)]
    for bounds in (None, case.bounds()):
        np.testing.assert_array_equal(nearest(case, len(near) + 10, bounds), np.tile(expected, (2, 1)))


def test_of_equal_sums_those_at_the_lowest_positions_are_kept():
    case = Case(5000, 8, 2, corrections=False)
    case.ask([0] * TABLE)
    for bounds in (None, case.bounds()):
        np.testing.assert_array_equal(nearest(case, 70, bounds), np.tile(np.arange(70), (2, 1)))


@pytest.mark.parametrize("n_bytes", [16, 192, 193, 512])
def test_the_largest_sums_are_whole_and_in_order(n_bytes):
    """A code of 512 bytes has the largest sum there may be for tables of 16 bits, 2^26, and corrections of as much."""
    case = Case(200, n_bytes, 1)
    case.ask([0] * 15 + [65535], (1 << 26 << 16) // 255)
    case.codes.tiles[:] = 255
    case.codes.corrections[:] = 255
    case.codes.corrections[7] = 254
    first, second = nearest(case, 2, None)[0]
    factor = int(case.queries.factors[0])
    assert (first >> POSITION_BITS, first & 255) == (2 * n_bytes * 65535 + (254 * factor >> 16), 7)
    assert (second >> POSITION_BITS, second & 255) == (2 * n_bytes * 65535 + (255 * factor >> 16), 0)
    assert second >> POSITION_BITS < 1 << SUM_BITS


def test_knn_scan_of_some_tiles_sees_only_those_and_fills_up_with_minus_one():
    case = Case(300, 8, 2)
    keys = nearest(case, 100, None, first_tile=4, last_tile=5)
    np.testing.assert_array_equal(keys[:, : 100 - 44], -1)
    np.testing.assert_array_equal(keys[:, 100 - 44 :], np.sort(case.keys[:, 256:], axis=1))


@pytest.mark.parametrize("n_bytes", LENGTHS)
def test_range_scan_finds_every_code_below_the_limits_whatever_the_size_of_its_buffer(n_bytes):
    case = Case(2000, n_bytes, 7)
    limits = np.quantile(case.sums, 0.3, axis=1).astype(np.int64)
    thresholds = np.minimum((limits - 1) // case.queries.divisors + 1, case.largest()).astype(case.dtype)
    hits, resume, masks, found = np.empty(17000, np.int64), np.zeros(2, np.int64), np.zeros(1, np.uint64), []
    n_tiles, codes = -(-case.n // 64), read_only(case.codes)
    while resume[0] < n_tiles:
        count = range_scan(codes, n_tiles, case.queries, limits, thresholds, masks, resume, hits)
        found.append(hits[:count].copy())
    query, position = np.nonzero(case.sums < limits[:, None])
    hits = np.sort(np.concatenate(found))
    np.testing.assert_array_equal(hits, (query << QUERY_SHIFT) | position)
    sums = np.empty(len(hits), np.int64)
    sums_of_hits(codes, case.queries, hits, sums)
    np.testing.assert_array_equal(sums, case.sums[query, position])
