"""PartitionedIndex against brute force over its own estimates."""

import copy
import os
import pickle
import signal
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from hashlearn.index.hamming import HammingIndex
from hashlearn.index.kernels.list_queries import Probes, ask, low_bits
from hashlearn.index.list_search import ListState
from hashlearn.index.list_table import ListTable
from hashlearn.index.partition import Partition
from hashlearn.index.partitioned import PartitionedIndex

RELAXED = settings(deadline=None, max_examples=30)
KINDS = st.sampled_from(["normal", "equal", "few", "one far", "huge", "tiny"])
METRICS = st.sampled_from(["euclidean", "cosine", "dot"])
LENGTHS = st.sampled_from([1, 4, 7, 8, 20, 64, 128, 512, 520])
WIDTHS = st.sampled_from([1, 2, 3, 8, 17, 20])


def vectors(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((n, d))
    return {
        "normal": normal,
        "equal": np.ones((n, d)),
        "few": normal[rng.integers(0, max(1, n // 20), n)],
        "one far": np.where(np.arange(n)[:, None] == n // 2, 1e4, normal),
        "huge": 1e12 * normal,
        "tiny": 1e-12 * normal,
    }[kind].astype(np.float32)


def untrained(metric, n_bits, n_lists, d, free=False, scale=1.0, groups=None):
    """An index with centers and words at random: what it finds is bad, and must be what brute force finds."""
    rng = np.random.default_rng(0)
    n_words = 4 * n_bits if free else n_bits
    arrays = {
        "centers": rng.standard_normal((n_lists, d)) * scale,
        "words": rng.standard_normal((n_words, d)) * scale / n_bits**0.5,
        "directions": np.linalg.qr(rng.standard_normal((d, d)))[0],
        "shrinkage": rng.random(d + 1),
        "weights": np.array([1, 0, -1.5, -0.5]),
    }
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    partition = Partition(metric, n_bits, arrays if groups is None else {**arrays, "groups": groups})
    index = PartitionedIndex(n_bits, metric=metric, n_lists=n_lists)
    index._begin(ListState.of(partition, ListTable.empty(n_lists, -(-n_bits // 8))))
    return index


def own_estimates(index, query, probes):
    """Sums and rows of all codes of the nearest lists, by plain numpy, and the number that a sum stands for."""
    state = index._state
    asked, _ = ask(state.lists, state.geometry, query[None], Probes(probes))
    unit, table = asked.units[0], state.table
    entries = (asked.coarse.astype(np.int64) << low_bits(table.n_bytes)) + asked.low
    lists, sums, rows = table.lists, [], []
    for number, level in zip(asked.lists[0], asked.levels[0]):
        if number < 0:
            continue
        tiles, here = table.list_content(number)
        codes = tiles.reshape(-1, table.n_bytes + 1, 64).transpose(0, 2, 1).reshape(-1, table.n_bytes + 1)[: len(here)]
        halves = np.stack([codes[:, :-1] >> 4, codes[:, :-1] & 15], axis=2).reshape(len(codes), 2 * table.n_bytes)
        total = entries.reshape(-1, 16)[np.arange(halves.shape[1]), halves].sum(axis=1)
        above = int((float(level) + (lists.offsets[number] - state.lists.lowest)) / unit + 0.5)
        factor = int(lists.scales[number] / unit * 65536)
        sums.append(total + (codes[:, -1].astype(np.int64) * factor >> 16) + above)
        rows.append(here.astype(np.int64))
    sums, rows = np.concatenate([[], *sums]).astype(np.int64), np.concatenate([[], *rows]).astype(np.int64)
    return (asked.bases[0] + unit * sums).astype(np.float32), sums, rows


def brute_force(index, query, k, probes, allowed=None):
    distances, sums, rows = own_estimates(index, query, probes)
    if allowed is not None:
        distances, sums, rows = (part[allowed[rows]] for part in (distances, sums, rows))
    order = np.lexsort((rows, sums))[:k]
    missing = k - len(order)
    return np.append(distances[order], [np.inf] * missing), np.append(rows[order], [-1] * missing)


def check_search(index, Q, k, probes, subset=None):
    found = index.search(Q, k, probes=probes, subset=subset)
    for query, distances, rows in zip(Q, *found):
        wanted_distances, wanted_rows = brute_force(index, query, k, probes, subset)
        np.testing.assert_array_equal(rows, wanted_rows)
        np.testing.assert_array_equal(distances, wanted_distances)
    assert (found.probed <= probes).all()
    for q in range(len(Q)):  # one query alone finds what it finds among others
        alone = index.search(Q[q : q + 1], k, probes=probes, subset=subset)
        np.testing.assert_array_equal(alone.ids[0], found.ids[q])


@RELAXED
@given(
    metric=METRICS,
    kind=KINDS,
    n_bits=LENGTHS,
    free=st.booleans(),
    n=st.integers(1, 900),
    d=WIDTHS,
    groups=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    grouped=st.booleans(),
    k=st.sampled_from([1, 3, 10, 70, 1000]),
    data=st.data(),
)
def test_a_search_is_brute_force_over_its_own_estimates(metric, kind, n_bits, free, n, d, groups, grouped, k, data):
    """Also with centers in groups, as an index of ten million rows has them."""
    scale, n_lists = {"huge": 1e12, "tiny": 1e-12}.get(kind, 1.0), sum(groups)
    in_groups = np.array(groups) if grouped else None
    index = untrained(metric, n_bits, n_lists, d, free and n_bits % 4 == 0, scale, in_groups)
    X = vectors(kind, n, d)
    cut = data.draw(st.integers(0, n))
    index.add(X[:cut]).add(X[cut:])
    Q = vectors(kind, 6, d, seed=1)
    check_search(index, Q, k, n_lists)
    check_search(index, Q, k, data.draw(st.integers(1, n_lists)))
    removed = np.random.default_rng(2).permutation(n)[: data.draw(st.integers(0, n))]
    index.remove(removed)
    assert len(index) == n - len(removed)
    check_search(index, Q, k, n_lists)
    subset = np.random.default_rng(3).random(n) < 0.3
    subset[removed] = False
    check_search(index, Q, k, n_lists, subset)


@RELAXED
@given(metric=METRICS, n=st.integers(2, 500), n_bits=LENGTHS, d=WIDTHS, share=st.floats(0, 1), removes=st.booleans())
def test_within_finds_all_whose_estimate_is_not_above_the_distance(metric, n, n_bits, d, share, removes):
    """Of those that are there, or of a subset."""
    index = untrained(metric, n_bits, 5, d).add(vectors("normal", n, d))
    if removes:
        index.remove(np.random.default_rng(2).permutation(n)[: n // 2])
    some = np.random.default_rng(3).random(n) < 0.5
    for query, subset in zip(vectors("normal", 4, d, seed=1), (None, some, None, some)):
        distances, sums, rows = own_estimates(index, query, 5)
        distance = float(np.quantile(distances, share))
        near = (distances <= distance) & (True if subset is None else subset[rows])
        order = np.lexsort((rows[near], sums[near]))
        found = index.within(query[None], distance, probes=5, subset=subset)[0]
        np.testing.assert_array_equal(found.ids, rows[near][order])
        np.testing.assert_array_equal(found.distances, distances[near][order])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "dot"])
def test_estimates_are_those_of_the_formula(metric):
    """What the sums of integers stand for, against the formula in double precision."""
    index = untrained(metric, 64, 4, 8)
    X, Q = vectors("normal", 300, 8), vectors("normal", 5, 8, seed=1)
    index.add(X)
    partition = index._state.partition
    encoded = partition.encoded(X)
    bits = 2.0 * np.unpackbits(encoded.codes, axis=1) - 1
    R, seen = bits @ partition.words.astype(float), partition.beside_origin(Q).astype(float)
    half = 1.0 if metric == "euclidean" else 0.5
    centers = partition.offsets.astype(float)
    near = -2 * half * seen @ (centers[encoded.lists] + R).T + encoded.corrections
    if metric != "dot":
        near += half * ((centers[encoded.lists] ** 2).sum(axis=1) + (seen**2).sum(axis=1)[:, None])
    found = index.search(Q, 300, probes=4)
    wanted = np.take_along_axis(near, found.ids, axis=1)
    step = index._state.table.lists.scales.max()
    np.testing.assert_allclose(found.distances, wanted, atol=step)


@pytest.mark.parametrize(("metric", "least"), [("euclidean", 0.9), ("cosine", 0.9), ("dot", 0.8)])
def test_a_fitted_index_finds_the_true_neighbors_in_few_lists(metric, least):
    rng = np.random.default_rng(0)
    centers = 3 * rng.standard_normal((40, 24))
    X = (centers[rng.integers(0, 40, 4000)] + rng.standard_normal((4000, 24))).astype(np.float32)
    Q = (centers[rng.integers(0, 40, 50)] + rng.standard_normal((50, 24))).astype(np.float32)
    index = PartitionedIndex(64, metric=metric, n_lists=40, random_state=0).fit(X).add(X)
    exact = {
        "euclidean": -2 * Q @ X.T + (X**2).sum(axis=1),
        "cosine": -Q @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T,
        "dot": -Q @ X.T,
    }[metric]
    truth = np.argsort(exact, axis=1)[:, :10]
    found = index.search(Q, 100, probes=10).ids
    assert np.mean([np.isin(one, other).mean() for one, other in zip(truth, found)]) > least


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_far_from_zero_are_found_as_if_they_were_near(metric):
    """Numbers of 16 bits stand for centers as seen from their mean: 200 away from zero, they would be 1 apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 16)).astype(np.float32)
    far = X + np.float32(200) if metric == "euclidean" else np.hstack([X, np.full((3000, 1), 20, np.float32)])
    recalls = []
    for rows in (X, far):
        seen = rows if metric == "euclidean" else rows / np.linalg.norm(rows, axis=1, keepdims=True)
        truth = NearestNeighbors(n_neighbors=10).fit(seen.astype(float)).kneighbors(seen[:100], return_distance=False)
        index = PartitionedIndex(64, metric=metric, n_lists=30, random_state=0).fit(rows).add(rows)
        found = index.search(rows[:100], 50, probes=10).ids
        recalls.append(np.mean([np.isin(one, other).mean() for one, other in zip(truth, found)]))
    assert min(recalls) > 0.8


def test_lists_that_grow_move_and_a_copy_keeps_what_it_had():
    index = untrained("euclidean", 16, 6, 5)
    Q = vectors("normal", 4, 5, seed=1)
    for part in range(25):
        before, old = index.copy(), index.search(Q, 9, probes=6) if part else None
        index.add(vectors("normal", 1 + 7 * part, 5, seed=part))
        check_search(index, Q, 9, 6)
        if old is not None:
            np.testing.assert_array_equal(before.search(Q, 9, probes=6).ids, old.ids)
    other = before.add(vectors("few", 300, 5, seed=99))  # both add to what they share
    check_search(other, Q, 9, 6)
    check_search(index, Q, 9, 6)
    assert len(index) == index.list_sizes.sum() == len(index.rows)


def test_compaction_changes_no_result_and_takes_removed_rows_away():
    index = untrained("cosine", 24, 5, 6).add(vectors("normal", 700, 6)).add(vectors("normal", 50, 6, seed=5))
    index.remove(np.arange(0, 750, 2))
    Q = vectors("normal", 4, 6, seed=1)
    before = index.search(Q, 20, probes=5)
    assert index.is_out_of_shape
    index.compact()
    assert not index.is_out_of_shape
    assert index.list_sizes.sum() == 375
    for one, other in zip(before, index.search(Q, 20, probes=5)):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="rows must be in the index, got 0"):
        index.remove([0])
    assert index.add(vectors("normal", 1, 6)).rows[-1] == 750


def test_rows_may_be_given_and_are_never_given_again():
    index = untrained("euclidean", 8, 3, 4).add(vectors("normal", 3, 4), rows=[5, 6, 9])
    assert index.rows.tolist() == [5, 6, 9]
    assert index.next_row == 10
    index.remove([9]).add(vectors("normal", 1, 4))
    assert index.rows.tolist() == [5, 6, 10]
    with pytest.raises(ValueError, match="rows must ascend and not be below 11"):
        index.add(vectors("normal", 1, 4), rows=[4])
    big = 1 << 22
    assert (
        index.add(vectors("normal", 1, 4, seed=8), rows=[big]).search(vectors("normal", 1, 4, seed=8), 4).ids.max()
        == big
    )


@pytest.mark.parametrize("removes", [False, True])
def test_a_saved_index_is_mapped_and_finds_the_same(tmp_path, removes):
    index = untrained("euclidean", 32, 7, 6).add(vectors("normal", 500, 6)).add(vectors("normal", 30, 6, seed=4))
    if removes:
        index.remove(np.arange(100))
    index.save(tmp_path / "a.hll")
    opened = PartitionedIndex.open(tmp_path / "a.hll").verify()
    Q = vectors("normal", 5, 6, seed=1)
    for other in (opened, pickle.loads(pickle.dumps(index)), copy.copy(index)):
        for one, two in zip(index.search(Q, 12, probes=7), other.search(Q, 12, probes=7)):
            np.testing.assert_array_equal(one, two)
    assert np.array_equal(opened.rows, index.rows)
    opened.remove(opened.rows[:5]).add(vectors("normal", 40, 6, seed=7))
    check_search(opened, Q, 9, 7)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="other systems do not tell how they read")
def test_a_query_on_a_mapped_file_reads_nothing_around_its_lists(tmp_path):
    path = tmp_path / "a.hll"
    untrained("euclidean", 32, 7, 6).add(vectors("normal", 500, 6)).save(path)
    index = PartitionedIndex.open(path)
    assert "rr" in flags_of_mapping(path)  # no read-ahead
    index.verify()
    assert "rr" not in flags_of_mapping(path)


def flags_of_mapping(path):
    """What Linux says about the mapped memory of a file."""
    entries = Path("/proc/self/smaps").read_text().split("VmFlags:")
    flags = [after.split("\n")[0].split() for before, after in pairwise(entries) if str(path) in before]
    assert len(flags) == 1
    return flags[0]


def test_a_file_that_is_not_whole_is_refused(tmp_path):
    path = tmp_path / "a.hll"
    untrained("euclidean", 32, 7, 6).add(vectors("normal", 500, 6)).save(path)
    content = path.read_bytes()
    for damaged, message in (
        (content[:-4096], "truncated"),
        (content[:100], "header does not match"),
        (content + b"\0", "appended to"),
        (b"x" + content[1:], "not a partitioned index"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=message):
            PartitionedIndex.open(path)
    place = len(content) - 8192 + 10  # within the codes
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ValueError, match="does not match its checksum"):
        PartitionedIndex.open(path).verify()


def test_the_file_of_another_kind_of_index_is_refused(tmp_path):
    HammingIndex(32).add(np.zeros((5, 4), np.uint8)).save(tmp_path / "codes")
    untrained("euclidean", 32, 7, 6).add(vectors("normal", 50, 6)).save(tmp_path / "lists")
    with pytest.raises(ValueError, match="codes: not a partitioned index of hashlearn"):
        PartitionedIndex.open(tmp_path / "codes")
    with pytest.raises(ValueError, match="lists: not an index file of hashlearn"):
        HammingIndex.open(tmp_path / "lists")


def test_threads_find_what_one_finds():
    index = untrained("euclidean", 64, 9, 12).add(vectors("normal", 900, 12))
    Q = vectors("normal", 300, 12, seed=1)
    for one, other in zip(index.search(Q, 5, probes=4), index.search(Q, 5, probes=4, n_jobs=3)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index, Q: index.search(Q, probes=0), "probes must be at least 1"),
        (lambda index, Q: index.search(Q, probes=8), "probes must be at most 7"),
        (lambda index, Q: index.search(Q[:, :3]), "Q must have 6 features, got 3"),
        (lambda index, Q: index.search(Q[0]), "Q must hold vectors"),
        (lambda index, Q: index.search(np.full((1, 6), np.nan)), "Q must be finite"),
        (lambda index, Q: index.search(np.full((3, 6), np.inf)), "Q must be finite"),
        (lambda index, Q: index.within(np.full((1, 6), np.nan), 1.0), "Q must be finite"),
        (lambda index, Q: index.search(Q, subset=np.ones(3, bool)), "subset must have shape"),
        (lambda index, Q: index.search(Q, subset=[500]), "subset must hold rows from 0 to 499"),
        (lambda index, Q: index.remove([500]), "rows must be in the index"),
        (lambda index, Q: index.add(Q[:, :2]), "X must have 6 features"),
        (lambda index, Q: index.tune(vectors("normal", 500, 6), np.full((3, 6), np.nan)), "queries must be finite"),
        (lambda index, Q: index.tune(vectors("normal", 500, 6), Q[:, :2]), "queries must have 6 features"),
        (lambda index, Q: PartitionedIndex().search(Q), "fitted first"),
        (lambda index, Q: PartitionedIndex().fit(Q[:1]), "at least 2 rows"),
        (lambda index, Q: PartitionedIndex(n_lists=50).fit(Q), "at least 50 rows"),
    ],
)
def test_bad_arguments_are_named(call, message):
    index = untrained("euclidean", 32, 7, 6).add(vectors("normal", 500, 6))
    with pytest.raises(ValueError, match=message):
        call(index, vectors("normal", 4, 6))
    assert len(index) == 500


def test_the_lists_of_rows_are_told_whatever_their_numbers():
    index = untrained("euclidean", 16, 5, 6)
    rows = np.concatenate([np.arange(200), 3_000_000 + 7 * np.arange(200)])
    index.add(vectors("normal", 400, 6), rows).remove(rows[:9])
    asked = rows[9:].reshape(17, 23)
    lists = index._state.table.lists_of(asked)
    for number in range(5):
        assert set(asked[lists == number]) == set(index._state.table.list_content(number)[1].tolist())


@pytest.mark.parametrize("empty", [0, 3, 6])
def test_an_empty_list_changes_no_estimate_of_others(empty):
    X, Q = vectors("normal", 500, 6), vectors("normal", 4, 6, seed=1)
    index = untrained("euclidean", 32, 7, 6).add(X)
    others = index.nearest_lists(X) != empty
    wanted = index.search(Q, 20, probes=7, subset=others)
    found = index.remove(np.flatnonzero(~others)).compact().search(Q, 20, probes=7)
    assert index.list_sizes[empty] == 0
    np.testing.assert_allclose(found.distances, wanted.distances, rtol=1e-4)


@pytest.mark.parametrize("kind", ["equal", "few", "one far"])
def test_odd_data_can_be_fitted(kind):
    X = vectors(kind, 300, 4)
    index = PartitionedIndex(16, n_lists=8, random_state=0).fit(X).add(X)
    check_search(index, X[:3], 20, index.n_lists)


def test_codes_in_lists_have_no_levels_however_long_they_are():
    """Lists keep words alone, and what a code has of them is found by search."""
    X = vectors("normal", 120, 4)
    index = PartitionedIndex(16, n_lists=4, words="auto", random_state=0).fit(X).add(X)
    assert len(index._state.partition.words) == 16
    assert index.search(X[:3], 1, probes=4).ids.shape == (3, 1)
    with pytest.raises(ValueError, match="words must be one of 'signed', 'free', 'auto', got 'levels'"):
        PartitionedIndex(16, words="levels")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_child_does_not_wait_for_a_change_by_a_thread_of_its_parent(monkeypatch):
    X = vectors("normal", 200, 8)
    index = PartitionedIndex(8, n_lists=4, random_state=0).fit(X).add(X)
    inside, go_on = threading.Event(), threading.Event()
    removing, waits = ListTable.removing, [True]

    def waiting(*arguments):
        if waits and waits.pop():
            inside.set()
            go_on.wait(20)
        return removing(*arguments)

    monkeypatch.setattr(ListTable, "removing", waiting)
    thread = threading.Thread(target=index.remove, args=([0],))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that waits is killed
        code = 1
        try:
            code = int(len(index.remove([1])) != 199)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go_on.set()
    thread.join()
    assert len(index) == 199
