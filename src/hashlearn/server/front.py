"""Checks before the routes: host names, keys, the size of a request, its time, and the number of running requests.

Every request has a deadline, and the work for it checks the deadline (:mod:`hashlearn.deadline`). When a client gets an
answer 504, the work has ended.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hmac import compare_digest
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.deadline import Deadline, until
from hashlearn.server.errors import SOON, Problem, error_response, lack_of
from hashlearn.server.once import is_write
from hashlearn.server.settings import Settings, is_loopback
from hashlearn.server.workers import Workers, request_ends

ALWAYS_OPEN = frozenset({"/healthz", "/readyz"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_EXEMPT = ALWAYS_OPEN | {"/metrics"}
_DISCARDED = 256 * 1024 * 1024
"""Bytes of a too long body that are read and dropped: most clients send all of it before they read the answer."""
_CHUNK = 64 * 1024
"""Bytes of an answer that are given to the connection at a time. The next part waits until these are sent."""
_NAMES_KEPT = 64
_SHORT_BODY = 64 * 1024
_SECONDS_OF_A_PAUSE = 0.001


class Hosts:
    """ASGI middleware: a request must name this server, and one that may change something must come from its own pages.

    The owner of another site can let its name point to this machine (DNS rebinding). The browser then sends that name
    as the host, and is refused. An IP address cannot be redirected in this way, so a server that listens to other
    machines accepts all addresses as hosts.
    """

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app = app
        self.named = frozenset(name.lower() for name in settings.host_names)
        self.listens_beyond = not is_loopback(settings.host)
        self.own = settings.host.lower()
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in ALWAYS_OPEN:
            problem = self._problem(scope)
            if problem is not None:
                await problem_response(problem)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1 or (not hosts and scope["http_version"] != "1.0"):
            return Problem(400, "the request must have one header Host", "Host")
        host = hosts[0] if hosts else b"localhost"
        if host not in self._known:
            if not self._is_ours(_name_and_port(host.decode("latin-1"))[0]):
                message = "this server does not go by that name; start it with --host-name NAME to allow it"
                return Problem(421, message, "Host")
            if len(self._known) < _NAMES_KEPT:
                self._known.add(host)
        if scope["method"] not in _READING:
            for name, value in scope["headers"]:
                if name == b"origin" and not self._may_come_from(value.decode("latin-1"), host.decode("latin-1")):
                    return Problem(403, "requests of pages of other sites are refused", "Origin")
        return None

    def _is_ours(self, name: str) -> bool:
        if name in self.named or "*" in self.named or name in ("localhost", self.own):
            return True
        try:
            return ip_address(name).is_loopback or self.listens_beyond
        except ValueError:
            return False

    def _may_come_from(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            name, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError:
            return False
        default = {"http": 80, "https": 443}.get(parts.scheme)
        if default is None or not name:
            return False
        own_name, own_port = _name_and_port(host)
        same = name == own_name and (port or default) == (own_port or default)
        return same or name in self.named


def _name_and_port(host: str) -> tuple[str, int | None]:
    """Name and port of a header Host. The name is empty if the header is not valid."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return "", None
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "", None


class Auth:
    """ASGI middleware: a request without the required key is refused before its body is read.

    Programs send ``Authorization: Bearer KEY``. For pages, browsers ask for a name and a password; the password is the
    key.
    """

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app = app
        self.read_key = _as_bytes(settings.api_key)
        self.write_key = _as_bytes(settings.write_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS_OPEN:
            await self.app(scope, receive, send)
            return
        writes = is_write(scope["method"], scope["path"])
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


class _Left(Exception):
    """The client has gone."""


class RequestLimits:
    """ASGI middleware: reads the body of a request, counts its bytes, and gives it to the application in one piece.

    The server must make the answer within a time limit, and the client must read it within the same limit. Parts of the
    answer are given to the connection as fast as the client reads them.
    """

    def __init__(self, app: ASGIApp, workers: Workers):
        self.app = app
        self.workers = workers
        self.settings = workers.settings
        self.n_running = 0
        self.bodies = _RoomForBodies(workers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _EXEMPT:
            await self.app(scope, receive, send)
            return
        try:
            self._check_room()
            ends: list[Callable[[], None]] = []
            request_ends.set(ends)
            try:
                await self._within_time(scope, receive, send)
            finally:
                for end in ends:
                    end()
        except Problem as problem:
            if not scope["status"]:
                await problem_response(problem)(scope, receive, send)
        except _Left:
            pass

    def _check_room(self) -> None:
        self.workers.check_ready()
        if self.n_running >= self.settings.max_concurrency:
            message = f"the server answers {self.settings.max_concurrency} requests at a time and is busy"
            raise Problem(503, message, headers=SOON)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among the running requests. A request gets it when its body is complete: a body may never arrive."""
        self._check_room()
        self.n_running += 1
        try:
            yield
        finally:
            self.n_running -= 1

    async def _within_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = self.settings.timeout_seconds
        body, deadline, limit = _Body(self.bodies), Deadline(seconds), asyncio.timeout(seconds)
        self.workers.deadlines.add(deadline)
        try:
            async with limit:
                self.workers.limits[limit] = asyncio.get_running_loop()
                await body.read(scope, receive)
                body.check_length()
                with self._place(), until(deadline):
                    content = await body.joined()
                    await self.app(scope, _replay(content, receive), _in_parts(send, limit, seconds))
        except TimeoutError:
            if scope["status"]:  # the answer is under way, and the client does not read it
                scope["status"] = 499
                scope.get("abort", _nothing)()
                raise _Left from None
            body.check_length()
            if self.workers.is_stopping:
                raise Problem(503, "the server stops", headers=SOON | {"Connection": "close"}) from None
            if not body.is_read:
                message = f"the body must arrive within {seconds:g} seconds"
                raise Problem(408, message, headers={"Connection": "close"}) from None
            raise Problem(504, f"the request took longer than {seconds:g} seconds") from None
        except asyncio.CancelledError:
            if not self.workers.is_stopping:
                raise
            scope.get("abort", _nothing)()  # its work has not ended: nobody knows what was written
            scope.get("is_gone", _nothing)()
            raise _Left from None
        except (MemoryError, OSError) as error:
            problem = lack_of(error)
            if problem is None:
                raise
            raise problem from None
        finally:
            body.forget()
            self.workers.deadlines.discard(deadline)
            self.workers.limits.pop(limit, None)


def problem_response(problem: Problem) -> ASGIApp:
    """Answer with a problem."""
    return error_response(problem.status_code, problem.detail, problem.field, problem.headers)


def _in_parts(send: Send, limit: asyncio.Timeout, seconds: float) -> Send:
    """A ``send`` that gives a long body to the connection part by part, with a time limit of its own."""
    is_first = True

    async def send_parts(message: Message) -> None:
        nonlocal is_first
        body, more = message.get("body", b""), message.get("more_body", False)
        if is_first and (more or len(body) > _CHUNK) and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
            is_first = False
        if len(body) <= _CHUNK:
            await send(message)
            return
        view = memoryview(body)
        for start in range(0, len(view), _CHUNK):
            part = {"body": bytes(view[start : start + _CHUNK]), "more_body": more or start + _CHUNK < len(view)}
            await send({"type": "http.response.body", **part})

    return send_parts


def _nothing() -> None:
    """Does nothing: used where there is no connection."""


class _RoomForBodies:
    """Counts the bytes of all bodies in memory. Short bodies are always accepted."""

    def __init__(self, workers: Workers):
        settings = workers.settings
        self.longest, self.most = settings.max_body_bytes, settings.max_body_bytes * settings.max_concurrency
        self.n_bytes = 0
        self._workers, self._turns, self._n_others = workers, workers.turns, workers.turns.n_others
        self._pausing, self._joining = asyncio.Lock(), asyncio.Lock()

    async def pause(self) -> None:
        """Pause between two parts of long bodies, so that other requests are answered."""
        async with self._pausing:
            if self._turns.n_others > self._n_others:
                self._n_others = self._turns.n_others
                await asyncio.sleep(_SECONDS_OF_A_PAUSE)

    def take(self, n_bytes: int, is_short: bool) -> None:
        if not is_short and self.n_bytes + n_bytes > self.most:
            raise Problem(503, "the server holds as many bodies as it can", headers=SOON)
        self.n_bytes += n_bytes

    async def joined(self, parts: list[bytes]) -> bytes:
        """The parts of a long body as one, on a thread: other requests would wait for milliseconds."""
        async with self._joining:  # one is in memory twice
            return await self._workers.run(b"".join, parts, pool=self._workers.writing)


class _Body:
    """The body of a request; its bytes are counted while they arrive, and a too long body is dropped.

    Its parts are joined when all are there. An array that grows would be copied many times, megabytes at a time.
    """

    def __init__(self, room: _RoomForBodies):
        self.room, self.parts = room, list[bytes]()
        self.n_bytes = self.n_kept = 0
        self.is_read = False

    async def read(self, scope: Scope, receive: Receive) -> None:
        if _length_expected(scope) > self.room.longest:
            # Clients that send "Expect: 100-continue" wait for this refusal and never send the body.
            self.n_bytes = self.room.longest + 1
            return
        while not self.is_read and self.n_bytes <= _DISCARDED:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Left
            self._add(message.get("body", b""))
            self.is_read = not message.get("more_body", False)
            if self.n_bytes > _SHORT_BODY and not self.is_read:
                await self.room.pause()

    def check_length(self) -> None:
        if self.n_bytes > self.room.longest:
            raise Problem(413, f"the body must be at most {self.room.longest} bytes")

    async def joined(self) -> bytes:
        """The whole body."""
        if len(self.parts) > 1:
            is_short = self.n_bytes <= _SHORT_BODY
            self.parts = [b"".join(self.parts) if is_short else await self.room.joined(self.parts)]
        return self.parts[0] if self.parts else b""

    def _add(self, part: bytes) -> None:
        self.n_bytes += len(part)
        if self.n_bytes <= self.room.longest:
            self.room.take(len(part), self.n_bytes <= _SHORT_BODY)
            self.n_kept += len(part)
            self.parts.append(part)
        else:
            self.forget()

    def forget(self) -> None:
        """Drop the body, and give its room back."""
        self.parts = []
        self.room.n_bytes -= self.n_kept
        self.n_kept = 0


def _length_expected(scope: Scope) -> int:
    """Length of a body that is sent only after our consent (``Expect: 100-continue``); otherwise 0."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"").lstrip(b"0")  # Python reads at most 4,300 digits
    return int(length or 0) if b"expect" in headers else 0


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body once, and then the messages of the server."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
