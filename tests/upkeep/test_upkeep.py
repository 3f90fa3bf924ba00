"""Copies that can be trusted, the recall that is measured, and rows of another kind."""

import threading

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ABH, ITQ, LSH, SimilaritySearch
from hashlearn.cli import main
from hashlearn.upkeep import check_search, examine, restore_snapshot, take_snapshot
from hashlearn.upkeep.drift import BLOCK_ROWS, DriftReference, DriftWatch
from hashlearn.upkeep.recall import estimated_recall, recall_of_query


def rows(n, seed=0, d=16):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="float32", folder=tmp_path / "search")
    search.fit(rows(50)).add(rows(300, 1), payloads=[{"row": row} for row in range(300)])
    search.close()
    return tmp_path / "search"


def contents(folder):
    search = SimilaritySearch.open(folder)
    found = {record.id: (record.payload, record.vector.tobytes()) for record in search.get(search.ids)}
    search.close()
    return found


def test_a_snapshot_is_the_search(folder, tmp_path):
    report = take_snapshot(folder, tmp_path / "backups" / "monday")
    assert report.rows == 300
    assert contents(report.folder) == contents(folder)
    with pytest.raises(ValueError, match="not there yet"):
        take_snapshot(folder, report.folder)


def test_a_snapshot_under_load_is_of_one_moment(folder, tmp_path):
    """A writer replaces pairs of rows in transactions: a copy has both rows of a pair in the same version."""
    stopped = threading.Event()

    def write():
        search = SimilaritySearch.open(folder)
        version = 0
        while not stopped.is_set():
            version += 1
            pair = 2 * (version % 20)
            search.upsert(rows(2, version), [pair, pair + 1], [{"version": version}] * 2)
        search.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            found = contents(take_snapshot(folder, tmp_path / f"copy {number}").folder)
            versions = [found[pair][0].get("version") == found[pair + 1][0].get("version") for pair in range(0, 40, 2)]
            assert all(versions)
            assert len(found) == 300
    finally:
        stopped.set()
        writer.join()


def test_a_search_in_memory_keeps_its_place(tmp_path):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(rows(50)).add(rows(20, 1))
    assert take_snapshot(search, tmp_path / "copy").rows == 20
    assert search.folder is None


def test_a_snapshot_is_restored_to_a_new_place_or_over_a_search(folder, tmp_path):
    copy = take_snapshot(folder, tmp_path / "copy").folder
    before = contents(folder)
    search = SimilaritySearch.open(folder)
    search.remove(list(range(100)))
    with pytest.raises(ValueError, match="--replace"):
        restore_snapshot(copy, folder)
    assert restore_snapshot(copy, tmp_path / "elsewhere").rows == 300
    assert restore_snapshot(copy, folder, replace=True).rows == 300
    assert contents(folder) == before == contents(tmp_path / "elsewhere")
    search.refresh()
    assert len(search) == 300


def test_a_damaged_snapshot_is_not_restored(folder, tmp_path):
    copy = take_snapshot(folder, tmp_path / "copy").folder
    before = contents(folder)
    for file in copy.iterdir():
        if file.is_file() and file.stat().st_size > 10_000:
            content = bytearray(file.read_bytes())
            content[len(content) // 2 : len(content) // 2 + 600] = bytes(600)
            file.write_bytes(content)
    with pytest.raises((ValueError, OSError)):
        restore_snapshot(copy, folder, replace=True)
    assert contents(folder) == before


def test_the_commands(folder, tmp_path, capsys):
    for arguments, status in [
        (["snapshot", str(folder), str(tmp_path / "copy")], 0),
        (["snapshot", str(folder), str(tmp_path / "copy")], 2),
        (["restore", str(tmp_path / "copy"), str(tmp_path / "other")], 0),
        (["doctor", str(tmp_path / "other"), "--read-all", "--queries", "20"], 1),
    ]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == status, arguments
    said = capsys.readouterr().out
    assert "All 300 rows can be read" in said
    assert "Do: hashlearn tune" in said


# -- recall -----------------------------------------------------------------------------------------------------------


def test_the_recall_of_queries_is_that_of_the_truth():
    X = rows(2000, 3)
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), keep_vectors="float32").fit(X).add(X)
    queries = rows(40, 4)
    truth = search.search(queries, 10, candidates=len(X)).ids
    found = search.search(queries, 10).ids
    expected = [len(set(row) & set(true)) / 10 for row, true in zip(found.tolist(), truth.tolist())]
    assert [recall_of_query(search, query, 10) for query in queries] == expected
    assert 0 < np.mean(expected) < 1


def test_equal_rows_are_equally_good():
    X = np.repeat(rows(20, 5), 10, axis=0)
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), keep_vectors="float32").fit(X).add(X)
    assert recall_of_query(search, X[0], 5) == 1.0


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("level", [0.3, 0.9, 0.99])
def test_the_interval_has_the_true_recall_in_19_of_20_runs(level, k):
    """Queries differ: each has a recall of its own, around the level."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        own = rng.beta(5 * level, 5 * (1 - level), 60)
        estimate = estimated_recall((rng.binomial(k, own) / k).tolist())
        inside += estimate.low <= level <= estimate.high
    assert inside / 400 >= 0.93


# -- drift ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    X, _ = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.concatenate([X + rng.normal(0, 1, X.shape) for _ in range(8)]).astype(np.float32)
    return X[rng.permutation(len(X))]


@pytest.mark.parametrize("hasher", [ITQ(n_bits=32, random_state=0), LSH(n_bits=64, random_state=0)], ids=["ITQ", "LSH"])
def test_rows_of_another_kind_are_reported_and_others_are_not(digits, hasher):
    fitted = hasher.fit(digits[:2000])
    watch = DriftWatch(DriftReference(fitted.transform(digits[:4000]), fitted.n_bits))
    reports = [watch.add(fitted.transform(digits[start : start + 100])) for start in range(4000, len(digits), 100)]
    reports = [report for report in reports if report is not None]
    assert len(reports) > 15
    assert not any(report.is_large for report in reports)
    shuffled = digits[:1000][:, np.random.default_rng(1).permutation(64)]
    for other in (shuffled, 16 - digits[:1000], rows(1000, 6, 64)):
        for start in range(0, 2 * BLOCK_ROWS, 100):
            watch.add(fitted.transform(other[start : start + 100]))
        assert watch.latest.is_large


def test_the_error_of_reconstruction_tells_rows_of_another_kind(digits):
    fitted = ITQ(n_bits=32, random_state=0).fit(digits[:2000])
    reference = DriftReference(fitted.transform(digits[:4000]), 32, digits[:4000])
    same = [digits[start : start + BLOCK_ROWS] for start in range(4000, 12_000, BLOCK_ROWS)]
    errors = [reference.compare(fitted.transform(block), block).error for block in same]
    assert 0.8 < min(errors) < max(errors) < 1.2
    shuffled = digits[:BLOCK_ROWS][:, np.random.default_rng(1).permutation(64)]
    assert reference.compare(fitted.transform(shuffled), shuffled).error > 1.5
    assert reference.compare(fitted.transform(shuffled)).error is None


# -- the doctor -------------------------------------------------------------------------------------------------------


def test_a_search_in_good_health(digits):
    search = SimilaritySearch(ITQ(n_bits=64, random_state=0), keep_vectors="float32").fit(digits[:2000])
    search.add(digits[:3000])
    search.tune(k=10, target_recall=0.99)
    assert [finding.remedy for finding in examine(search)] == [""] * 5


def test_what_is_wrong_is_said(digits, tmp_path):
    search = SimilaritySearch(LSH(n_bits=8, random_state=0), keep_vectors="float32").fit(digits[:500])
    search.add(digits[:2000]).add(20 - digits[:1000])
    search.remove(list(range(900, 1900)))
    search.save(tmp_path / "s")
    recall, removed, _, codes, drift = examine(search)
    assert "tune" in recall.remedy
    assert "compact" in removed.remedy
    assert "16 bits instead of 8" in codes.remedy
    assert "another kind" in drift.what
    assert drift.remedy == f"hashlearn reencode {tmp_path / 's'}"
    without = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(digits[:500]).add(digits[:100])
    assert "keep_vectors" in examine(without)[0].remedy
    few = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(digits[:500]).add(digits[:3])
    assert examine(few)[0].is_good


def test_rows_of_another_kind_that_are_found_as_well_need_nothing(digits, tmp_path):
    """A search whose model has learned from all rows: to learn anew would change nothing."""
    in_order = digits[np.argsort(digits[:, 26], kind="stable")]
    search = SimilaritySearch(ITQ(n_bits=64, random_state=0), keep_vectors="float32").fit(in_order).add(in_order)
    search.tune(k=10, target_recall=0.99)
    drift = examine(search)[-1]
    assert drift.is_good
    assert "another kind" in drift.what


def test_what_mends_rows_of_another_kind_mends_them(tmp_path):
    search = SimilaritySearch(ABH(n_bits=64, random_state=0), keep_vectors="float32", folder=tmp_path / "s")
    search.fit(rows(2000)).add(rows(2000)).add(rows(1000, 1) + np.float32(3))
    drift = examine(search)[-1]
    assert not drift.is_good
    assert drift.remedy == f"hashlearn reencode {tmp_path / 's'}"
    search.reencode()
    assert examine(search)[-1].is_good


def test_lists_and_clipped_values_are_judged(tmp_path):
    X = rows(1500, 7)
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="int8", index="lists", folder=tmp_path / "s")
    search.fit(X).add(X)
    *_, lists, clipped = examine(search, n_queries=5)
    assert lists.is_good
    assert clipped.is_good
    assert search.list_sizes.sum() == 1500
    search.add(10 * rows(300, 8))
    assert search.clipped_share > 0.1
    clipped = examine(search, n_queries=5)[-1]
    assert "float16" in clipped.remedy
    search.remove(list(range(1400)))
    remedies = " ".join(finding.remedy for finding in examine(search, n_queries=5))
    assert f"hashlearn compact {tmp_path / 's'}" in remedies


def test_bits_that_say_nothing_and_a_very_long_list_are_said(tmp_path):
    X = rows(1500, 7)
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="float32").fit(X)
    bits = examine(search.add(X + 1000 * X[0]), n_queries=5)[2]
    assert bits.what == "16 of 16 bits are the same for nearly all rows."
    assert "fit the hasher" in bits.remedy
    search = SimilaritySearch(
        LSH(n_bits=16, random_state=0), keep_vectors="float32", index="lists", folder=tmp_path / "s"
    )
    search.fit(X).add(X).add(np.tile(X[:1], (20_000, 1)))
    lists = examine(search, n_queries=5)[-1]
    assert not lists.is_good
    assert lists.remedy.startswith(f"hashlearn compact {tmp_path / 's'}")


def test_the_doctor_says_what_mends_a_damaged_search(folder, tmp_path, capsys):
    take_snapshot(folder, tmp_path / "copy")
    vectors = next(folder.glob("vectors*"))
    vectors.write_bytes(vectors.read_bytes()[:100])
    with pytest.raises(SystemExit) as end:
        main(["doctor", str(folder)])
    assert end.value.code == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert f"hashlearn restore SNAPSHOT {folder} --replace" in told
    restore_snapshot(tmp_path / "copy", folder, replace=True)
    assert check_search(folder) == 300


def test_a_search_is_read_whole(folder):
    assert check_search(folder) == 300
