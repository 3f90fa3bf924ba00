"""A vector file returns what was put in last, whatever the order of changes, kills and compaction."""

import copy
import json
import pickle
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.rows import RowBlocks
from hashlearn.search import Calibration, VectorFile
from hashlearn.search.rerank import rerank_exact
from hashlearn.search.vector_layout import SEGMENT, VERSION


def vectors(n, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("n", [0, 1, SEGMENT - 1, SEGMENT, 2 * SEGMENT + 5])
def test_vectors_come_back_by_their_ids(tmp_path, n):
    X, ids = vectors(n), 3 * np.random.default_rng(1).permutation(n)
    VectorFile.create(tmp_path / "v", 6).add(X[: n // 2], ids[: n // 2]).add(X[n // 2 :], ids[n // 2 :])
    file = VectorFile.open(tmp_path / "v")
    assert len(file) == n
    np.testing.assert_array_equal(file.ids, np.sort(ids))
    np.testing.assert_array_equal(file.take(ids), X)


def test_float16_and_int8_are_as_near_as_their_steps(tmp_path):
    X = vectors(500) * 10 + 3
    half = VectorFile.create(tmp_path / "half", 6, "float16").add(X)
    np.testing.assert_array_equal(half.take(half.ids), X.astype(np.float16))
    calibration = Calibration.of(X)
    bytes_ = VectorFile.create(tmp_path / "bytes", 6, "int8", calibration).add(X)
    assert np.all(np.abs(bytes_.take(bytes_.ids) - X) <= calibration.scale * 0.501)
    assert half.nbytes < VectorFile.create(tmp_path / "whole", 6).add(X).nbytes
    assert bytes_.n_clipped == half.n_clipped == 0


def test_values_out_of_range_are_clipped_and_counted(tmp_path):
    X = np.array([[0.0, 10.0], [1.0, 20.0]])
    file = VectorFile.create(tmp_path / "v", 2, "int8", Calibration.of(X)).add(X).add([[-1.0, 15.0], [2.0, 21.0]])
    assert file.n_clipped == 3
    np.testing.assert_allclose(file.take([2, 3]), [[0, 15], [1, 20]], atol=0.05)
    assert VectorFile.open(tmp_path / "v").n_clipped == 3
    assert VectorFile.create(tmp_path / "half", 1, "float16").add([[1e6], [1.0]]).take([0]) == [[65504]]


def test_the_calibration_is_that_of_the_training_data_whatever_is_added(tmp_path):
    calibration = Calibration.of(vectors(50))
    VectorFile.create(tmp_path / "v", 6, "int8", calibration).add(100 * vectors(5, seed=1))
    opened = VectorFile.open(tmp_path / "v").calibration
    np.testing.assert_array_equal(opened.offset, calibration.offset)
    np.testing.assert_array_equal(opened.scale, calibration.scale)


def test_a_feature_that_never_varies_keeps_its_value(tmp_path):
    X = np.column_stack([np.full(9, 7.25), np.arange(9.0)])
    file = VectorFile.create(tmp_path / "v", 2, "int8", Calibration.of(X)).add(X)
    assert (file.take(file.ids)[:, 0] == 7.25).all()


changes = st.lists(st.tuples(st.sampled_from(["upsert", "remove", "reopen", "compact"]), st.sets(st.integers(0, 12))))


@given(changes)
@settings(deadline=None, max_examples=40)
def test_it_is_a_dictionary_that_outlives_its_process(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("file") / "v"
    file, known = VectorFile.create(path, 2), {}
    for number, (step, chosen) in enumerate(steps):
        ids = sorted(chosen) if step == "upsert" else sorted(chosen & known.keys())
        if step == "upsert":
            file.upsert(np.array([[id, number] for id in ids]).reshape(-1, 2).astype(float), ids)
            known |= {id: [id, number] for id in ids}
        elif step == "remove":
            file.remove(ids)
            known = {id: row for id, row in known.items() if id not in ids}
        else:
            file = VectorFile.open(path) if step == "reopen" else file.compact()
    for held in (file, VectorFile.open(path)):
        assert held.ids.tolist() == sorted(known)
        assert len(held) == len(known)
        assert held.take(sorted(known)).tolist() == [known[id] for id in sorted(known)]


def test_a_view_stays_as_it_was_while_its_file_changes(tmp_path):
    for path in (tmp_path / "v", None):
        file = VectorFile.create(path, 6).add(vectors(5))
        view = file.view
        file.remove([0]).upsert(vectors(2, seed=1), [1, 9])
        np.testing.assert_array_equal(view.take(np.arange(5)), vectors(5))
        assert file.ids.tolist() == [1, 2, 3, 4, 9]
        np.testing.assert_array_equal(file.take([1, 9]), vectors(2, seed=1))


def test_compaction_frees_the_room_of_what_was_replaced(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(3000))
    for seed in (1, 2):
        file.upsert(vectors(3000, seed=seed), np.arange(3000))
    before = (tmp_path / "v").stat().st_size
    file.remove(np.arange(100, 3000)).compact()
    assert (tmp_path / "v").stat().st_size < before / 4
    np.testing.assert_array_equal(VectorFile.open(tmp_path / "v").take(np.arange(100)), vectors(3000, seed=2)[:100])
    assert file.add(vectors(1)).ids[-1] == 3000


def test_a_file_without_a_name_can_be_saved(tmp_path):
    file = VectorFile.create(None, 6, "int8", Calibration.of(vectors(50))).add(vectors(50), np.arange(50)[::-1])
    file.remove([3])
    file.save(tmp_path / "v")
    saved = VectorFile.open(tmp_path / "v")
    np.testing.assert_array_equal(saved.ids, file.ids)
    np.testing.assert_array_equal(saved.take(file.ids), file.take(file.ids))
    assert saved.n_records == 49


def test_a_file_is_pickled_by_its_path(tmp_path):
    file = VectorFile.create(tmp_path / "a.hlv", 2).add(np.ones((3, 2)))
    for other in (pickle.loads(pickle.dumps(file)), copy.copy(file), copy.deepcopy(file)):
        np.testing.assert_array_equal(other.add(np.zeros((1, 2))).take([0, other.ids[-1]]), [[1, 1], [0, 0]])
    with pytest.raises(TypeError, match="save it to a path"):
        pickle.dumps(VectorFile.create(None, 2))
    with pytest.raises(TypeError, match="take its VectorFile"):
        pickle.dumps(file.view)


def test_the_largest_id_leaves_no_running_numbers():
    file = VectorFile.create(None, 2).add(np.ones((1, 2)), [2**63 - 1])
    with pytest.raises(ValueError, match="no running numbers above it"):
        file.add(np.ones((1, 2)))
    assert file.add(np.ones((1, 2)), [0]).ids.tolist() == [0, 2**63 - 1]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are those of Linux")
def test_a_full_temporary_folder_is_named(tmp_path):
    code = """if True:
    import resource, signal, sys, tempfile
    import numpy as np
    from hashlearn.search import VectorFile
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    tempfile.tempdir = sys.argv[1]
    file = VectorFile.create(None, 64).add(np.ones((10, 64)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.nbytes + 1, file.nbytes + 1))
    try:
        file.add(np.ones((3000, 64)))
    except OSError as error:
        print(error)
    print(len(file), file.take([9]).sum())
    """
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    line, after = done.stdout.splitlines()
    assert "set TMPDIR to another folder" in line
    assert str(tmp_path) in line
    assert after == "10 64.0"


def test_two_writers_lose_nothing_of_each_other(tmp_path):
    left = VectorFile.create(tmp_path / "v", 6)
    right = VectorFile.open(tmp_path / "v")
    left.add(vectors(3))
    right.add(vectors(3, seed=1))
    left.compact()
    right.remove([0])
    left.add(vectors(1, seed=2))
    assert left.ids.tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(left.take([3, 4, 5]), vectors(3, seed=1))


def test_records_behind_the_number_that_counts_are_neither_seen_nor_kept(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    file.upsert(vectors(3, seed=1), [0, 7, 8])
    opened = VectorFile.open(tmp_path / "v", n_records=5)
    np.testing.assert_array_equal(opened.take(np.arange(5)), vectors(5))
    assert len(opened) == 5
    opened.add(vectors(1, seed=2), [6])
    again = VectorFile.open(tmp_path / "v")
    assert again.ids.tolist() == [0, 1, 2, 3, 4, 6]
    assert again.n_records == 6


def test_it_is_a_source_of_rows_in_the_order_of_ids():
    ids = np.random.default_rng(0).permutation(2500)
    file = VectorFile.create(None, 6).add(vectors(2500)[ids], ids)
    np.testing.assert_array_equal(np.concatenate([block for _, block in RowBlocks(file.view)]), vectors(2500))


def test_a_change_that_raises_leaves_the_file_as_it_was(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    size = (tmp_path / "v").stat().st_size
    broken = vectors(9000)
    broken[8999, 2] = np.nan
    for words, change in (
        ("row 8999 has NaN", lambda: file.add(broken)),
        ("ids must be new, got 4", lambda: file.add(vectors(2), [9, 4])),
        ("ids must be in .*, got 5", lambda: file.remove([0, 5])),
        ("ids must not be negative, got -3", lambda: file.upsert(vectors(2), [1, -3])),
        ("ids must be unique, got 1", lambda: file.upsert(vectors(2), [1, 1])),
        ("ids must be as many as the vectors, got 1 for 2", lambda: file.upsert(vectors(2), [1])),
        ("vectors must have 6 features, got 5", lambda: file.add(vectors(2, d=5))),
    ):
        with pytest.raises(ValueError, match=words):
            change()
        assert (tmp_path / "v").stat().st_size == size
        for held in (file, VectorFile.open(tmp_path / "v")):
            assert held.n_records == len(held) == 5
            np.testing.assert_array_equal(held.take(np.arange(5)), vectors(5))


def test_a_state_that_was_half_written_gives_way_to_the_one_before(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    first, second = file.view.layout.states_at
    before = (tmp_path / "v").read_bytes()
    file.add(vectors(5, seed=1))
    after = (tmp_path / "v").read_bytes()
    torn = after[: first + 20] + before[first + 20 : second + 2048] + after[second + 2048 :]
    (tmp_path / "v").write_bytes(torn)
    np.testing.assert_array_equal(VectorFile.open(tmp_path / "v").take(np.arange(5)), vectors(5))
    assert len(VectorFile.open(tmp_path / "v")) == 5


def test_damage_to_one_of_the_two_states_does_no_harm(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5)).add(vectors(5, seed=1))
    content = (tmp_path / "v").read_bytes()
    for place in file.view.layout.states_at:
        damaged = bytearray(content)
        damaged[place + 8] ^= 1
        (tmp_path / "v").write_bytes(damaged)
        assert len(VectorFile.open(tmp_path / "v").verify()) == 10


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_changed_byte_of_a_vector_or_of_an_id_is_an_error(tmp_path, dtype):
    calibration = Calibration.of(vectors(5)) if dtype == "int8" else None
    file = VectorFile.create(tmp_path / "v", 6, dtype, calibration).add(vectors(5), ids=[3, 1, 4, 15, 9])
    content, layout = (tmp_path / "v").read_bytes(), file.view.layout

    def flipped(place):
        damaged = bytearray(content)
        damaged[place] ^= 0x80
        (tmp_path / "v").write_bytes(damaged)
        return VectorFile.open(tmp_path / "v")

    for byte in range(layout.row_bytes):
        damaged = flipped(int(layout.rows_at(2)) + byte)
        damaged.take([3, 1, 15, 9])
        with pytest.raises(ValueError, match=r"v: the vector of record 2 does not match its checksum"):
            damaged.take([3, 4])
        with pytest.raises(ValueError, match="record 2"):
            rerank_exact(damaged, vectors(1), [[3, 4]], 1)
        with pytest.raises(ValueError, match="record 2"):
            damaged.verify()
    for byte in range(8):
        with pytest.raises(ValueError, match="ids do not match their checksums"):
            flipped(int(layout.keys_at(3)) + byte).take([3])
    moved = bytearray(content)
    length = 4 * (layout.row_words + 1)
    from_row, to_row = int(layout.rows_at(0)), int(layout.rows_at(1))
    moved[to_row : to_row + length] = content[from_row : from_row + length]
    (tmp_path / "v").write_bytes(moved)
    with pytest.raises(ValueError, match="record 1"):
        VectorFile.open(tmp_path / "v").take([1])


def test_files_that_are_not_whole_are_refused(tmp_path):
    VectorFile.create(tmp_path / "v", 6).add(vectors(3000))
    content = (tmp_path / "v").read_bytes()
    for damaged, words in (
        (content[:-1], "it was truncated"),
        (content[:4096], "no state that matches its checksum"),
        (content[:20] + b"9" + content[21:], "header does not match its checksum"),
        (b"", "not a vector file"),
        (b"\x93NUMPY" + content, "not a vector file"),
        (content[:8] + struct.pack("<I", 9) + content[12:], "version 9"),
    ):
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(ValueError, match=words) as error:
            VectorFile.open(tmp_path / "damaged")
        assert str(tmp_path / "damaged") in str(error.value)
    with pytest.raises(ValueError, match="3000 records, 3001 are wanted"):
        VectorFile.open(tmp_path / "v", n_records=3001)


def test_an_int8_file_without_its_calibration_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"int8 vectors need a calibration, .*, got None"):
        VectorFile.create(tmp_path / "v", 6, "int8")
    assert not (tmp_path / "v").exists()
    head = b"HLVECTS\n" + struct.pack("<II", VERSION, 0)
    text = json.dumps({"n_features": 6, "dtype": "int8", "segment": SEGMENT}).encode()
    head = head[:12] + struct.pack("<I", len(text)) + text
    (tmp_path / "v").write_bytes((head + struct.pack("<I", zlib.crc32(head))).ljust(8192, b"\0"))
    with pytest.raises(ValueError, match="int8 vectors need a calibration"):
        VectorFile.open(tmp_path / "v")


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("n_features must be at least 1", (0,)),
        ("dtype must be one of 'float32', 'float16', 'int8', got 'int4'", (6, "int4")),
        ("calibration must be None with dtype='float16'", (6, "float16", Calibration.of(vectors(3)))),
        ("calibration must have an offset and a scale for each of 6", (6, "int8", Calibration.of(vectors(3, d=5)))),
        ("calibration must be finite, with scales above zero", (1, "int8", Calibration([0], [0]))),
    ],
)
def test_bad_arguments_are_named(tmp_path, words, arguments):
    with pytest.raises(ValueError, match=words):
        VectorFile.create(tmp_path / "v", *arguments)


def test_ids_that_are_not_there_are_named(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    with pytest.raises(ValueError, match=r"ids must be in .*, got 5, which is not among its 5 vectors"):
        file.take([1, 5])
    assert 4 in file
    assert 5 not in file


WRITER = """
import sys
import numpy as np
from hashlearn.search import VectorFile
file = VectorFile.open(sys.argv[1])
while True:
    n = len(file)
    file.add(np.arange(n, n + 700)[:, None] + np.arange(3.0))
    print(len(file), flush=True)
"""


def test_what_a_killed_process_has_reported_as_added_is_there_and_nothing_half(tmp_path):
    VectorFile.create(tmp_path / "v", 3)
    for round in range(2):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "v"], stdout=subprocess.PIPE, text=True)
        reported = [int(writer.stdout.readline()) for _ in range(3 + round)]
        writer.kill()
        reported += [int(line) for line in writer.communicate()[0].splitlines()]
        file = VectorFile.open(tmp_path / "v")
        assert len(file) >= reported[-1]
        assert len(file) % 700 == 0
        np.testing.assert_array_equal(file.take(file.ids), file.ids[:, None] + np.arange(3.0))
