"""The CIFAR-10 python batches, read without unpickling.

A pickle is a program for a small stack machine, and two of its instructions call whatever function the file names: this
is why a file from elsewhere must never be unpickled. The batches need next to none of that. Here the instructions are
only listed (:func:`pickletools.genops` parses, it runs nothing) and replayed on plain values: numbers, strings, lists,
tuples and dictionaries. Names of functions stay strings. Of the calls, exactly those are understood by which numpy
writes an array of bytes, and the array is made from the bytes here; anything else is an error.
"""

import pickletools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class _Name(NamedTuple):
    """A module's function or class, by name only."""

    module: str
    name: str


class _Bytes:
    """numpy's data type of one byte, the only one a batch uses."""


class _Array:
    """An array announced by one instruction and filled by a later one."""

    values: NDArray[np.uint8] | None = None


class _Mark:
    """Where a group of values begins on the stack."""


_RECONSTRUCT = {
    _Name("numpy.core.multiarray", "_reconstruct"),
    _Name("numpy._core.multiarray", "_reconstruct"),
}
_NDARRAY = _Name("numpy", "ndarray")
_DTYPE = _Name("numpy", "dtype")
_ENCODE = _Name("_codecs", "encode")

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE",
    "BINBYTES", "SHORT_BINBYTES",
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = {"PROTO", "FRAME"}


def read_batch(data: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pixels (n, 3072) and labels (n,) of a pickled batch.

    Raises
    ------
    ValueError
        If the bytes are anything but a batch.
    """
    try:
        batch = _Replay().run(data)
        pixels, labels = batch["data"].values, batch["labels"]
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a CIFAR-10 batch: {type(error).__name__} {error}") from None
    if pixels is None or pixels.ndim != 2 or pixels.shape[1] != 3072 or len(labels) != len(pixels):
        raise ValueError("not a CIFAR-10 batch: data must be n x 3072 with n labels")
    if not all(isinstance(label, int) and 0 <= label < 10 for label in labels):
        raise ValueError("not a CIFAR-10 batch: labels must be 0 to 9")
    return pixels, np.asarray(labels, np.uint8)


class _Replay:
    """The stack machine, without its calls."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return self.stack.pop()
            self._step(opcode.name, argument)
        raise ValueError("not a CIFAR-10 batch: it does not end")

    def _step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self.stack[-_TUPLES[name] :] = [tuple(self.stack[-_TUPLES[name] :])]
        elif name not in _IGNORED:
            action = getattr(self, f"_{name.lower()}", None)
            if action is None:
                raise ValueError(f"not a CIFAR-10 batch: the instruction {name} has no place in one")
            action(argument)

    def _mark(self, _: Any) -> None:
        self.stack.append(_Mark)

    def _empty_dict(self, _: Any) -> None:
        self.stack.append({})

    def _empty_list(self, _: Any) -> None:
        self.stack.append([])

    def _tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _append(self, _: Any) -> None:
        value = self.stack.pop()
        self._top(list).append(value)

    def _appends(self, _: Any) -> None:
        values = self._since_mark()
        self._top(list).extend(values)

    def _setitem(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._top(dict)[key] = value

    def _setitems(self, _: Any) -> None:
        values = self._since_mark()
        self._top(dict).update(zip(values[::2], values[1::2]))

    def _memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _binput(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def _binget(self, place: int) -> None:
        self.stack.append(self.memo[place])

    _long_binput, _long_binget = _binput, _binget

    def _global(self, argument: str) -> None:
        self.stack.append(_Name(*argument.split(" ", 1)))

    def _stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(_Name(module, name))

    def _reduce(self, _: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if function in _RECONSTRUCT and arguments[0] == _NDARRAY:
            self.stack.append(_Array())
        elif function == _DTYPE and arguments[0] == "u1":
            self.stack.append(_Bytes())
        elif function == _ENCODE and arguments[1] == "latin1":
            self.stack.append(arguments[0].encode("latin-1"))
        else:
            raise ValueError(f"not a CIFAR-10 batch: it asks to call {function}, which is not done")

    def _build(self, _: Any) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _Bytes):  # byte order and alignment, of which a byte has none
            return
        if not isinstance(target, _Array):
            raise ValueError("not a CIFAR-10 batch: it fills something that is no array")
        _, shape, dtype, column_major, buffer = state
        if not isinstance(dtype, _Bytes):
            raise ValueError("not a CIFAR-10 batch: its array does not hold bytes")
        raw = buffer.encode("latin-1") if isinstance(buffer, str) else buffer
        target.values = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if column_major else "C")

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise ValueError(f"not a CIFAR-10 batch: a {kind.__name__} was expected")
        return self.stack[-1]

    def _since_mark(self) -> list[Any]:
        start = len(self.stack) - 1
        while self.stack[start] is not _Mark:
            start -= 1
            if start < 0:
                raise ValueError("not a CIFAR-10 batch: a group of values has no beginning")
        values = self.stack[start + 1 :]
        del self.stack[start:]
        return values
