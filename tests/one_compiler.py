"""Processes of the tests that need the same kernel: one compiles it, the others wait and read what numba kept."""

import os
import tempfile
import zlib
from pathlib import Path

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows: each process compiles for itself
    fcntl = None  # type: ignore[assignment]

_held: set[int] = set()


def compile_once():
    """Have this process, and those forked from it, take turns with the others."""
    if fcntl is None or hasattr(Dispatcher.compile, "takes_turns"):
        return
    compile_now = Dispatcher.compile
    path = Path(tempfile.gettempdir()) / f"hashlearn-kernels-{os.getuid()}.lock"
    file = path.open("ab")

    def compile_in_turn(self, signature):
        kept_at = getattr(getattr(self._cache, "_cache_file", None), "_index_path", None)
        if kept_at is None:
            return compile_now(self, signature)
        with global_compiler_lock:  # so one thread of a process waits for other processes at a time
            place = zlib.crc32(os.fsencode(kept_at))
            if place in _held:
                return compile_now(self, signature)
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
            _held.add(place)
            try:
                return compile_now(self, signature)  # looks again whether it was kept meanwhile
            finally:
                _held.remove(place)
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    compile_in_turn.takes_turns = True
    Dispatcher.compile = compile_in_turn
