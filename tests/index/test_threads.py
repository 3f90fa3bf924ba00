"""Many threads at one index: every answer is that of the codes before or after a change."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hashlearn.codes import hamming_distances
from hashlearn.index import HammingIndex, cost_model
from hashlearn.index.choose import SEARCH_METHODS

N_BITS, K, RADIUS = 72, 5, 12


@pytest.fixture(autouse=True)
def _tables_for_few_codes(monkeypatch):
    monkeypatch.setattr(cost_model, "FEWEST_CODES", 2)
    monkeypatch.setattr(cost_model, "FEWEST_BYTES", 0)
    monkeypatch.setattr(cost_model, "BUILD_PER_CODE", 0.001)


def clustered(n, rng):
    centers = np.random.default_rng(0).random((5, N_BITS)) < 0.5
    return np.packbits(centers[rng.integers(0, 5, n)] ^ (rng.random((n, N_BITS)) < 0.08), axis=1)


class Log:
    """The states an index goes through, each entered before the change that leads to it is begun."""

    def __init__(self, index):
        self.states = [dict(zip(index.ids.tolist(), map(bytes, index.codes())))]
        self.n_done = 1

    def begin(self, state):
        self.states.append(state)

    def done(self):
        self.n_done = len(self.states)


def change_at_random(index, log, rng):
    state = dict(log.states[-1])
    kind = rng.integers(0, 4)
    if kind == 0 and len(state) > 100:
        gone = rng.choice(sorted(state), rng.integers(1, 30), replace=False)
        log.begin({key: code for key, code in state.items() if key not in set(gone.tolist())})
        index.remove(gone)
    else:
        codes = clustered(int(rng.integers(1, 20)), rng)
        first = max(state) + 1
        ids = first + np.arange(len(codes)) if kind == 1 else rng.permutation(first + 30)[: len(codes)]
        log.begin({**state, **dict(zip(ids.tolist(), map(bytes, codes)))})
        index.upsert(codes, ids)
    log.done()


def read(index, log, seed):
    """Answers, each with the states that it may be the answer of."""
    rng, answers = np.random.default_rng(seed), []
    while len(answers) < 20 or log.n_done < 5:  # on a busy machine all reads may be made before the first change
        query, method = clustered(1, rng), SEARCH_METHODS[rng.integers(0, 3)]
        first = log.n_done - 1
        found, within = index.search(query, K, method=method), index.within(query, RADIUS, method=method)
        snapshot = index.copy()
        ids = snapshot.ids
        codes = snapshot.codes()
        last = len(log.states)
        answers.append((first, last, query, found, within[0], dict(zip(ids.tolist(), map(bytes, codes)))))
    return answers


def nearest(query, state):
    ids = np.array(sorted(state), np.int64)
    codes = np.array([list(state[key]) for key in ids.tolist()], np.uint8)
    distances = hamming_distances(query, codes, N_BITS)[0]
    order = np.argsort(distances, kind="stable")
    return distances[order], ids[order]


def test_readers_beside_a_writer_see_the_codes_before_or_after_a_change():
    rng = np.random.default_rng(1)
    index = HammingIndex(N_BITS).add(clustered(400, rng))
    log = Log(index)
    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(read, index, log, seed) for seed in range(8)]
        while not all(reader.done() for reader in readers):
            change_at_random(index, log, rng)
        answers = [answer for reader in readers for answer in reader.result()]
    for first, last, query, found, within, content in answers:
        states = log.states[first:last]
        expected = [nearest(query, state) for state in states]
        assert any(
            np.array_equal(found.ids[0], ids[:K]) and np.array_equal(found.distances[0], distances[:K])
            for distances, ids in expected
        )
        assert any(np.array_equal(within.ids, ids[distances <= RADIUS]) for distances, ids in expected)
        assert content in states


def test_changes_from_many_threads_are_all_made():
    index = HammingIndex(N_BITS)
    rng = np.random.default_rng(0)
    codes = clustered(800, rng)

    def add_and_remove(part):
        for start in range(part * 100, part * 100 + 100, 5):
            index.add(codes[start : start + 5], np.arange(start, start + 5))
            index.remove([start])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_and_remove, range(8)))
    left = np.flatnonzero(np.arange(800) % 5)
    np.testing.assert_array_equal(index.ids, left)
    np.testing.assert_array_equal(index.codes(), codes[left])


def test_many_threads_that_search_at_once_build_the_tables_once(monkeypatch):
    from hashlearn.index import choose

    built = []
    real = choose.MultiIndex
    monkeypatch.setattr(choose, "MultiIndex", lambda *arguments: built.append(1) or real(*arguments))
    rng = np.random.default_rng(2)
    codes, queries = clustered(3000, rng), clustered(64, rng)
    index = HammingIndex(N_BITS).add(codes)
    expected = index.search(queries, K, method="flat")

    def search(turn):
        found = index.search(queries, K, method=("auto", "multi-index")[turn % 2])
        np.testing.assert_array_equal(found.ids, expected.ids)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(search, range(60)))
    assert built == [1]


def test_an_opened_file_is_checked_once_whoever_comes_first(tmp_path, monkeypatch):
    from hashlearn.index import file

    rng = np.random.default_rng(3)
    codes = clustered(3000, rng)
    HammingIndex(N_BITS).add(codes, 2 * np.arange(3000)).save(tmp_path / "codes.hli")
    checked, real = [], file.zlib.crc32
    monkeypatch.setattr(file.zlib, "crc32", lambda data, *start: checked.append(len(data)) or real(data, *start))
    index = HammingIndex.open(tmp_path / "codes.hli")
    checked.clear()
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda row: index.search(codes[row : row + 1], 1).distances[0, 0], range(100)))
    assert not any(found)
    assert len(checked) == 3  # front, back and ids
