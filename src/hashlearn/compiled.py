"""One way to compile a kernel, and to keep it compiled between processes."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit


@cache
def source_stamp() -> bytes:
    """A digest of every source file of this room.

    numba keys a kernel's disk cache on the file that holds the kernel, and so would keep machine code made from an
    older version of the helpers which that file imports. With this stamp any edit of the room makes all its kernels
    anew.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("search/kernels/*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on its first call, without the interpreter lock, with numba's disk cache where there is one.

    numba keeps the cache beside the source or, where that is read-only, in the user's cache folder; where neither can
    be written (a locked-down container) the kernel is compiled once per process.
    """
    return _cached(njit(nogil=True)(function))


def lean(function: Callable[..., Any]) -> Any:
    """As :func:`compiled`, for a kernel that makes no arrays: without numba's counts of references to arrays.

    In loops that branch, numba does not see that the counts cancel, and they take more time than the work.
    """
    uncounted: Any = {"_nrt": False}
    return _cached(njit(nogil=True, **uncounted)(function))


def _cached(dispatcher: Any) -> Any:
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        return dispatcher
    with suppress(AttributeError):  # no public name for it; without it, numba's own rule applies
        dispatcher._cache._cache_file._source_stamp = source_stamp()
    return dispatcher
