"""Index files: what is saved is opened, and nothing else is."""

import errno
import json
import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from forked import ForkedPython
from hypothesis import given, settings
from hypothesis import strategies as st

import hashlearn
from hashlearn.durable import files
from hashlearn.index import HammingIndex, file
from hashlearn.index.code_table import CodeTable
from hashlearn.index.file import read_table, write_table
from hashlearn.index.kernels.tiles import byte_layout, word_layout


def random_codes(n, n_bits, seed=0):
    return np.packbits(np.random.default_rng(seed).random((n, n_bits)) < 0.5, axis=1)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "codes.hli"
    HammingIndex(64).add(random_codes(1000, 64), np.arange(1000)[::-1] * 3).save(path)
    return path


@pytest.mark.parametrize("n_bits", [1, 12, 16, 24, 64, 96, 300])
@pytest.mark.parametrize("n", [0, 1, 64, 1000])
@pytest.mark.parametrize("with_ids", [False, True])
def test_an_opened_index_is_the_saved_one(tmp_path, n_bits, n, with_ids):
    codes = random_codes(n, n_bits)
    index = HammingIndex(n_bits).add(codes, np.random.default_rng(0).permutation(5 * n)[:n] if with_ids else None)
    index.save(tmp_path / "codes.hli")
    opened = HammingIndex.open(tmp_path / "codes.hli").verify()
    assert (opened.n_bits, len(opened)) == (n_bits, n)
    np.testing.assert_array_equal(opened.ids, index.ids)
    np.testing.assert_array_equal(opened.codes(), index.codes())
    for one, other in zip(opened.search(codes[:3], 4), index.search(codes[:3], 4)):
        np.testing.assert_array_equal(one, other)


def test_an_opened_index_can_be_changed_and_saved_over_itself(saved):
    opened = HammingIndex.open(saved)
    more = random_codes(70, 64, seed=1)
    ids = opened.remove([0, 3]).add(more).ids
    assert ids[-70:].tolist() == list(range(2998, 3068))
    assert len(HammingIndex.open(saved)) == 1000
    opened.save(saved)
    again = HammingIndex.open(saved)
    np.testing.assert_array_equal(again.ids, ids)
    np.testing.assert_array_equal(again.codes(ids[-70:]), more)
    assert not any(array.flags.writeable for array in again.view.engines[0].segment.tiles[:2])


def test_opening_copies_nothing_and_reads_no_codes(saved, monkeypatch):
    real = file.zlib.crc32
    monkeypatch.setattr(
        file.zlib,
        "crc32",
        lambda data, *start: real(data) if len(data) < 4096 else pytest.fail("codes were read"),
    )
    opened = HammingIndex.open(saved)
    assert (len(opened), opened.n_bits) == (1000, 64)


USES = {
    "search": lambda index: index.search(np.zeros((1, 8), np.uint8)),
    "within": lambda index: index.within(np.zeros((1, 8), np.uint8), 3),
    "pairs": lambda index: list(index.pairs_within(1)),
    "codes": lambda index: index.codes(),
    "ids": lambda index: index.ids,
    "add": lambda index: index.add(np.zeros((1, 8), np.uint8)),
    "remove": lambda index: index.remove([3]),
    "save": lambda index: index.save("never.hli"),
    "subset": lambda index: index.search(np.zeros((1, 8), np.uint8), subset=[3]),
    "verify": lambda index: index.verify(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("place", [4096, 12288])
def test_a_changed_bit_is_seen_before_the_codes_are_used(saved, use, place):
    content = bytearray(saved.read_bytes())
    content[place] ^= 1
    saved.write_bytes(content)
    index = HammingIndex.open(saved)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"codes\.hli: the section '(front|back|ids)' does not match its checksum"):
            use(index)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_edit_of_the_header_is_accepted(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("edited") / "codes.hli"
    HammingIndex(64).add(random_codes(100, 64)).save(path)
    content = bytearray(path.read_bytes())
    length = content[:4096].rstrip(b"\0").__len__()
    place = data.draw(st.integers(0, length - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"codes\.hli: "):
        HammingIndex.open(path)


@pytest.mark.parametrize("size", [0, 5, 8, 100, 4095, 4096, 5000, 12288, 20479])
def test_a_truncated_file_is_refused(saved, size):
    content = saved.read_bytes()
    assert size < len(content)
    saved.write_bytes(content[:size])
    with pytest.raises(ValueError, match=r"not an index file|truncated"):
        HammingIndex.open(saved)


def test_other_files_are_refused(tmp_path, saved):
    (tmp_path / "numbers.npy").write_bytes(b"\x93NUMPY" + bytes(5000))
    with pytest.raises(ValueError, match=r"numbers\.npy: not an index file of hashlearn"):
        HammingIndex.open(tmp_path / "numbers.npy")
    saved.write_bytes(saved.read_bytes() + b"more")
    with pytest.raises(ValueError, match="appended"):
        HammingIndex.open(saved)
    with pytest.raises(FileNotFoundError):
        HammingIndex.open(tmp_path / "missing.hli")


def test_a_later_version_is_refused_by_name(saved):
    content = bytearray(saved.read_bytes())
    content[8] = 9
    saved.write_bytes(content)
    with pytest.raises(ValueError, match="version 9 of the format; this hashlearn reads version 3"):
        HammingIndex.open(saved)


class FullDisk:
    """A file that takes so many bytes and no more."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 4096, 9000, 12500])
def test_a_full_disk_leaves_the_old_file_and_no_other(saved, room, monkeypatch):
    before, real = saved.read_bytes(), file._write
    monkeypatch.setattr(file, "_write", lambda file, *rest: real(FullDisk(file, room), *rest))
    with pytest.raises(OSError, match="No space left"):
        HammingIndex(64).add(random_codes(2000, 64)).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_the_last_step_leaves_the_old_file_and_no_other(saved, step, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="Input/output"):
        HammingIndex(64).add(random_codes(2000, 64)).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


SAVE_FOREVER = """
import sys
import numpy as np
from hashlearn.index import HammingIndex
codes = np.full((200_000, 8), 7, np.uint8)
index = HammingIndex(64).add(codes)
print("ready", flush=True)
while True:
    index.save(sys.argv[1])
"""


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
@pytest.mark.parametrize("delay", [0.0, 0.004, 0.013])
def test_a_process_killed_while_saving_leaves_a_whole_file(saved, delay):
    source = str(Path(hashlearn.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    child = ForkedPython(
        [sys.executable, "-c", SAVE_FOREVER, str(saved)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert len(HammingIndex.open(saved).verify()) in (1000, 200_000)


def test_the_model_is_saved_with_the_codes_whatever_is_done_to_them(tmp_path):
    path = tmp_path / "codes.hli"
    HammingIndex(64, model="sha256:abc").add(random_codes(100, 64)).save(path)
    opened = HammingIndex.open(path)
    assert opened.model == "sha256:abc"
    opened.remove([3]).add(random_codes(1, 64)).save(path)
    assert HammingIndex.open(path).model == "sha256:abc"
    HammingIndex(64).save(path)
    assert HammingIndex.open(path).model is None


@pytest.mark.parametrize("layout_of", [word_layout, byte_layout])
def test_corrections_and_metadata_of_any_size_come_back(tmp_path, layout_of):
    path, metadata = tmp_path / "codes.hli", {"corrections": [0.1, -3.25], "notes": "x" * 10_000}
    store = CodeTable.empty(100, layout_of(100), corrections=True, metadata=metadata)
    corrections = np.random.default_rng(0).integers(0, 256, 300, dtype=np.uint8)
    store = store.added(random_codes(300, 100), None, corrections)
    with path.open("wb") as file:
        write_table(store, file)
    opened = read_table(path)
    assert opened.metadata == metadata
    assert opened.layout == layout_of(100)
    np.testing.assert_array_equal(opened.live().corrections, corrections)
    np.testing.assert_array_equal(opened.codes_of(np.arange(300)), random_codes(300, 100))
    changed = opened.removed([7])
    np.testing.assert_array_equal(changed.live().corrections, np.delete(corrections, 7))
    with pytest.raises(ValueError, match="an index of another kind"):
        HammingIndex.open(path)


def test_a_file_does_not_hold_codes_added_while_it_is_saved(tmp_path):
    index = HammingIndex(64).add(random_codes(100, 64)).add(random_codes(1, 64))
    before = index.copy()
    index.add(random_codes(5, 64, seed=1))  # goes into the room behind those of the copy
    before.save(tmp_path / "before.hli")
    content = (tmp_path / "before.hli").read_bytes()
    tail = np.frombuffer(content[4096:], np.uint64)[:128]
    assert len(HammingIndex.open(tmp_path / "before.hli").verify()) == 101
    assert tail[:101].all()
    assert not tail[101:].any()


def with_header(path, header):
    """The file with another header, and the checksum that belongs to it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    head = b"HLINDEX\n" + struct.pack("<II", 3, len(text)) + text
    head += struct.pack("<I", zlib.crc32(head))
    path.write_bytes(head.ljust(-(-len(head) // 4096) * 4096, b"\0") + path.read_bytes()[4096:])


def header_of(path):
    content = path.read_bytes()
    return json.loads(content[16 : 16 + struct.unpack("<I", content[12:16])[0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_bits": "64"}, "n_bits must be an integer"),
        ({"n_bits": 10**9}, "laid out in a way"),
        ({"n_codes": -1}, "n_codes must be an integer of at least 0"),
        ({"n_codes": 10**30}, "not as long as it has to be"),
        ({"n_codes": None}, "n_codes must be an integer"),
        ({"next_id": -5}, "next_id must be an integer of at least 0"),
        ({"n_front": 7}, "laid out in a way"),
        ({"bit_order": "little"}, "laid out in a way"),
        ({"sections": {}}, "truncated or appended to"),
        ({"sections": {"front": 3}}, "codes.hli: "),
        ({"sections": {"other": {"n_bytes": 8, "crc32": 0}}}, "the header says no 'dtype'"),
        ({"sections": {"other": {"dtype": "|u1", "shape": [-8], "crc32": 0}}}, "too short for the section"),
        ({"sections": {"other": {"dtype": "|O", "shape": [8], "crc32": 0}}}, "of a type this hashlearn does not know"),
        ({"metadata": 3}, "codes.hli: "),
        ({"sections": None}, "codes.hli: "),
    ],
)
def test_a_header_that_cannot_be_is_refused_in_one_line(saved, change, message):
    with_header(saved, header_of(saved) | change)
    with pytest.raises(ValueError, match=r"codes\.hli: ") as caught:
        HammingIndex.open(saved)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"nothing", b"[" * 100_000, b"\xff\xfe", b'{"n_bits": 64}'])
def test_a_header_that_is_no_description_is_refused_in_one_line(saved, text):
    with_header(saved, text)
    with pytest.raises(ValueError, match=r"codes\.hli: ") as caught:
        HammingIndex.open(saved)
    assert "\n" not in str(caught.value)
