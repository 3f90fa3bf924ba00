"""Codes out of an index or a store: the same codes, the same neighbors."""

import numpy as np
import pytest

from hashlearn import HammingIndex
from hashlearn.codes import hamming_distances, pack
from hashlearn.stores import open_store, to_faiss, to_numpy, to_parquet, to_usearch


class Codes:
    """The least that can be exported."""

    def __init__(self, n_bits: int):
        rng = np.random.default_rng(0)
        self.n_bits, self.ids = n_bits, np.sort(rng.permutation(1000)[:400])
        self._codes = pack(rng.integers(0, 2, (400, n_bits)))

    def codes(self, ids=None):
        return self._codes

    def nearest(self, queries, k):
        """Distances and ids by brute force: ids ascend, so that a stable order breaks ties by the lowest."""
        distances = hamming_distances(queries, self._codes, self.n_bits)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(distances, order, 1), self.ids[order]


@pytest.fixture(params=[8, 37, 64])
def source(request) -> Codes:
    return Codes(request.param)


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite://{tmp_path}/codes.db", 12, "str", model="m", create=True) as store:
        codes = pack(np.random.default_rng(0).integers(0, 2, (50, 12)))
        payloads = [{"n": number, "größe": "日本"} for number in range(50)]
        store.upsert([f"id {number}" for number in range(50)], codes, payloads=payloads)
        yield store


def test_faiss_finds_the_same_distances(source):
    pytest.importorskip("faiss")
    theirs = to_faiss(source)
    distances, ids = theirs.search(source.codes()[:20], 5)
    assert np.array_equal(distances, source.nearest(source.codes()[:20], 5)[0])
    assert set(ids.ravel().tolist()) <= set(source.ids.tolist())
    assert np.array_equal(theirs.reconstruct(int(source.ids[3])), source.codes()[3])


def test_usearch_holds_the_same_codes(source):
    pytest.importorskip("usearch")
    theirs = to_usearch(source)
    assert len(theirs) == 400
    found = theirs.search(source.codes()[:20], 1, exact=True)
    assert np.asarray(found.distances).max() == 0


def test_an_index_is_exported(source):
    pytest.importorskip("faiss")
    index = HammingIndex(source.n_bits).add(source.codes(), source.ids)
    assert np.array_equal(to_numpy(index)[0], source.ids)
    assert np.array_equal(to_numpy(index)[1], source.codes())
    assert to_faiss(index).ntotal == 400


@pytest.mark.parametrize("export", [to_faiss, to_usearch])
def test_strings_are_refused_by_what_keeps_numbers(store, export):
    pytest.importorskip(export.__name__.removeprefix("to_"))
    with pytest.raises(ValueError, match="ids must be integers for"):
        export(store)


def test_numpy(store):
    ids, codes = to_numpy(store)
    assert ids.tolist() == sorted(f"id {number}" for number in range(50))
    assert np.array_equal(codes, [record.code for record in store.get(ids)])
    store.delete(ids)
    assert to_numpy(store)[1].shape == (0, 2)


def test_codes_in_parquet_are_searched_where_they_are(source, tmp_path):
    pytest.importorskip("duckdb")
    path = tmp_path / "it's codes.parquet"
    to_parquet(source, path)
    queries = source.codes()[:10]
    with open_store(f"parquet://{path}", source.n_bits) as store:
        assert len(store) == 400
        found = store.search(queries, 400)
        within = store.within(queries, 3)
    distances, ids = source.nearest(queries, 400)
    assert np.array_equal(found.ids, ids)
    assert np.array_equal(found.distances, distances)
    assert np.array_equal(within.ids, ids[distances <= 3])


def test_a_store_as_parquet_keeps_payloads_and_what_it_says(store, tmp_path):
    pytest.importorskip("duckdb")
    to_parquet(store, tmp_path / "codes.parquet")
    with open_store(f"parquet://{tmp_path}/*.parquet", 12, "str", "m") as files:
        assert files.count({"n": {"$gte": 40}}) == 10
        assert files.get(["id 7"])[0].payload == {"n": 7, "größe": "日本"}
        query = store.get(["id 7"])[0].code[None]
        assert (
            files.search(query, 5, {"n": {"$lt": 20}}).ids.tolist()
            == store.search(query, 5, {"n": {"$lt": 20}}).ids.tolist()
        )
        assert sorted(id for block in files.scan(20) for id in block.ids) == sorted(f"id {n}" for n in range(50))
        for write in (
            lambda: files.upsert(["x"], query),
            lambda: files.delete(["id 7"]),
            lambda: files.keep_note("a", "b"),
        ):
            with pytest.raises(ValueError, match="cannot be written: parquet files are only read"):
                write()


def test_parquet_files_made_elsewhere(tmp_path):
    pytest.importorskip("duckdb")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for part in (0, 1):
        table = pa.table({"id": [2 * part, 2 * part + 1], "code": [bytes([part, 1]), bytes([part, 255])]})
        parquet.write_table(table, tmp_path / f"part-{part}.parquet")
    with open_store(f"parquet://{tmp_path}/part-*.parquet") as files:
        assert (files.n_bits, files.id_type, len(files)) == (16, "int64", 4)
        assert files.search(np.array([[1, 1]], np.uint8), 2).ids.tolist() == [[2, 0]]
        assert files.get([3])[0].payload == {}
    with pytest.raises(ValueError, match="n_bits must be 16"):
        open_store(f"parquet://{tmp_path}/part-*.parquet", 15)
    parquet.write_table(pa.table({"key": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="must have the columns id and code, got key"):
        open_store(f"parquet://{tmp_path}/other.parquet")
    parquet.write_table(pa.table({"id": [1, 2], "code": [b"a", b"ab"]}), tmp_path / "uneven.parquet")
    with pytest.raises(ValueError, match="codes of one length, got 1 to 2 bytes"):
        open_store(f"parquet://{tmp_path}/uneven.parquet")
    parquet.write_table(pa.table({"id": ["1"], "code": [b"ab"]}), tmp_path / "part-9.parquet")
    with pytest.raises(ValueError, match="files of different codes"):
        open_store(f"parquet://{tmp_path}/part-*.parquet")
