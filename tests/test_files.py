"""A file is either the old one or the new one."""

import io
import os

import pytest

from hashlearn.files import check_writable, opened_within, replacing, write_at, write_text


def test_a_block_that_raises_changes_nothing(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before")

    def write():
        with replacing(old, new) as beside:
            for path in beside:
                path.write_text("after")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write()
    assert old.read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


def test_a_block_that_forgets_a_file_changes_nothing(tmp_path):
    target = tmp_path / "first"
    target.write_text("before")
    with pytest.raises(FileNotFoundError), replacing(target, tmp_path / "second") as (beside, _):
        beside.write_text("after")
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["first"]


def test_writing_within_a_file_leaves_the_rest(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    with opened_within(tmp_path / "file") as first, opened_within(tmp_path / "file") as second:
        write_at(second, 7, b"cd")
        write_at(first, 2, b"ab")
    assert (tmp_path / "file").read_bytes() == b"01ab456cd9"
    with pytest.raises(FileNotFoundError):
        opened_within(tmp_path / "missing")


def test_a_write_that_takes_only_some_of_the_bytes_is_continued():
    class Slow(io.BytesIO):
        def write(self, content):
            return super().write(content[:3])

    file = Slow(bytes(10))
    write_at(file, 1, b"abcdefgh")
    assert file.getvalue() == b"\0abcdefgh\0"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"


def test_the_mode_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("path", "message"),
    [("", "got the folder"), ("nowhere/file", "existing folder"), ("/dev/null", "regular file")],
)
def test_what_cannot_be_written_says_why(tmp_path, path, message):
    with pytest.raises(ValueError, match=message):
        check_writable(tmp_path / path, "out")
