"""One way to compile a kernel, and to keep it compiled between processes."""

import hashlib
import re
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core.runtime import rtsys

_PACKAGE = Path(__file__).parent
_OPTIONS: Any = {"nogil": True, "no_cfunc_wrapper": True}  # no C code calls a kernel
_UNCOUNTED: Any = {**_OPTIONS, "_nrt": False}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on its first call, without the interpreter lock, with numba's disk cache where there is one.

    numba keeps the cache beside the source. If the source is read-only, the cache is in the user's cache folder. If
    neither can be written (a locked-down container), every process compiles the kernel, and a warning says what to set.
    """
    return _kept(njit(**_OPTIONS)(function))


def fast(function: Callable[..., Any]) -> Any:
    """As :func:`compiled`, for sums whose terms may be added in any order."""
    return _kept(njit(**_OPTIONS, fastmath=True)(function))


def lean(function: Callable[..., Any]) -> Any:
    """As :func:`compiled`, for a kernel that makes no arrays: without numba's counts of references to arrays.

    In loops with branches numba keeps the counts, and they take more time than the work.
    """
    return _kept(njit(**_UNCOUNTED)(function))


def spliced(function: Callable[..., Any]) -> Any:
    """As :func:`lean`; LLVM copies the machine code into each kernel that calls it.

    An array is passed as seven numbers or more, so that a call with named tuples of arrays copies a kilobyte.
    """
    return _kept(njit(**_UNCOUNTED, forceinline=True)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """Make a function a part of the kernels that call it: each compiles a copy of it.

    For a few lines that a kernel calls in one place: a function that is compiled by itself takes 0.1 seconds.
    Its arguments must not be None in one kernel and arrays in another.
    """
    return njit(nogil=True, inline="always")(function)


@cache
def source_stamp(module: str) -> bytes:
    """A digest of the source of a module and of the modules it imports that lie in folders with kernels.

    numba's disk cache notices a change of the file that holds a kernel. It does not notice a change of the helpers that
    the file imports, and would keep old machine code. With this stamp, such a change compiles the kernel again.
    """
    digest, sources = hashlib.sha256(), _sources()
    found, names = {__name__}, [module]
    while names:
        name = names.pop()
        if name in sources and name not in found:
            found.add(name)
            names += re.findall(r"^from (hashlearn[\w.]*) import", sources[name], re.MULTILINE)
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + sources[name].encode() + b"\0")
    return digest.digest()


@cache
def _sources() -> dict[str, str]:
    """The source of each module of the folders that have kernels."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))}
    folders = {path.parent for path, source in sources.items() if "from hashlearn.compiled import" in source}
    names = {path: ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts) for path in sources}
    return {names[path]: source for path, source in sources.items() if path.parent in folders | {_PACKAGE}}


def _kept(dispatcher: Any) -> Any:
    """Have numba keep what it compiles, as far as it can: a kernel works without the cache too."""
    dispatcher.get_call_template = partial(_without_literals, dispatcher.get_call_template)
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        _warn_once()
        return dispatcher
    kept: Any = getattr(dispatcher, "_cache", None)  # no public name for it; without it, numba's own rules apply
    if hasattr(kept, "_cache_file"):
        kept._cache_file._source_stamp = source_stamp(dispatcher.py_func.__module__)
        index = Path(kept._cache_file._index_path)
        kept.load_overload = partial(_or_nothing, index, partial(_loaded, kept))
        kept.save_overload = partial(_or_nothing, index, kept.save_overload)
    return dispatcher


def _without_literals(resolve: Callable[..., Any], args: Any, kws: dict[str, Any]) -> Any:
    """Have numba compile one kernel for all values of an argument.

    It would compile a kernel again for each constant with which another kernel calls it.
    """
    args = tuple(types.unliteral(kind) for kind in args)
    return resolve(args, {name: types.unliteral(kind) for name, kind in kws.items()})


def _loaded(kept: Any, signature: Any, target: Any) -> Any:
    """A kernel of the cache.

    numba's own function first imports and registers everything that a compilation may need, which takes longer than all
    kernels of a program. numba does this again before it compiles, so a program that finds its kernels can go without.
    """
    rtsys.initialize(target)
    with kept._guard_against_spurious_io_errors():
        return kept._load_overload(signature, target)


def _or_nothing(index: Path, use_cache: Callable[..., Any], *args: Any) -> Any:
    """What the cache has; nothing where its files are damaged, gone, or cannot be written any more.

    An index that cannot be read is damaged or of an older version of the package. It is removed, so that the new
    machine code can be kept.
    """
    try:
        return use_cache(*args)
    except OSError:
        _warn_once()
    except Exception:
        try:
            index.unlink(missing_ok=True)
        except OSError:
            _warn_once()
    return None


@cache
def _warn_once() -> None:
    warnings.warn(
        "compiled functions cannot be kept, and every process compiles them anew: set NUMBA_CACHE_DIR to a folder that "
        "can be written",
        RuntimeWarning,
        stacklevel=2,
    )
