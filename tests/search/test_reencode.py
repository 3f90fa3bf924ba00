"""Other codes for the rows of a search: the same as if it had been made with them, taken at once, and resumable."""

import threading
import time
from contextlib import closing

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hashlearn import ABH, ITQ, LSH, SimilaritySearch
from hashlearn.cli import main
from hashlearn.search import reencode as module


def rows(n, seed=0, d=12):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def made(folder=None, keep="float32", n=300, **options):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors=keep, folder=folder, **options).fit(rows(50))
    search.add(
        rows(n, 1), [f"id {row:04}" for row in range(n)], [{"row": row, "text": f"word{row}"} for row in range(n)]
    )
    return search.remove([f"id {row:04}" for row in range(0, n, 7)])


def contents(search):
    return {record.id: (record.payload, record.vector.tobytes()) for record in search.get(search.ids)}


def hashers():
    X = rows(200, 2)
    yield ITQ(n_bits=12, random_state=0).fit(X)
    yield ABH(n_bits=24, random_state=0).fit(X)
    yield make_pipeline(StandardScaler(), LSH(n_bits=40, random_state=1)).fit(X)


@pytest.mark.parametrize("hasher", list(hashers()), ids=lambda hasher: type(hasher).__name__)
@pytest.mark.parametrize("in_folder", [False, True])
def test_it_is_as_if_the_search_had_been_made_with_the_hasher(hasher, in_folder, tmp_path):
    search = made(tmp_path / "search" if in_folder else None, text_field="text")
    before, Q = contents(search), rows(20, 3)
    assert search.reencode(hasher) is search
    records = search.get(search.ids)
    other = SimilaritySearch(hasher, metric="euclidean", keep_vectors="float32")
    other.add(np.stack([record.vector for record in records]), search.ids.tolist())
    assert contents(search) == before
    for rerank in ("codes", "vectors"):
        found, expected = (each.search(Q, 5, rerank=rerank) for each in (search, other))
        assert found.distances.tolist() == expected.distances.tolist()
    assert search.search(text="word5", by="words", k=1).ids.tolist() == ["id 0005"]
    assert search.n_bits == other.n_bits
    if in_folder:
        search.add(rows(10, 4), [f"new {row}" for row in range(10)])
        codes = search.codes()
        search.close()
        opened = SimilaritySearch.open(tmp_path / "search")
        assert opened.codes().tolist() == codes.tolist()
        assert not list((tmp_path / "search").glob(".reencode*"))
        assert len(list((tmp_path / "search").glob("hasher-*"))) == 1


def test_a_hasher_that_is_not_fitted_learns_from_the_kept_vectors():
    search = made()
    vectors = np.stack([record.vector for record in search.get(search.ids)])
    search.reencode(ITQ(n_bits=8, random_state=0))
    assert search.codes().tolist() == ITQ(n_bits=8, random_state=0).fit(vectors).transform(vectors).tolist()
    search.reencode()  # the same kind, learned anew
    assert type(search.hasher) is ITQ


def test_rows_that_come_and_go_meanwhile_are_not_lost(tmp_path, monkeypatch):
    """A writer in another thread, and one that has opened the folder anew; searches see whole codes all the time."""
    monkeypatch.setattr(module, "_BLOCK", 20)
    monkeypatch.setattr(module, "_FEW_ROWS", 25)
    search = made(tmp_path / "search")
    stopped, problems = threading.Event(), []

    def write(which, name):
        number = 0
        while not stopped.is_set():
            which.upsert(rows(2, number), [f"{name} {number}", f"id {7 * number % 300 + 1:04}"])
            number += 1
            time.sleep(0.005)

    def read():
        while not stopped.is_set():
            try:
                found = search.search(rows(3, 9), 5)
                assert (found.ids != None).all()  # noqa: E711 - an array of objects
            except Exception as error:
                problems.append(error)

    other = SimilaritySearch.open(tmp_path / "search")
    threads = [
        threading.Thread(target=write, args=(search, "own")),
        threading.Thread(target=write, args=(other, "far")),
    ]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    try:
        for n_bits in (8, 24, 8):
            search.reencode(LSH(n_bits=n_bits, random_state=1).fit(rows(100)))
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert not problems
    search.refresh()
    other.refresh()
    assert contents(search) == contents(other)
    records = search.get(search.ids)
    codes = search.encode(np.stack([record.vector for record in records]))
    assert np.stack([record.code for record in records]).tolist() == codes.tolist()


def test_it_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 32)
    monkeypatch.setattr(module, "_FEW_ROWS", 0)
    search = made(tmp_path / "search")
    before, codes = contents(search), search.codes()
    hasher = ITQ(n_bits=12, random_state=0).fit(rows(200, 2))
    encoded = []

    def stopping(self, X, _real=module.MetricHasher.encode):
        if len(encoded) == 4:
            raise KeyboardInterrupt
        encoded.append(len(X))
        return _real(self, X)

    with monkeypatch.context() as patched:
        patched.setattr(module.MetricHasher, "encode", stopping)
        with pytest.raises(KeyboardInterrupt):
            search.reencode(hasher)
    assert contents(search) == before
    assert search.codes().tolist() == codes.tolist()
    (left,) = (tmp_path / "search").glob(".reencode*")
    content = left.read_bytes()
    left.write_bytes(content[:-5])  # the last block is torn: it is made again
    search.close()
    search, again = SimilaritySearch.open(tmp_path / "search"), []

    def counting(self, X, _real=module.MetricHasher.encode):
        again.append(len(X))
        return _real(self, X)

    monkeypatch.setattr(module.MetricHasher, "encode", counting)
    search.reencode(hasher)
    assert sum(encoded[:3]) + sum(again) == len(search)
    assert search.codes().tolist() == hasher.transform(np.stack([r.vector for r in search.get(search.ids)])).tolist()
    assert not left.exists()


def test_what_was_done_for_other_rows_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FEW_ROWS", 0)
    search = made(tmp_path / "search")
    hasher = ITQ(n_bits=12, random_state=0).fit(rows(200, 2))
    first = module.CodesInProgress(module.MetricHasher.of(hasher, "euclidean", None), search.folder, "elsewhere")
    first._append(np.zeros((300, 2), np.uint8))
    search.reencode(hasher)
    assert search.codes().tolist() == hasher.transform(np.stack([r.vector for r in search.get(search.ids)])).tolist()


def test_what_was_done_for_a_hasher_that_was_given_up_is_removed(tmp_path):
    search = made(tmp_path / "search")
    hasher, other = (ITQ(n_bits=n_bits, random_state=0).fit(rows(200, 2)) for n_bits in (8, 12))
    module.CodesInProgress(module.MetricHasher.of(other, "euclidean", None), search.folder, "any").extend(
        search._rows.reader
    )
    assert len(list((tmp_path / "search").glob(".reencode*"))) == 1
    search.reencode(hasher)
    assert not list((tmp_path / "search").glob(".reencode*"))


def test_the_map_of_other_codes_is_made_anew_and_a_saved_one_is_copied(tmp_path):
    search = made(tmp_path / "search")
    points = search.map().points.tolist()
    search.save(tmp_path / "copy")
    copy = SimilaritySearch.open(tmp_path / "copy")
    assert (tmp_path / "copy" / "map.safetensors").is_file()
    assert copy.map().points.tolist() == points
    search.reencode(LSH(n_bits=40, random_state=0).fit(rows(100)))
    search.add(rows(5, 5), [f"later {row}" for row in range(5)])
    assert len(search.map()) == len(search)


@pytest.mark.parametrize(
    ("arguments", "hasher", "message"),
    [
        ({"keep": None}, ITQ(n_bits=8), "keep_vectors"),
        ({}, ITQ(n_bits=4, random_state=0).fit(rows(50, d=5)), "12 features"),
        ({}, 7, "hasher"),
    ],
)
def test_what_cannot_be_reencoded_is_left_as_it_was(arguments, hasher, message):
    search = made(**arguments)
    codes = search.codes().tolist()
    with pytest.raises((ValueError, TypeError), match=message):
        search.reencode(hasher)
    assert search.codes().tolist() == codes
    with search.transaction(), pytest.raises(RuntimeError if search.keep_vectors else ValueError):
        search.reencode(ITQ(n_bits=8))


def test_a_search_without_rows_and_one_whose_rows_are_all_removed(tmp_path):
    hasher = ITQ(n_bits=12, random_state=0).fit(rows(200, 2))
    for name, n in (("empty", 0), ("removed", 30)):
        search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="int8", folder=tmp_path / name)
        search.fit(rows(50)).add(rows(n, 1))
        search.remove(search.ids)
        search.reencode(hasher)
        search.add(rows(3, 2))
        search.close()
        opened = SimilaritySearch.open(tmp_path / name)
        assert opened.n_bits == 12
        assert len(opened.search(rows(1), 3).ids[0]) == 3


def test_the_commands(tmp_path, capsys):
    made(tmp_path / "search").close()
    ITQ(n_bits=12, random_state=0).fit(rows(200, 2)).save(tmp_path / "model")
    for arguments in (["--model", str(tmp_path / "model")], []):
        with pytest.raises(SystemExit) as end:
            main(["reencode", str(tmp_path / "search"), *arguments])
        assert end.value.code == 0
        assert "ITQ(n_bits=12" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["compact", str(tmp_path / "search")])
    assert end.value.code == 0
    search = SimilaritySearch.open(tmp_path / "search")
    assert search.n_bits == 12
    assert search.index.next_id == len(search)


def test_searches_by_words_beside_a_writer_do_not_wait_for_it_for_ever(tmp_path):
    """A reader that used the writer's connection would hold the interpreter while the writer waits for it."""
    search = made(tmp_path / "search", n=20, text_field="text")
    stopped = threading.Event()

    def write():
        number = 0
        while not stopped.is_set():
            number += 1
            search.upsert(rows(8, number), [f"x {row}" for row in range(8)], [{"text": f"word{number}"}] * 8)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with search.transaction():
        inside: list = []
        reader = threading.Thread(target=lambda: inside.append(search._rows._open_change), daemon=True)
        reader.start()
        reader.join(20)
        assert inside == [None]
        assert search._rows._open_change is not None
    for _ in range(10):
        assert search.search(text="word5", by="words", k=1).ids.tolist() == ["id 0005"]
    stopped.set()
    writer.join(20)


def test_it_learns_from_rows_that_another_process_has_added(tmp_path):
    writer = SimilaritySearch(LSH(n_bits=8, random_state=0), keep_vectors="float32", folder=tmp_path / "s").fit(rows(9))
    with closing(writer.add(rows(1))), closing(SimilaritySearch.open(tmp_path / "s")) as other:
        writer.add(rows(9))
        other.reencode(LSH(n_bits=4, random_state=0))
        assert (len(other), other.n_bits) == (10, 4)
