"""What every store must do, run on each of them."""

import numpy as np
import pytest

from hashlearn.codes import hamming_distances, pack
from hashlearn.codes.results import NO_DISTANCE
from hashlearn.stores import open_store

INT_MAX = np.iinfo(np.int64).max


def random_codes(n: int, n_bits: int, seed: int = 0) -> np.ndarray:
    return pack(np.random.default_rng(seed).integers(0, 2, (n, n_bits)))


def nearest(codes, ids, query, k, n_bits) -> list[tuple[int, object]]:
    """By brute force: nearest first, ties by the lowest id."""
    distances = hamming_distances(query[None], codes, n_bits)[0].tolist()
    return sorted(zip(distances, ids))[:k]


def found(result, row: int) -> list[tuple[int, object]]:
    return [pair for pair in zip(result.distances[row].tolist(), result.ids[row].tolist()) if pair[0] != NO_DISTANCE]


@pytest.mark.parametrize("n_bits", [1, 7, 64, 65, 1000, 4095, 4096])
def test_search_returns_what_brute_force_returns_at_every_length(make, n_bits):
    codes, queries = random_codes(300, n_bits), random_codes(5, n_bits, seed=1)
    ids = np.random.default_rng(2).permutation(1000)[:300]
    store = make(n_bits)
    store.upsert(ids, codes)
    result = store.search(queries, k=7)
    assert result.distances.dtype == np.int32
    assert result.ids.dtype == np.int64
    for row, query in enumerate(queries):
        assert found(result, row) == nearest(codes, ids.tolist(), query, 7, n_bits)


def test_the_first_bit_is_the_most_significant_one(make, kind):
    """As the store's own notation shows it, where it has one."""
    store = make(12)
    code = pack([[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]])
    store.upsert([5], code)
    assert store.get([5])[0].code.tolist() == [0b10000000, 0b01100000]
    written = {
        "postgresql": ("code::text", "100000000110"),
        "duckdb": ("CAST(code AS VARCHAR)", "1000000001100000"),
        "sqlite": ("hex(code)", "8060"),
    }
    if kind in written:
        column, text = written[kind]
        assert store._engine.rows(f"SELECT {column} FROM {store._engine.table}", []) == [(text,)]


def test_codes_come_back_as_they_were_given(make):
    codes = random_codes(100, 77)
    store = make(77)
    store.upsert(range(100), codes)
    assert np.array_equal([record.code for record in store.get(range(100))], codes)


def test_a_radius_is_inclusive(make):
    store = make(8)
    store.upsert([1, 2, 3, 4], np.array([[0b0], [0b1], [0b11], [0b111]], np.uint8))
    query = np.zeros((1, 1), np.uint8)
    assert [store.within(query, radius).ids.tolist() for radius in (0, 1, 2, 8)] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 3, 4],
    ]


def test_within_returns_what_brute_force_returns(make):
    codes, queries = random_codes(500, 12), random_codes(4, 12, seed=1)
    ids = np.random.default_rng(2).permutation(500).tolist()
    store = make(12)
    store.upsert(ids, codes)
    result = store.within(queries, 3)
    assert result.distances.dtype == np.int32
    for row, query in enumerate(queries):
        wanted = [pair for pair in nearest(codes, ids, query, 500, 12) if pair[0] <= 3]
        assert list(zip(*(part.tolist() for part in result[row]))) == wanted
    assert result.counts.sum() == len(result.ids)


@pytest.mark.parametrize("k", [1, 10, 100, 700])
def test_ties_go_to_the_lowest_id_also_at_the_last_place(make, k):
    codes = random_codes(700, 3)
    ids = np.random.default_rng(2).permutation(700).tolist()
    store = make(3)
    store.upsert(ids, codes)
    assert found(store.search(codes[:1], k), 0) == nearest(codes, ids, codes[0], k, 3)


def test_ties_beyond_what_an_engine_returns_at_once(make):
    """10,000 codes at the same distance of the query: sqlite-vec finds 4,096 at a time, Milvus 16,384."""
    codes = np.repeat(np.array([[0], [128]], np.uint8), [10_000, 7000], axis=0)
    ids = np.random.default_rng(2).permutation(17_000)
    store = make(1)
    store.upsert(ids, codes)
    lowest = np.sort(ids[:10_000])
    assert store.search(codes[:1], k=20).ids[0].tolist() == lowest[:20].tolist()
    assert store.search(codes[:1], k=9000).ids[0].tolist() == lowest[:9000].tolist()
    assert store.within(codes[:1], 0).ids.tolist() == lowest.tolist()
    assert len(store.within(codes[:1], 1).ids) == 17_000


def test_ties_among_strings_go_by_code_points(make):
    ids = ["b", "a", "B", "é", "z", "10", "9", "日", "😀", "e"]
    store = make(8, id_type="str")
    store.upsert(ids, np.zeros((len(ids), 1), np.uint8))
    query = np.zeros((1, 1), np.uint8)
    assert store.search(query, k=6).ids[0].tolist() == sorted(ids)[:6]
    assert store.within(query, 0).ids.tolist() == sorted(ids)


def test_places_left_over_are_marked(make, kind):
    store = make(8)
    store.upsert([7], np.zeros((1, 1), np.uint8))
    result = store.search(np.zeros((2, 1), np.uint8), k=3)
    assert result.ids.tolist() == [[7, -1, -1]] * 2
    assert result.distances.tolist() == [[0, NO_DISTANCE, NO_DISTANCE]] * 2


def test_an_empty_store(make):
    store = make(16, id_type="str")
    queries = np.zeros((2, 2), np.uint8)
    result = store.search(queries, k=2)
    assert result.ids.tolist() == [[None, None]] * 2
    assert store.within(queries, 16).counts.tolist() == [0, 0]
    assert store.count() == len(store) == 0
    assert list(store.scan()) == []
    assert store.get(["a"]) == []
    assert store.delete(["a"]) == 0


def test_no_rows_and_no_queries(make):
    store = make(8)
    store.upsert([], np.empty((0, 1), np.uint8))
    assert store.search(np.empty((0, 1), np.uint8), k=3).ids.shape == (0, 3)
    assert len(store.within(np.empty((0, 1), np.uint8), 3)) == 0
    assert store.get([]) == []
    assert store.delete([]) == 0


def test_upserting_twice_keeps_the_last_row(make):
    store = make(8)
    store.upsert([1, 2], np.array([[1], [2]], np.uint8), payloads=[{"v": 1}, {"v": 1}])
    store.upsert([2, 3], np.array([[4], [8]], np.uint8), payloads=[{"v": 2}, None])
    assert len(store) == 3
    assert [(r.id, r.code.tolist(), r.payload) for r in store.get([3, 2, 1])] == [
        (3, [8], {}),
        (2, [4], {"v": 2}),
        (1, [1], {"v": 1}),
    ]
    assert store.search(np.array([[2]], np.uint8), k=3).distances[0].tolist() == [2, 2, 2]
    store.upsert([2], np.array([[4]], np.uint8))
    assert store.get([2])[0].payload == {}


def test_deleting_counts_what_was_there(make):
    store = make(8)
    codes = np.arange(10, dtype=np.uint8)[:, None]
    store.upsert(range(10), codes)
    assert store.delete([3, 5, 77, 5]) == 2
    assert store.delete([3]) == 0
    assert len(store) == 8
    assert store.search(codes[3:4], k=1).distances[0, 0] == 1
    store.upsert([3], codes[3:4])
    assert store.search(codes[3:4], k=1).ids[0, 0] == 3


@pytest.mark.parametrize("ids", [[0, 1, INT_MAX], np.array([4, 2], np.uint8), range(3), (9,)])
def test_integers_as_ids(make, ids):
    store = make(8)
    codes = np.arange(len(ids), dtype=np.uint8)[:, None]
    store.upsert(ids, codes)
    assert [record.id for record in store.get(ids)] == list(ids)
    assert sorted(store.search(codes[:1], k=len(ids)).ids[0].tolist()) == sorted(ids)


def test_strings_as_ids(make, kind):
    ids = ["a", "Ünï-cödé", "日本語", "👩‍👩‍👧", '"; DROP TABLE codes; --', "a b", "%s", "{x}", "\\", "?", "x" * 1024]
    if kind != "milvus":
        ids.append("' OR 1=1 --")
    store = make(8, id_type="str")
    codes = np.arange(len(ids), dtype=np.uint8)[:, None]
    store.upsert(np.array(ids), codes)
    assert [record.id for record in store.get(ids)] == ids
    for id, code in zip(ids, codes):
        assert store.search(code[None], k=1).ids[0].tolist() == [id]
    assert store.delete(ids[:5]) == 5
    assert sorted(id for block in store.scan() for id in block.ids) == sorted(ids[5:])


def test_payloads_come_back_as_they_were_given(make):
    payloads = [
        {"title": "Größe 日本 😀 \n \t \" ' \\ %s {x}", "empty": ""},
        {"n": [1, 2.5, -3, 2**53, None, True], "deep": {"a": {"b": []}}, "big": 2**62},
        {"ключ с пробелом": "значение", "'; --": 0},
        {},
    ]
    store = make(8)
    store.upsert(range(4), np.zeros((4, 1), np.uint8), payloads=payloads)
    assert [record.payload for record in store.get(range(4))] == payloads
    scanned = {id: p for block in store.scan(payloads=True) for id, p in zip(block.ids.tolist(), block.payloads)}
    assert scanned == dict(enumerate(payloads))


def test_searching_a_batch_is_searching_one_by_one(make):
    codes = random_codes(200, 24)
    store = make(24)
    store.upsert(range(200), codes)
    together = store.search(codes[:20], k=5)
    for row in range(20):
        one = store.search(codes[row : row + 1], k=5)
        assert np.array_equal(one.ids[0], together.ids[row])
        assert np.array_equal(one.distances[0], together.distances[row])


@pytest.mark.parametrize("id_type", ["int64", "str"])
def test_a_scan_gives_every_row_once_in_blocks(make, id_type):
    codes = random_codes(1050, 24)
    ids = list(range(1050)) if id_type == "int64" else [f"row {number}" for number in range(1050)]
    store = make(24, id_type=id_type)
    store.upsert(ids, codes, payloads=[{"odd": number % 2 == 1} for number in range(1050)])
    blocks = list(store.scan(block_rows=100))
    assert max(len(block.ids) for block in blocks) <= 100
    assert all(block.payloads is None for block in blocks)
    rows = {id: code.tobytes() for block in blocks for id, code in zip(block.ids.tolist(), block.codes)}
    assert sum(len(block.ids) for block in blocks) == 1050
    assert rows == {id: code.tobytes() for id, code in zip(ids, codes)}
    odd = [id for block in store.scan(100, {"odd": True}) for id in block.ids.tolist()]
    assert sorted(odd) == sorted(ids[1::2])


def test_vectors_are_kept_for_reranking(make):
    vectors = np.random.default_rng(0).standard_normal((50, 5)).astype(np.float32)
    store = make(8, n_features=5)
    store.upsert(range(50), random_codes(50, 8), vectors)
    assert np.array_equal(store.vectors([49, 3, 17, 49]), vectors[[49, 3, 17, 49]])
    assert [record.id for record in store.get([7, 99, 7])] == [7, 7]
    store.upsert([3], random_codes(1, 8), vectors[:1].astype(np.float64))
    assert np.array_equal(store.vectors([3]), vectors[:1])
    with pytest.raises(ValueError, match="ids must be in the store, got 99"):
        store.vectors([1, 99])


def test_filters_choose_among_the_rows_searched(make):
    codes = random_codes(400, 16)
    payloads = [{"year": 2000 + number % 40, "kind": "even" if number % 2 == 0 else "odd"} for number in range(400)]
    store = make(16)
    store.upsert(range(400), codes, payloads=payloads)
    chosen = [number for number in range(400) if number % 40 >= 30 and number % 2]
    filter = {"year": {"$gte": 2030}, "kind": "odd"}
    assert store.count(filter) == len(chosen)
    for query in codes[:5]:
        wanted = nearest(codes[chosen], chosen, query, 12, 16)
        assert found(store.search(query[None], 12, filter), 0) == wanted
        within = store.within(query[None], wanted[-1][0], filter)
        assert within.ids[:12].tolist() == [id for _, id in wanted]
    assert store.search(codes[:1], 3, {"kind": "neither"}).ids.tolist() == [[-1, -1, -1]]


def test_a_large_batch(make):
    codes = random_codes(30_000, 32)
    store = make(32)
    store.upsert(np.arange(30_000), codes)
    assert len(store) == 30_000
    assert found(store.search(codes[7:8], 5), 0) == nearest(codes, range(30_000), codes[7], 5, 32)
    assert len(store.get(np.arange(0, 30_000, 2))) == 15_000
    assert store.delete(np.arange(20_000)) == 20_000
    assert len(store) == 10_000


def test_a_store_says_what_it_holds_when_it_is_opened_again(make, uri):
    with make(20, id_type="str", model="abc", n_features=3) as store:
        store.upsert(["a"], random_codes(1, 20), [[1, 2, 3]], [{"x": 1}])
    with open_store(uri) as again:
        assert (again.n_bits, again.id_type, again.model, again.n_features) == (20, "str", "abc", 3)
        assert again.exact
        assert again.get(["a"])[0].payload == {"x": 1}
        assert again.vectors(["a"]).tolist() == [[1, 2, 3]]


def test_notes_are_kept(make, uri):
    with make(8) as store:
        assert store.note("progress") is None
        store.keep_note("progress", "half of it, 'quoted'")
        store.keep_note("progress", "all")
        store.keep_note("other", "")
        store.keep_note("third", "x")
        store.drop_note("third")
        store.drop_note("never kept")
    with open_store(uri) as again:
        assert again.note("progress") == "all"
        assert again.note("other") == ""
        assert again.note("third") is None
        assert len(again) == 0


def test_compacting_changes_no_answer(make):
    codes = random_codes(300, 16)
    store = make(16)
    for start in range(0, 300, 50):
        store.upsert(range(start, start + 50), codes[start : start + 50])
    store.delete(range(0, 300, 3))
    before = store.search(codes[:5], k=9)
    store.compact()
    after = store.search(codes[:5], k=9)
    assert np.array_equal(before.ids, after.ids)
    assert np.array_equal(before.distances, after.distances)
