"""A file is either the old one or the new one, and nobody's file is lost."""

import errno
import io
import multiprocessing
import os
import stat
import threading

import numpy as np
import pytest

from hashlearn.durable import files
from hashlearn.durable.files import (
    LEFTOVER,
    Beside,
    check_writable,
    opened_within,
    replacing,
    replacing_together,
    write_at,
    write_text,
    writing,
)
from hashlearn.durable.locks import LOCK, exclusive, exclusive_folder

posix_only = pytest.mark.skipif(os.name == "nt", reason="permissions and forks of POSIX")
EVERY_WAY = pytest.mark.parametrize("replace", [replacing, replacing_together])


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@EVERY_WAY
def test_a_block_that_raises_changes_nothing(tmp_path, replace):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before")

    def write():
        with replace(old, new) as beside:
            for file in beside:
                file.write_text("after")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write()
    assert old.read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


@EVERY_WAY
def test_a_block_that_forgets_a_file_changes_nothing(tmp_path, replace):
    target = tmp_path / "first"
    target.write_text("before")
    with pytest.raises(FileNotFoundError, match="second"), replace(target, tmp_path / "second") as (beside, _):
        beside.write_text("after")
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["first"]


@EVERY_WAY
def test_all_targets_are_new_after_the_block(tmp_path, replace):
    (tmp_path / "b").write_text("before")
    with replace(tmp_path / "a", tmp_path / "b", tmp_path / "c") as (a, b, c):
        a.write_bytes(b"1")
        b.write_text("")
        with c.open("w") as file:
            file.write("three\n")
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"1", b"", b"three\n"]
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_files_that_belong_together_are_never_mixed(tmp_path, monkeypatch):
    """Whatever rename fails, there is no new file beside an old one."""
    vectors, names = tmp_path / "vectors", tmp_path / "names"
    for path in (vectors, names):
        path.write_text("old")

    def failing(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write():
        with replacing_together(vectors, names) as beside:
            for file in beside:
                file.write_text("new")
            monkeypatch.setattr(beside[1], "take_place", failing.__get__(beside[1]))

    with pytest.raises(OSError, match="Input/output"):
        write()
    assert vectors.read_text() == "new"
    assert not names.exists()


def test_a_program_that_takes_only_a_path_may_write_too(tmp_path):
    (tmp_path / "mode.npy").touch(0o600)
    with replacing(tmp_path / "mode.npy") as (beside,):
        (tmp_path / "own").write_text("written elsewhere and renamed")
        os.replace(tmp_path / "own", beside)
    assert (tmp_path / "mode.npy").read_text() == "written elsewhere and renamed"
    assert mode_of(tmp_path / "mode.npy") == 0o600
    assert os.listdir(tmp_path) == ["mode.npy"]


def test_writing_within_a_file_leaves_the_rest(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    with opened_within(tmp_path / "file") as first, opened_within(tmp_path / "file") as second:
        write_at(second, 7, b"cd")
        write_at(first, 2, b"ab")
    assert (tmp_path / "file").read_bytes() == b"01ab456cd9"
    with pytest.raises(FileNotFoundError):
        opened_within(tmp_path / "missing")


@posix_only
def test_writing_within_a_file_follows_no_link(tmp_path):
    (tmp_path / "precious").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="link"):
        opened_within(tmp_path / "link")


def test_a_write_that_takes_only_some_of_the_bytes_is_continued():
    class Slow(io.BytesIO):
        def write(self, content):
            return super().write(content[:3])

    file = Slow(bytes(10))
    write_at(file, 1, b"abcdefgh")
    assert file.getvalue() == b"\0abcdefgh\0"


def test_a_link_to_the_target_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"


@posix_only
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == 0o640


@posix_only
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_file_keeps_its_mode_and_is_never_easier_to_read_meanwhile(tmp_path, mode):
    target = tmp_path / "file"
    target.touch()
    target.chmod(mode)
    with replacing(target) as (beside,):
        assert mode_of(beside) & ~(mode | stat.S_IWUSR) == 0
        beside.write_text("text")
    assert mode_of(target) == mode


@posix_only
@pytest.mark.skipif(getattr(os, "getuid", int)() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    (tmp_path / "file").touch()
    os.chown(tmp_path / "file", 12345, 54321)
    write_text(tmp_path / "file", "text")
    status = os.stat(tmp_path / "file")
    assert (status.st_uid, status.st_gid) == (12345, 54321)


@posix_only
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("mine")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0" * 2 * n)
    (tmp_path / f".file.{os.getpid()}-{'0' * 16}{LEFTOVER}").symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError, match="file"):
        write_text(tmp_path / "file", "text")
    (tmp_path / f".lockable{LOCK}").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="lockable"), exclusive(tmp_path / "lockable"):
        pass
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


@posix_only
def test_leftovers_of_dead_writers_are_collected_and_of_living_ones_are_not(tmp_path):
    target = tmp_path / "file"
    pid = os.fork()
    if pid == 0:
        unfinished = Beside(target)
        unfinished.write_text("of a dead process")
        os._exit(0)
    os.waitpid(pid, 0)
    assert [name.endswith(LEFTOVER) for name in os.listdir(tmp_path)] == [True]
    with replacing(target) as (living,):
        assert len(os.listdir(tmp_path)) == 1  # the dead one's is gone already
        living.write_text("first")
        write_text(target, "second")
        assert living.path.exists()
    assert target.read_text() == "first"
    assert os.listdir(tmp_path) == ["file"]


def test_what_only_looks_like_a_leftover_is_left(tmp_path):
    (tmp_path / f".file.folder{LEFTOVER}").mkdir()
    (tmp_path / f".other.1-2{LEFTOVER}").write_text("of another target")
    if os.name != "nt":
        (tmp_path / f".file.link{LEFTOVER}").symlink_to("file")
        os.mkfifo(tmp_path / f".file.pipe{LEFTOVER}")
    before = set(os.listdir(tmp_path))
    write_text(tmp_path / "file", "text")
    assert set(os.listdir(tmp_path)) == before | {"file"}


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    write_text(tmp_path / ("n" * 250), "text")
    with exclusive(tmp_path / ("ä" * 120)):
        pass
    assert os.listdir(tmp_path) == ["n" * 250]


def count_up(path, times):
    for _ in range(times):
        with exclusive(path):
            write_text(path, str(int(path.read_text()) + 1))


@posix_only
def test_no_update_is_lost_under_the_lock(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=count_up, args=(path, 20)) for _ in range(2)]
    workers += [threading.Thread(target=count_up, args=(path, 20)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert path.read_text() == "80"
    assert os.listdir(tmp_path) == ["count"]


def test_a_lock_that_is_held_can_be_refused(tmp_path):
    for lock, path in ((exclusive, tmp_path / "file"), (exclusive_folder, tmp_path)):
        with lock(path), pytest.raises(BlockingIOError, match="written by another"), lock(path, wait=False):
            pass
        with lock(path, wait=False):
            pass
    assert os.listdir(tmp_path) == []


def test_files_that_are_written_at_once_are_all_new_or_all_old(tmp_path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    with writing({first: b"1", second: b"2"}):
        assert not os.path.exists(first)
    for bad in ({first: b"3", str(tmp_path / "no folder" / "x"): b"4"}, {first: b"3", second: None}):
        with pytest.raises((ValueError, TypeError)), writing(bad):
            pass
    with pytest.raises(RuntimeError), writing({first: b"5", second: b"6"}):
        raise RuntimeError
    assert [(tmp_path / name).read_bytes() for name in ("first", "second")] == [b"1", b"2"]
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


@pytest.mark.parametrize(
    "write", [np.save, np.savez, lambda file, array: file.write(array), lambda file, _: file.write(b"1")]
)
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch, write):
    def full(file, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "target").write_text("before")

    def fill():
        with replacing(tmp_path / "target") as (beside,), beside.open() as file:
            write(file, np.zeros(5))

    monkeypatch.setattr(files, "write_all", full)
    with pytest.raises(OSError, match="No space") as caught:
        fill()
    assert caught.value.filename == str(tmp_path / "target")
    assert (tmp_path / "target").read_text() == "before"
    assert os.listdir(tmp_path) == ["target"]


@pytest.mark.parametrize(
    ("path", "message"),
    [("", "got the folder"), ("nowhere/file", "existing folder"), ("/dev/null", "regular file")],
)
def test_what_cannot_be_written_says_why(tmp_path, path, message):
    with pytest.raises(ValueError, match=message):
        check_writable(tmp_path / path, "out")
