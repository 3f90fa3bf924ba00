"""A vector file gives back what was appended, by row, whoever appends, is killed, forks or damages it."""

import copy
import gc
import json
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zlib
from unittest import mock

import numpy as np
import pytest
from forked import ForkedPython, run_forked
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import LSH, SimilaritySearch
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.search import Calibration, VectorFile, vector_records
from hashlearn.search import vectors as vectors_module
from hashlearn.search.nearest import nearest_candidates
from hashlearn.search.vectors import VERSION


def vectors(n, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def rows_of(file):
    return file.take(np.arange(len(file)))


@pytest.mark.parametrize("n", [0, 1, 2, 1023, 1024, 1025, 5000])
def test_vectors_come_back_by_their_rows(tmp_path, n):
    X, order = vectors(n), np.random.default_rng(1).permutation(n)
    VectorFile.create(tmp_path / "v", 6).add(X[: n // 2]).add(X[n // 2 :])
    file = VectorFile.open(tmp_path / "v")
    assert len(file) == n
    np.testing.assert_array_equal(file.take(order), X[order])
    np.testing.assert_array_equal(file.verify().take([*order, *order]), X[[*order, *order]])


def test_float16_and_int8_are_as_near_as_their_steps(tmp_path):
    X = vectors(500) * 10 + 3
    half = VectorFile.create(tmp_path / "half", 6, "float16").add(X)
    np.testing.assert_array_equal(rows_of(half), X.astype(np.float16))
    calibration = Calibration.of(X)
    bytes_ = VectorFile.create(tmp_path / "bytes", 6, "int8", calibration).add(X)
    assert np.all(np.abs(rows_of(bytes_) - X) <= calibration.scale * 0.501)
    whole = VectorFile.create(tmp_path / "whole", 6).add(X)
    assert bytes_.layout.record_bytes < half.layout.record_bytes < whole.layout.record_bytes
    assert bytes_.n_clipped == half.n_clipped == 0


def test_values_out_of_range_are_clipped_and_counted(tmp_path):
    X = np.array([[0.0, 10.0], [1.0, 20.0]])
    file = VectorFile.create(tmp_path / "v", 2, "int8", Calibration.of(X)).add(X).add([[-1.0, 15.0], [2.0, 21.0]])
    assert file.n_clipped == 3
    np.testing.assert_allclose(file.take([2, 3]), [[0, 15], [1, 20]], atol=0.05)
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
    assert (rows_of(file)[:, 0] == 7.25).all()


steps = st.lists(st.tuples(st.sampled_from(["add", "reopen", "copy", "view"]), st.integers(0, 9)), max_size=8)


@given(steps, st.booleans())
@settings(deadline=None, max_examples=40)
def test_it_is_a_list_that_outlives_its_process(tmp_path_factory, steps, named):
    folder = tmp_path_factory.mktemp("file")
    file, known, views = VectorFile.create(folder / "v" if named else None, 2), [], []
    for number, (step, n) in enumerate(steps):
        if step == "add":
            new = [[row, number] for row in range(n)]
            file.add(np.array(new, float).reshape(-1, 2))
            known = [*known, *new]
        elif step == "reopen" and named:
            file = VectorFile.open(file.path)
        elif step == "copy":
            chosen = np.arange(len(known))[:: n + 1]
            with mock.patch.object(vectors_module, "_BLOCK", 2):
                other = file.copied(folder / f"copy {number}" if named else None, chosen, file.view)
            assert other.layout.id != file.layout.id
            assert other.first(len(chosen)).take(np.arange(len(chosen))).tolist() == [known[row] for row in chosen]
        elif step == "view":
            views.append((file.view, known))
    for held in (file, *([VectorFile.open(file.path)] if named else [])):
        assert rows_of(held).tolist() == known
    for view, expected in views:
        assert len(view) == len(expected)
        assert view.take(np.arange(len(view))).tolist() == expected


def test_a_view_stays_as_it_was_while_its_file_grows(tmp_path):
    for path in (tmp_path / "v", None):
        file = VectorFile.create(path, 6).add(vectors(5))
        view = file.view
        file.add(vectors(4000, seed=1))
        np.testing.assert_array_equal(view.take(np.arange(5)), vectors(5))
        with pytest.raises(ValueError, match="got 5, which is not among its 5 vectors"):
            view.take([5])
        np.testing.assert_array_equal(file.take([5, 4004]), vectors(4000, seed=1)[[0, -1]])
        file.close()
        np.testing.assert_array_equal(view.take([4]), vectors(5)[4:])


def test_what_is_written_behind_the_rows_that_count_is_not_seen(tmp_path):
    """A change that is given up leaves records behind; the next one writes over them."""
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    view = file.view
    file.write(as_rows(vectors(3, seed=1)), 5)
    assert len(file) == len(VectorFile.open(tmp_path / "v")) == 5
    file.write(as_rows(vectors(2, seed=2)), 5)
    np.testing.assert_array_equal(file.first(7).take([4, 5, 6]), [vectors(5)[4], *vectors(2, seed=2)])
    np.testing.assert_array_equal(view.take(np.arange(5)), vectors(5))


def test_a_file_is_pickled_by_its_path(tmp_path):
    file = VectorFile.create(tmp_path / "a.hlv", 2).add(np.ones((3, 2)))
    for n, other in enumerate((pickle.loads(pickle.dumps(file)), copy.copy(file), copy.deepcopy(file))):
        np.testing.assert_array_equal(other.add(np.zeros((1, 2))).take([0, 3 + n]), [[1, 1], [0, 0]])
    with pytest.raises(TypeError, match="save it to a path"):
        pickle.dumps(VectorFile.create(None, 2))
    with pytest.raises(TypeError, match="take its VectorFile"):
        pickle.dumps(file.view)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are those of Linux")
def test_a_full_temporary_folder_is_named(tmp_path):
    code = """if True:
    import resource, signal, sys, tempfile
    import numpy as np
    from hashlearn.search import VectorFile
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    tempfile.tempdir = sys.argv[1]
    file = VectorFile.create(None, 64).add(np.ones((10, 64)))
    size = file.layout.size(1100)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        file.add(np.ones((3000, 64)))
    except OSError as error:
        print(error)
    print(len(file), file.take([9]).sum(), len(file.add(np.ones((1, 64)))))
    """
    done = run_forked([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    line, after = done.stdout.splitlines()
    assert "set TMPDIR to another" in line
    assert str(tmp_path) in line
    assert after == "10 64.0 11"


def test_two_writers_lose_nothing_of_each_other(tmp_path):
    left = VectorFile.create(tmp_path / "v", 6)
    right = VectorFile.open(tmp_path / "v")
    left.add(vectors(3))
    right.add(vectors(3, seed=1))
    left.add(vectors(1, seed=2))
    np.testing.assert_array_equal(rows_of(left), [*vectors(3), *vectors(3, seed=1), *vectors(1, seed=2)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("named", [False, True])
def test_a_search_that_was_forked_has_vectors_of_its_own(tmp_path, named):
    """Files without a name are shared by descriptor: a child must not write into that of its parent."""
    search = SimilaritySearch(LSH(n_bits=8, random_state=0), keep_vectors="float32").fit(vectors(20)).add(vectors(5))
    if named:
        search.save(tmp_path / "search")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            search.add(vectors(2, seed=1), [100, 101])
            code = int(
                not np.array_equal([row.vector for row in search.get([4, 100])], [vectors(5)[4], vectors(2, seed=1)[0]])
            )
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    search.add(vectors(2, seed=2), [200, 201])
    expected = [*vectors(5), *vectors(2, seed=2)]
    np.testing.assert_array_equal([row.vector for row in search.get([*range(5), 200, 201])], expected)
    assert (100 in search) == named, "in a folder nothing of the child is lost, in memory nothing of it is seen"


def test_it_is_a_source_of_rows():
    file = VectorFile.create(None, 6).add(vectors(2500))
    np.testing.assert_array_equal(np.concatenate([block for _, block in RowBlocks(file.view)]), vectors(2500))


def test_a_change_that_raises_leaves_the_file_as_it_was(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    broken = vectors(9000)
    broken[8999, 2] = np.nan
    for words, change in (
        ("row 8999 has NaN", lambda: file.add(broken)),
        ("vectors must have 6 features, got 5", lambda: file.add(vectors(2, d=5))),
    ):
        with pytest.raises(ValueError, match=words):
            change()
        for held in (file, VectorFile.open(tmp_path / "v")):
            np.testing.assert_array_equal(rows_of(held), vectors(5))
    np.testing.assert_array_equal(rows_of(file.add(vectors(1, seed=3))), [*vectors(5), *vectors(1, seed=3)])


def test_a_file_that_was_replaced_is_not_written_to(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    VectorFile.create(tmp_path / "v", 6).add(vectors(2, seed=1))
    with pytest.raises(ValueError, match=r"v is another file than the one that was opened"):
        file.add(vectors(1))
    np.testing.assert_array_equal(rows_of(VectorFile.open(tmp_path / "v")), vectors(2, seed=1))
    (tmp_path / "v").unlink()
    with pytest.raises(OSError, match="No such file"):
        file.add(vectors(1))
    np.testing.assert_array_equal(rows_of(file), vectors(5))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_changed_byte_of_a_record_is_an_error(tmp_path, dtype):
    calibration = Calibration.of(vectors(5)) if dtype == "int8" else None
    file = VectorFile.create(tmp_path / "v", 6, dtype, calibration).add(vectors(5))
    content, layout = (tmp_path / "v").read_bytes(), file.layout
    for byte in range(layout.record_bytes):
        changed = bytearray(content)
        changed[layout.size(2) + byte] ^= 0x80
        (tmp_path / "v").write_bytes(changed)
        damaged = VectorFile.open(tmp_path / "v")
        damaged.take([0, 1, 3, 4])
        with pytest.raises(ValueError, match=r"v: the vector of record 2 does not match its checksum"):
            damaged.take([0, 2])
        for metric in ("euclidean", "cosine", "dot"):
            with pytest.raises(ValueError, match="record 2"):
                nearest_candidates(damaged.view, vectors(1), np.array([[0, 2]]), 1, metric)
        with pytest.raises(ValueError, match="record 2"):
            damaged.verify()


def test_a_record_at_another_place_or_of_another_file_is_an_error(tmp_path):
    one, other = (VectorFile.create(tmp_path / name, 6).add(vectors(5)) for name in ("one", "other"))
    layout = one.layout
    assert layout.id != other.layout.id
    mine, theirs = (tmp_path / "one").read_bytes(), (tmp_path / "other").read_bytes()
    second = slice(layout.size(1), layout.size(2))
    for record in (mine[layout.size(0) : layout.size(1)], theirs[second], bytes(layout.record_bytes)):
        (tmp_path / "one").write_bytes(mine[: second.start] + record + mine[second.stop :])
        with pytest.raises(ValueError, match=r"record 1 does not match its checksum; .* or is of another search"):
            VectorFile.open(tmp_path / "one").take([1])


def test_files_that_are_not_whole_are_refused(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(3000))
    content, layout = (tmp_path / "v").read_bytes(), file.layout
    count = layout.count_at
    more = struct.pack("<Q", 10**6)
    for damaged, words in (
        (content[: layout.size(3000) - 1], "too short for its 3000 records; it was truncated"),
        (content[: layout.records_at], "too short for its 3000 records"),
        (content[:4096], "number of records does not match its checksum"),
        (content[: count + 5], "number of records does not match its checksum"),
        (content[:count] + b"\1" + content[count + 1 :], "number of records does not match its checksum"),
        (
            content[:count] + more + struct.pack("<I", zlib.crc32(more)) + content[count + 12 :],
            "too short for its 1000000",
        ),
        (content[:20] + b"9" + content[21:], "header does not match its checksum"),
        (content[:30], "header does not match its checksum"),
        (content[:12] + b"\xff" * 4 + content[16:], "header does not match its checksum"),
        (content[:10], "not a vector file"),
        (b"", "not a vector file"),
        (b"\x93NUMPY" + content, "not a vector file"),
        (content[:8] + struct.pack("<I", 9) + content[12:], "version 9"),
    ):
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(ValueError, match=words) as error:
            VectorFile.open(tmp_path / "damaged")
        assert str(tmp_path / "damaged") in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"v: .* bytes long, its 9000 records need"):
        file.first(9000)


@given(st.integers(0, 399), st.integers(1, 255))
@settings(max_examples=100, deadline=None)
def test_a_changed_byte_of_the_header_is_refused(tmp_path_factory, place, bits):
    path = tmp_path_factory.mktemp("header") / "v"
    calibration = Calibration.of(vectors(5))
    file = VectorFile.create(path, 6, "int8", calibration).add(vectors(5))
    content = bytearray(path.read_bytes())
    length = struct.unpack("<I", content[12:16])[0]
    head = [*range(16 + length + 4), *range(file.layout.count_at, file.layout.count_at + 12)]
    content[head[place % len(head)]] ^= bits
    path.write_bytes(content)
    with pytest.raises(ValueError, match="v: ") as error:
        VectorFile.open(path)
    assert str(path) in str(error.value)


def header(**said):
    text = json.dumps(said).encode()
    head = b"HLVECTS\n" + struct.pack("<II", VERSION, len(text)) + text
    return (head + struct.pack("<I", zlib.crc32(head))).ljust(12288, b"\0")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"n_features": 6, "dtype": "int8", "id": "0" * 16}, "the header says no 'calibration'"),
        ({"n_features": 0, "dtype": "float32", "id": "0" * 16}, "n_features must be an integer of at least 1"),
        ({"n_features": 6, "dtype": "int4", "id": "0" * 16}, "dtype must be one of"),
        ({"n_features": 6, "dtype": "float32"}, "the header says no 'id'"),
        ({"n_features": 6, "dtype": "float32", "id": 7}, "v: "),
        ({"n_features": 6, "dtype": "float32", "id": "none"}, "v: "),
        ({"dtype": "float32"}, "the header says no 'n_features'"),
    ],
)
def test_headers_that_say_nonsense_are_refused(tmp_path, said, words):
    (tmp_path / "v").write_bytes(header(**said))
    with pytest.raises(ValueError, match=words) as error:
        VectorFile.open(tmp_path / "v")
    assert str(tmp_path / "v") in str(error.value)


def test_an_int8_file_needs_a_calibration(tmp_path):
    with pytest.raises(ValueError, match=r"int8 vectors need a calibration, .*, got None"):
        VectorFile.create(tmp_path / "v", 6, "int8")
    assert not (tmp_path / "v").exists()


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


def test_rows_that_are_not_there_are_named(tmp_path):
    file = VectorFile.create(tmp_path / "v", 6).add(vectors(5))
    for wrong in (5, -1, 2**62):
        with pytest.raises(ValueError, match=rf"rows must be in .*v, got {wrong}, which is not among its 5 vectors"):
            file.take([1, wrong])
    with pytest.raises(TypeError, match="rows must be integers"):
        file.take([0.5])


WRITER = """
import sys
import warnings
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
        writer = ForkedPython([sys.executable, "-c", WRITER, tmp_path / "v"], stdout=subprocess.PIPE, text=True)
        reported = [int(writer.stdout.readline()) for _ in range(3 + round)]
        writer.kill()
        reported += [int(line) for line in writer.communicate()[0].splitlines()]
        file = VectorFile.open(tmp_path / "v")
        assert len(file) >= reported[-1]
        assert len(file) % 700 == 0
        np.testing.assert_array_equal(rows_of(file), np.arange(len(file))[:, None] + np.arange(3.0))


def test_pages_are_asked_for_only_where_they_may_not_be_in_memory(tmp_path, monkeypatch):
    file = VectorFile.create(tmp_path / "v", 64).add(vectors(2000, d=64))
    asked = []
    monkeypatch.setattr(
        "hashlearn.search.vector_records.expect_rows", lambda mapped, starts, n: asked.append(starts.tolist())
    )
    monkeypatch.setattr(vector_records.VectorMapping, "is_resident", lambda self: True)
    file.take([3, 1000])
    assert asked == []
    monkeypatch.setattr(vector_records.VectorMapping, "is_resident", lambda self: False)
    file.take([1000, 3, 3])
    assert asked == [[file.layout.size(3), file.layout.size(1000)]]


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells which pages are in memory")
def test_vectors_that_were_just_written_are_in_memory(tmp_path):
    file = VectorFile.create(tmp_path / "v", 64).add(vectors(2000, d=64))
    rows_of(file)
    assert VectorFile.open(tmp_path / "v").view.is_resident
    assert not VectorFile.create(None, 3).view.is_resident, "there is nothing to look at"


@pytest.mark.parametrize("named", [True, False])
def test_a_file_that_nobody_uses_is_closed_and_its_views_stay(named, tmp_path):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        file = VectorFile.create(tmp_path / "x.hlv" if named else None, 2).add([[1.0, 2.0]])
        view = file.view
        del file
        gc.collect()
    assert not told
    assert view.take([0]).tolist() == [[1.0, 2.0]]
