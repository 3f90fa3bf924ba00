"""Detects files of a search that were cut: reading a mapped file beyond its end would kill the process (SIGBUS)."""

import os
import time
from pathlib import Path

from hashlearn.search.folder import SearchFolder
from hashlearn.server.errors import Problem

_SECONDS_BETWEEN_LISTS = 5.0
_SECONDS_BETWEEN_CHECKS = 0.001
"""Seconds during which a check is not repeated, so that requests that arrive together are checked once."""


class FolderGuard:
    """Remembers the lengths of the files in a folder, and refuses to search if a file gets shorter.

    The files of a search only grow, or are replaced by others. A file that is cut while a search reads it still kills
    the process; this finds files that were cut before the search.

    Parameters
    ----------
    folder : Path or None
        The folder of a search; None for one in memory or in a store.
    """

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._catalog = "" if folder is None else SearchFolder(folder).catalog_path.name
        self._lengths: dict[str, tuple[int, int]] = {}
        self._next_list = self._next_check = 0.0

    def check(self) -> None:
        """Raise a 503 if a file is shorter than before."""
        now = time.monotonic()
        if self.folder is None or now < self._next_check:
            return
        if now >= self._next_list:
            self._list()
        for path, (inode, length) in self._lengths.items():
            try:
                status = os.stat(path)
            except OSError:  # replaced: processes that map the old file keep it
                continue
            if status.st_ino != inode:
                continue
            if status.st_size < length:
                raise Problem(503, "a file of the search was cut; restore a snapshot and start the server again")
            if status.st_size > length:
                self._lengths[path] = inode, status.st_size
        self._next_check = now + _SECONDS_BETWEEN_CHECKS

    def _list(self) -> None:
        """Look for new files, without those of the catalog: SQLite itself handles cut files."""
        assert self.folder is not None
        self._next_list = time.monotonic() + _SECONDS_BETWEEN_LISTS
        there: dict[str, tuple[int, int]] = {}
        try:
            for entry in os.scandir(self.folder):
                if entry.is_file() and not entry.name.startswith(self._catalog):
                    status = entry.stat()
                    known = self._lengths.get(entry.path)
                    length = known[1] if known is not None and known[0] == status.st_ino else 0
                    there[entry.path] = status.st_ino, max(length, status.st_size)
        except OSError:  # the folder is gone: nothing to compare
            return
        self._lengths = there
