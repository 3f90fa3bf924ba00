"""Downloads from a server on this machine that can be told to misbehave."""

import errno
import hashlib
import os
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hashlearn import progress
from hashlearn.datasets.download import CHUNK, DownloadError, RemoteFile, fetch

CONTENT = bytes(range(256)) * 10_000  # 2.5 MB: three chunks


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests.append(self.headers.get("Range"))
        start = 0
        asked = self.headers.get("Range")
        if asked and server.ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        if self.path != "/file.bin":
            self.send_error(404)
            return
        if start >= len(server.content) and asked:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            told = start + server.wrong_range
            self.send_header("Content-Range", f"bytes {told}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        time.sleep(server.pause)
        self.wfile.write(server.content[start : server.cut_at])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # a client that hangs up is what these tests are about
    server.content, server.cut_at, server.pause = CONTENT, None, 0
    server.ranges, server.wrong_range, server.requests = True, 0, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def remote(server):
    url = f"http://127.0.0.1:{server.server_port}/file.bin"
    return RemoteFile("file.bin", (url,), "sha256:" + hashlib.sha256(CONTENT).hexdigest())


def failure(remote, folder):
    with pytest.raises(DownloadError) as caught:
        fetch(remote, folder)
    assert "\n" not in str(caught.value)
    assert not (folder / remote.name).exists()
    return str(caught.value)


def left(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_file_is_fetched_once(server, remote, cache):
    assert fetch(remote, cache).read_bytes() == CONTENT
    assert fetch(remote, cache).read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert left(cache) == ["file.bin"]


def test_md5_is_checked_too(remote, cache):
    good = RemoteFile(remote.name, remote.urls, "md5:" + hashlib.md5(CONTENT, usedforsecurity=False).hexdigest())
    assert fetch(good, cache).read_bytes() == CONTENT


def test_an_interrupted_download_goes_on_where_it_stopped(server, remote, cache):
    server.cut_at = CHUNK + 1000
    assert "lost" in failure(remote, cache)
    assert left(cache) == ["file.bin.part"]
    assert (cache / "file.bin.part").read_bytes() == CONTENT[: CHUNK + 1000]
    server.cut_at = None
    assert fetch(remote, cache).read_bytes() == CONTENT
    assert server.requests == [None, f"bytes={CHUNK + 1000}-"]
    assert left(cache) == ["file.bin"]


def test_a_server_that_cannot_resume_sends_it_all_again(server, remote, cache):
    server.cut_at = 1000
    failure(remote, cache)
    server.cut_at, server.ranges = None, False
    assert fetch(remote, cache).read_bytes() == CONTENT


def test_a_server_that_resumes_elsewhere_is_not_believed(server, remote, cache):
    server.cut_at = 1000
    failure(remote, cache)
    server.cut_at, server.wrong_range = None, 7
    assert "another part" in failure(remote, cache)


def test_a_part_that_is_whole_is_not_asked_for(server, remote, cache):
    cache.mkdir()
    (cache / "file.bin.part").write_bytes(CONTENT)
    assert fetch(remote, cache).read_bytes() == CONTENT
    assert server.requests == []


def test_a_part_that_is_too_long_is_begun_again(remote, cache):
    cache.mkdir()
    (cache / "file.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(remote, cache).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, remote, cache):
    server.content = CONTENT[::-1]
    assert "checksum" in failure(remote, cache)
    assert left(cache) == []


def test_a_part_of_another_file_is_found_out(remote, cache):
    cache.mkdir()
    (cache / "file.bin.part").write_bytes(b"of an older version")
    assert "checksum" in failure(remote, cache)
    assert left(cache) == []
    assert fetch(remote, cache).read_bytes() == CONTENT


def test_a_full_disk_in_the_middle(remote, cache, monkeypatch):
    """The second chunk does not fit: what is there stays for the next attempt, under the name of a part."""
    from pathlib import Path

    plain_open = Path.open

    def open_on_a_full_disk(path, mode="r", *arguments, **options):
        file = plain_open(path, mode, *arguments, **options)
        return FullDisk(file) if path.name.endswith(".part") and "b" in mode and mode != "rb" else file

    monkeypatch.setattr(Path, "open", open_on_a_full_disk)
    assert "no space for file.bin" in failure(remote, cache)
    assert left(cache) == ["file.bin.part"]
    monkeypatch.undo()
    assert fetch(remote, cache).read_bytes() == CONTENT


class FullDisk:
    """A file that takes one chunk."""

    def __init__(self, file):
        self.file, self.chunks = file, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, chunk):
        self.chunks += 1
        if self.chunks > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(chunk)


def test_a_disk_known_to_be_full_is_not_tried(remote, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    assert "HASHLEARN_CACHE" in failure(remote, cache)
    assert left(cache) == []


def test_a_cache_that_cannot_be_written(remote, tmp_path):
    (tmp_path / "taken").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match=r"cannot write file\.bin"):
        fetch(remote, tmp_path / "taken")


def test_no_network(cache):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    remote = RemoteFile("file.bin", (f"http://127.0.0.1:{port}/file.bin",), "md5:0")
    assert f"cannot reach 127.0.0.1:{port}" in failure(remote, cache)
    assert left(cache) == []


def test_the_next_address_is_tried(server, remote, cache):
    missing = remote.urls[0].replace("file.bin", "gone.bin")
    assert "404" in failure(RemoteFile("file.bin", (missing,), remote.checksum), cache)
    both = RemoteFile("file.bin", (missing, remote.urls[0]), remote.checksum)
    assert fetch(both, cache).read_bytes() == CONTENT


def test_other_kinds_of_address_are_refused(tmp_path, cache):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    remote = RemoteFile("file.bin", ((tmp_path / "file.bin").as_uri(),), "md5:0")
    assert "only http and https" in failure(remote, cache)


def test_of_two_at_a_time_one_waits(server, remote, cache):
    server.pause = 0.2
    with ThreadPoolExecutor(2) as pool:
        both = [future.result() for future in [pool.submit(fetch, remote, cache) for _ in range(2)]]
    assert [path.read_bytes() for path in both] == [CONTENT, CONTENT]
    assert len(server.requests) == 1


def test_progress_is_reported(remote, cache):
    calls = []
    with progress.reporting(lambda task, done, total: calls.append((done, total))):
        fetch(remote, cache)
    assert calls[0] == (0, 3)
    assert calls[-1] == (3, 3)
