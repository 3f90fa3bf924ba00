"""Writes that are sent again: a client that got no answer repeats its request, with the same ``Idempotency-Key``."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

from starlette.types import Scope

from hashlearn.server.errors import SOON, Problem

_WRITING = frozenset({"PUT", "DELETE", "PATCH"})
_WRITING_POSTS = ("/points/delete", "/snapshots")
_HEADER = b"idempotency-key"
_LONGEST_KEY = 255
_MOST_BYTES = 16 * 1024 * 1024
_BYTES_OF_A_WRITE = 400
"""Memory that a remembered write takes beside its answer."""


def is_write(method: str, path: str) -> bool:
    """Whether a request may change something."""
    return method in _WRITING or (method == "POST" and path.endswith(_WRITING_POSTS))


def write_key(scope: Scope) -> bytes | None:
    """The key that a client gave to a write; None without one."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            if not 0 < len(value) <= _LONGEST_KEY:
                raise Problem(422, f"Idempotency-Key must have 1 to {_LONGEST_KEY} characters", "Idempotency-Key")
            return value
    return None


class KeyedWrite(NamedTuple):
    """A write, and its answer, which may still be on its way."""

    request: Hashable
    answer: asyncio.Future[bytes]


class AnsweredWrites:
    """The answers of the latest writes with a key, 16 MB of them. A write that was refused is not among them."""

    def __init__(self) -> None:
        self._writes: dict[bytes, KeyedWrite] = {}
        self._n_bytes = 0

    async def once(self, key: bytes, request: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Make a write, or return its answer if it was made before.

        Parameters
        ----------
        key : bytes
            The key of the write.
        request : hashable
            What is written. The same key with another request is refused.
        make : callable
            Makes the write.
        """
        known = self._writes.get(key)
        if known is not None:
            if known.request != request:
                raise Problem(422, "Idempotency-Key must be new, got that of another request", "Idempotency-Key")
            return await asyncio.shield(known.answer)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._writes[key] = KeyedWrite(request, answer)
        try:
            made = await make()
        except BaseException as error:  # nothing was written
            del self._writes[key]
            answer.set_exception(error if isinstance(error, Problem) else _not_made())
            answer.exception()  # nobody may wait for it
            raise
        answer.set_result(made)
        self._remember(key, made)
        return made

    def _remember(self, key: bytes, made: bytes) -> None:
        self._n_bytes += len(made) + _BYTES_OF_A_WRITE
        for oldest in list(self._writes) if self._n_bytes > _MOST_BYTES else ():
            if self._n_bytes <= _MOST_BYTES // 2:
                return
            if (write := self._writes[oldest].answer).done():
                del self._writes[oldest]
                self._n_bytes -= len(write.result()) + _BYTES_OF_A_WRITE


def _not_made() -> Problem:
    return Problem(
        503, "the first request with this Idempotency-Key was not answered; nothing was written", headers=SOON
    )
