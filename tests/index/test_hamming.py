"""HammingIndex against brute force."""

import numpy as np
import pytest
from brute_force import all_pairs, brute_force_pairs, check_search, check_within, clustered
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index import HammingIndex, cost_model
from hashlearn.index.choose import SEARCH_METHODS

LENGTHS = st.sampled_from([1, 7, 8, 13, 16, 31, 32, 64, 65, 96, 100, 128, 192, 256, 4096])
RELAXED = settings(deadline=None, max_examples=40)


@pytest.fixture(autouse=True)
def _tables_for_few_codes(monkeypatch):
    """Let the tables be used for as few codes as a test can afford."""
    monkeypatch.setattr(cost_model, "FEWEST_CODES", 2)


@RELAXED
@given(
    LENGTHS,
    st.integers(0, 300),
    st.integers(1, 320),
    st.integers(0, 40),
    st.sampled_from(SEARCH_METHODS),
    st.integers(0, 99),
)
def test_every_method_returns_what_brute_force_returns(n_bits, n, k, radius, method, seed):
    codes, queries = clustered(n, n_bits, seed), clustered(4, n_bits, seed, noise=0.1)
    ids = np.random.default_rng(seed).permutation(3 * n)[:n].astype(np.int64)
    index = HammingIndex(n_bits).add(codes, ids)
    check_search(index, queries, codes, ids, k, method=method)
    check_within(index, queries, codes, ids, radius, method=method)
    wanted = brute_force_pairs(codes, ids, n_bits, radius)
    assert all_pairs(index, radius, method=method) == (wanted, len(wanted))


@RELAXED
@given(LENGTHS, st.integers(1, 200), st.integers(1, 30), st.data())
def test_a_subset_is_searched_as_if_it_were_all(n_bits, n, k, data):
    codes, queries = clustered(n, n_bits, seed=1), clustered(3, n_bits, seed=2)
    ids = np.random.default_rng(3).permutation(2 * n)[:n].astype(np.int64)
    index = HammingIndex(n_bits).add(codes, ids)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    chosen = index.ids[mask]
    positions = [int(np.flatnonzero(ids == i)[0]) for i in chosen]
    for subset in (mask, np.random.default_rng(4).permutation(chosen)):
        check_search(index, queries, codes[positions], chosen, k, subset=subset)
        check_within(index, queries, codes[positions], chosen, n_bits // 4, subset=subset)


@pytest.mark.parametrize("method", SEARCH_METHODS)
@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_change_nothing(method, n_jobs):
    codes = clustered(3000, 64, seed=0)
    for n_queries in (1, 3, 40):
        index, alone = HammingIndex(64).add(codes), HammingIndex(64).add(codes)
        queries = clustered(n_queries, 64, seed=1)
        for one, many in zip(
            alone.search(queries, 20, method=method), index.search(queries, 20, method=method, n_jobs=n_jobs)
        ):
            np.testing.assert_array_equal(one, many)
        one, many = alone.within(queries, 9, method=method), index.within(queries, 9, method=method, n_jobs=n_jobs)
        np.testing.assert_array_equal(one.ids, many.ids)
        np.testing.assert_array_equal(one.offsets, many.offsets)
    assert all_pairs(alone, 3, method=method) == all_pairs(index, 3, method=method, n_jobs=n_jobs)


@given(st.integers(0, 2**31), st.sampled_from(SEARCH_METHODS))
@settings(deadline=None, max_examples=10)
def test_distances_do_not_change_when_every_code_is_xored_with_one_mask(seed, method):
    rng = np.random.default_rng(seed)
    codes, queries, mask = (
        clustered(500, 96, seed),
        clustered(5, 96, seed + 1),
        rng.integers(0, 256, 12, dtype=np.uint8),
    )
    plain = HammingIndex(96).add(codes).search(queries, 12, method=method)
    masked = HammingIndex(96).add(codes ^ mask).search(queries ^ mask, 12, method=method)
    np.testing.assert_array_equal(plain.distances, masked.distances)
    np.testing.assert_array_equal(plain.ids, masked.ids)


@given(st.integers(0, 2**31), st.sampled_from(SEARCH_METHODS))
@settings(deadline=None, max_examples=10)
def test_the_order_of_adding_does_not_matter(seed, method):
    codes, queries = clustered(400, 64, seed), clustered(5, 64, seed + 1)
    order = np.random.default_rng(seed).permutation(400)
    straight = HammingIndex(64).add(codes).search(queries, 30, method=method)
    shuffled = HammingIndex(64).add(codes[order], order).search(queries, 30, method=method)
    np.testing.assert_array_equal(straight.ids, shuffled.ids)


def test_many_identical_codes_are_found_in_the_order_of_their_ids():
    n = 1_000_000
    index = HammingIndex(64).add(np.zeros((n, 8), np.uint8))
    for method in SEARCH_METHODS:
        distances, ids = index.search(np.zeros((2, 8), np.uint8), 1000, method=method)
        assert not distances.any()
        np.testing.assert_array_equal(ids, np.tile(np.arange(1000), (2, 1)))
        assert index.within(np.zeros((1, 8), np.uint8), 0, method=method).counts.tolist() == [n]
    n_pairs = 0
    for pairs in index.pairs_within(0):  # 5e11 of them: take a few blocks
        assert len(pairs.first) <= 1 << 21
        n_pairs += len(pairs.first)
        if n_pairs > 3_000_000:
            break


def test_results_longer_than_a_buffer_are_whole():
    codes = np.zeros((20_000, 8), np.uint8)
    result = HammingIndex(64).add(codes).within(codes[:60], 0)
    assert result.counts.tolist() == [20_000] * 60
    np.testing.assert_array_equal(result[59].ids, np.arange(20_000))


def test_a_flat_index_takes_the_bytes_of_its_codes_and_eight_for_an_id_that_is_no_running_number():
    n = 64 * 100
    for n_bits in (8, 16, 32, 64, 96, 128, 256):
        codes = clustered(n, n_bits, seed=0)
        assert HammingIndex(n_bits).add(codes).nbytes == n * n_bits // 8
        assert HammingIndex(n_bits).add(codes, np.arange(n)[::-1]).nbytes == n * n_bits // 8
        assert HammingIndex(n_bits).add(codes, 2 * np.arange(n)[::-1]).nbytes == n * (n_bits // 8 + 8)


def test_adding_little_by_little_wastes_little():
    index, codes = HammingIndex(64), clustered(20_000, 64, seed=0)
    for start in range(0, len(codes), 100):
        index.add(codes[start : start + 100])
    assert index.nbytes < 1.2 * codes.nbytes
    np.testing.assert_array_equal(index.codes(), codes)


def test_inputs_may_be_read_only_and_strided():
    codes = clustered(100, 64, seed=0)
    index = HammingIndex(64).add(np.asfortranarray(codes))
    wide = np.zeros((20, 16), np.uint8)
    wide[:, ::2] = codes[:20]
    wide.flags.writeable = False
    np.testing.assert_array_equal(index.search(wide[:, ::2], 1).distances, 0)
    ids = np.arange(100, 200)[::-1]
    ids.flags.writeable = False
    np.testing.assert_array_equal(HammingIndex(64).add(codes, ids).codes(ids), codes)


def test_an_empty_index_finds_nothing():
    index = HammingIndex(24)
    queries = np.zeros((2, 3), np.uint8)
    check_search(index, queries, np.empty((0, 3), np.uint8), np.empty(0, np.int64), 3)
    assert index.within(queries, 24).counts.tolist() == [0, 0]
    assert list(index.pairs_within(24)) == []
    assert len(index) == index.nbytes == 0
    assert index.codes().shape == (0, 3)


def test_no_queries_give_no_results():
    index = HammingIndex(8).add(np.zeros((5, 1), np.uint8))
    for method in SEARCH_METHODS:
        assert index.search(np.empty((0, 1), np.uint8), 3, method=method).ids.shape == (0, 3)
        assert len(index.within(np.empty((0, 1), np.uint8), 3, method=method)) == 0


def test_radius_above_n_bits_finds_everything():
    codes = clustered(200, 16, seed=0)
    for method in SEARCH_METHODS:
        assert HammingIndex(16).add(codes).within(codes[:2], 1000, method=method).counts.tolist() == [200, 200]


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "k must be at least 1, got 0", lambda index: index.search(np.zeros((1, 8), np.uint8), 0)),
        (TypeError, "k must be an integer, got 2.0", lambda index: index.search(np.zeros((1, 8), np.uint8), 2.0)),
        (ValueError, "radius must be at least 0, got -1", lambda index: index.within(np.zeros((1, 8), np.uint8), -1)),
        (ValueError, "radius must be at least 0, got -1", lambda index: index.pairs_within(-1)),
        (ValueError, "queries must have shape (n, 8)", lambda index: index.search(np.zeros((1, 7), np.uint8))),
        (TypeError, "queries must be packed codes of dtype uint8", lambda index: index.search(np.zeros((1, 8)))),
        (ValueError, "codes must have shape (n, 8)", lambda index: index.add(np.zeros(8, np.uint8))),
        (ValueError, "ids must be unique, got 7", lambda index: index.add(np.zeros((2, 8), np.uint8), [7, 7])),
        (ValueError, "ids must be new, got 2", lambda index: index.add(np.zeros((2, 8), np.uint8), [9, 2])),
        (ValueError, "ids must not be negative, got -1", lambda index: index.add(np.zeros((1, 8), np.uint8), [-1])),
        (ValueError, "ids must be as many as the codes", lambda index: index.add(np.zeros((1, 8), np.uint8), [5, 6])),
        (TypeError, "ids must be integers", lambda index: index.add(np.zeros((1, 8), np.uint8), [0.5])),
        (ValueError, "ids must fit in int64", lambda index: index.add(np.zeros((1, 8), np.uint8), [2**63])),
        (ValueError, "ids must be in the index, got 5", lambda index: index.remove([1, 5])),
        (ValueError, "ids must be in the index, got -1", lambda index: index.codes([-1])),
        (
            ValueError,
            "subset must be in the index, got 5",
            lambda index: index.search(np.zeros((1, 8), np.uint8), subset=[5]),
        ),
        (
            ValueError,
            "subset must have shape (5,)",
            lambda index: index.search(np.zeros((1, 8), np.uint8), subset=[True]),
        ),
        (ValueError, "method must be one of", lambda index: index.search(np.zeros((1, 8), np.uint8), method="best")),
        (ValueError, "n_jobs must not be 0", lambda index: index.search(np.zeros((1, 8), np.uint8), n_jobs=0)),
        (
            ValueError,
            "k must be at most 65536 among 5 codes, got 1000000000",
            lambda index: index.search(np.zeros((1, 8), np.uint8), 10**9),
        ),
        (
            TypeError,
            "subset must be a plain array or a list, got a masked array",
            lambda index: index.search(np.zeros((1, 8), np.uint8), subset=np.ma.array([0, 1], mask=[0, 1])),
        ),
        (
            TypeError,
            "ids must be a plain array or a list, got a masked array",
            lambda index: index.remove(np.ma.array([0, 1], mask=[0, 1])),
        ),
        (ValueError, "ids must be unique, got 7", lambda index: index.upsert(np.zeros((2, 8), np.uint8), [7, 7])),
        (TypeError, "model must be the digest", lambda index: HammingIndex(8, model=3)),
        (ValueError, "codes must have shape (n, 1 to 512), got (3,)", lambda index: HammingIndex().add([1, 2, 3])),
        (ValueError, "n_bits must be at most 4096", lambda index: HammingIndex(4097)),
        (ValueError, "n_bits must be at least 1", lambda index: HammingIndex(0)),
    ],
)
def test_bad_input_is_named_in_one_line_and_changes_nothing(error, message, call):
    index = HammingIndex(64).add(clustered(5, 64, seed=0))
    with pytest.raises(error) as caught:
        call(index)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert index.ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n_bits", [64, 128, 256])
def test_a_query_farther_than_all_before_is_answered_as_exactly(n_bits):
    """Scans begin with the limit that earlier queries had; a query of another kind must not be cut off by it."""
    codes = clustered(3000, n_bits, seed=0, noise=0.02)
    index = HammingIndex(n_bits).add(codes)
    far = np.random.default_rng(1).integers(0, 256, (3, n_bits // 8), dtype=np.uint8)
    ids = np.arange(3000)
    for _ in range(2):
        check_search(index, codes[:40], codes, ids, 5, method="flat")
        check_search(index, np.concatenate([far, codes[:2]]), codes, ids, 5, method="flat")
        check_search(index, codes[100:200], codes, ids, 5, method="flat", n_jobs=2)
        check_search(index, codes[:1], codes, ids, 900, method="flat")
