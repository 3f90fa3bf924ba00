"""What stands before the routes: keys, and how much a request may be, how many may run, and for how long."""

import asyncio
import binascii
from base64 import b64decode
from hmac import compare_digest

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.server.errors import Problem, error_response
from hashlearn.server.service import Service
from hashlearn.server.settings import Settings

ALWAYS_OPEN = frozenset({"/healthz", "/readyz"})
_WRITING = frozenset({"PUT", "DELETE", "PATCH"})


class Auth:
    """ASGI middleware: a request without the key that it needs ends here, before its body is read.

    Programs send ``Authorization: Bearer KEY``. Browsers cannot; for pages they ask for a name and a password, and the
    password is the key.
    """

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app = app
        self.read_key = _as_bytes(settings.api_key)
        self.write_key = _as_bytes(settings.write_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS_OPEN:
            await self.app(scope, receive, send)
            return
        writes = scope["method"] in _WRITING
        if (self.write_key or self.read_key) if writes else self.read_key:
            sent = _key_sent(scope)
            may_write = _equal(sent, self.write_key)
            may_read = _equal(sent, self.read_key) | may_write
            if not (may_write if writes else may_read):
                await _refusal(scope, may_read)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _refusal(scope: Scope, may_read: bool):
    if may_read:
        return error_response(403, "this key allows reading, not writing", "Authorization")
    challenge = "Bearer" if scope["path"].startswith("/v1/") else 'Basic realm="hashlearn", charset="UTF-8"'
    message = "a key is wanted: Authorization: Bearer KEY"
    return error_response(401, message, "Authorization", {"WWW-Authenticate": challenge})


def _key_sent(scope: Scope) -> bytes:
    """The key of a request; empty if there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, credentials = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return credentials.strip()
            if scheme.lower() == b"basic":
                return _password(credentials)
    return b""


def _password(credentials: bytes) -> bytes:
    try:
        return b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _equal(sent: bytes, key: bytes) -> bool:
    return compare_digest(sent, key) and bool(key)


def _as_bytes(key: str | None) -> bytes:
    return b"" if key is None else key.encode()


_EXEMPT = ALWAYS_OPEN | {"/metrics"}
_DISCARDED = 256 * 1024 * 1024
"""Bytes of a body too long that are read and dropped: most clients send all of it before they read the answer."""


class _Left(Exception):
    """The client has gone."""


class RequestLimits:
    """ASGI middleware: reads the body of a request, counting, and then gives it to the application in one piece."""

    def __init__(self, app: ASGIApp, service: Service):
        self.app = app
        self.service = service
        self.settings = service.settings
        self.n_running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _EXEMPT:
            await self.app(scope, receive, send)
            return
        try:
            self._check_room()
            self.n_running += 1
            try:
                await self._within_time(scope, receive, send)
            finally:
                self.n_running -= 1
        except Problem as problem:
            await error_response(problem.status_code, problem.detail, problem.field, problem.headers)(
                scope, receive, send
            )
        except _Left:
            pass

    def _check_room(self) -> None:
        self.service.check_ready()
        if self.n_running >= self.settings.max_concurrency:
            message = f"the server answers {self.settings.max_concurrency} requests at a time and is busy"
            raise Problem(503, message, headers={"Retry-After": "1"})

    async def _within_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(self.settings.max_body_bytes)
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                await body.read(scope, receive)
                await self.app(scope, _replay(body.whole(), receive), send)
        except TimeoutError:
            if scope["status"]:  # the answer is under way
                raise
            body.whole()
            seconds = self.settings.timeout_seconds
            if not body.is_read:
                raise Problem(408, f"the body must arrive within {seconds:g} seconds") from None
            raise Problem(504, f"the request took longer than {seconds:g} seconds") from None


class _Body:
    """The body of a request, counted while it arrives; nothing is kept of one that is too long."""

    def __init__(self, limit: int):
        self.limit = limit
        self.n_bytes = 0
        self.parts: list[bytes] = []
        self.is_read = False

    async def read(self, scope: Scope, receive: Receive) -> None:
        if _length_expected(scope) > self.limit:
            self.n_bytes = self.limit + 1  # the client waits for our word, and then does not send it
            return
        while not self.is_read and self.n_bytes <= _DISCARDED:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Left
            self._add(message.get("body", b""))
            self.is_read = not message.get("more_body", False)

    def whole(self) -> bytes:
        """What has arrived; raises if it is too long."""
        if self.n_bytes > self.limit:
            raise Problem(413, f"the body must be at most {self.limit} bytes")
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    def _add(self, part: bytes) -> None:
        self.n_bytes += len(part)
        if self.n_bytes <= self.limit:
            self.parts.append(part)
        else:
            self.parts.clear()


def _length_expected(scope: Scope) -> int:
    """Bytes of a body that is only sent if we want it; 0 of others."""
    headers = dict(scope["headers"])
    return int(headers.get(b"content-length", 0)) if b"expect" in headers else 0


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body once, and then what the server says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
