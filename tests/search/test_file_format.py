"""Index files: what is saved is opened, and nothing else is."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hashlearn
from hashlearn import files
from hashlearn.search import HammingIndex, file_format


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


def test_opening_copies_nothing_and_reads_no_codes(saved, monkeypatch):
    real = file_format.zlib.crc32
    monkeypatch.setattr(
        file_format.zlib,
        "crc32",
        lambda data, *start: real(data) if len(data) < 4096 else pytest.fail("codes were read"),
    )
    opened = HammingIndex.open(saved)
    assert not any(array.flags.writeable for array in opened._engine.store._tiles[:2])
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
        with pytest.raises(ValueError, match=r"codes\.hli: the (codes|ids) do not match their checksum"):
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
    with pytest.raises(ValueError, match="version 9 of the index format; this hashlearn reads 1 to 2"):
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
    before, real = saved.read_bytes(), file_format._write
    monkeypatch.setattr(file_format, "_write", lambda file, *rest: real(FullDisk(file, room), *rest))
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
from hashlearn.search import HammingIndex
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
    child = subprocess.Popen(
        [sys.executable, "-c", SAVE_FOREVER, str(saved)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert len(HammingIndex.open(saved).verify()) in (1000, 200_000)
