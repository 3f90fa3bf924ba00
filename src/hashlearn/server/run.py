"""Run an application until a signal stops it: uvicorn's HTTP, with limits for the head of a request."""

import asyncio
import errno
import gc
import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hashlearn.server.errors import error_body
from hashlearn.server.telemetry import log_event, log_to_stderr, log_warning
from hashlearn.server.workers import Workers

_HEAD_BYTES = 64 * 1024
_UPGRADE = re.compile(rb"(?i)\r\nupgrade(?=[ \t]*:)")
_NO_UPGRADE = b"\r\nrefused"
"""A server may ignore a request for another protocol. The parser would treat the body of such a request, which clients
in Java and curl send, as data of that protocol."""
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Path and headers of a request must come within a time, and be at most 64 KiB.

    A refusal is sent after the answers to earlier requests.
    """

    def __init__(self, *args: Any, head_seconds: float, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._head_seconds = head_seconds
        self._head_bytes = self._parsed_bytes = 0
        self._in_head, self._has_begun = True, False
        self._giving_up: asyncio.TimerHandle | None = None
        self._refusal: tuple[int, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._refusal is not None:  # data that a client sends after a refusal
            return
        if self._in_head:
            if not self._has_begun and not data.strip(b"\r\n"):  # keeps no connection open
                return
            n = min(len(data), _head_length(data))
            self._head_bytes += n
            if self._head_bytes > _HEAD_BYTES:
                self._refuse(431, f"path and headers must be at most {_HEAD_BYTES} bytes")
                return
            if b"pgrade" in data or b"PGRADE" in data:
                data = _UPGRADE.sub(_NO_UPGRADE, data[:n]) + data[n:]
        super().data_received(data)
        if self._has_begun and self._giving_up is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun, self._parsed_bytes = True, 0
        self.scope["abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    def on_url(self, url: bytes) -> None:
        self._count_parsed(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_parsed(len(name) + len(value) + 4)
        if self._in_head:  # data after a body is no header
            super().on_header(name, value)

    def _count_parsed(self, n: int) -> None:
        self._parsed_bytes += n
        if self._parsed_bytes > _HEAD_BYTES:  # of a request that followed another one
            self._refuse(431, f"path and headers must be at most {_HEAD_BYTES} bytes")
            raise ValueError("refused")

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "the request is no HTTP that can be understood")

    def on_headers_complete(self) -> None:
        self._in_head, self._has_begun, self._head_bytes = False, False, 0
        self._stop_waiting()
        if b"://" in self.url.partition(b"?")[0]:  # a whole URL names the host, and overrides the header
            self.headers[:] = [header for header in self.headers if header[0] != b"host"]
            self.headers.append((b"host", urlsplit(self.url).netloc))
        super().on_headers_complete()
        self.scope["is_gone"] = partial(self._is_gone, self.cycle)  # type: ignore[typeddict-unknown-key]

    def _is_gone(self, cycle: RequestResponseCycle) -> bool:
        """Whether the client has closed the connection; uvicorn notices it one round of the event loop later."""
        if self.transport.is_closing():
            cycle.disconnected = True
        return cycle.disconnected

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refusal is not None:
            self._refuse(*self._refusal)
        elif self._has_unread_body() and self._giving_up is None:  # who goes on sending it keeps no connection open
            self._wait_for_head()

    def _has_unread_body(self) -> bool:
        """Whether a request was answered whose body is still on its way."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body

    def _is_answering(self) -> bool:
        """Whether a complete request still waits for its answer, or for the rest of the answer."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and bool(self.pipeline or not cycle.more_body)

    def _wait_for_head(self) -> None:
        self._giving_up = self.loop.call_later(self._head_seconds, self._end_wait)

    def _end_wait(self) -> None:
        if self._is_answering():  # the answer takes long, not the request
            self._wait_for_head()
        elif self._has_unread_body():
            self.transport.close()
        else:
            self._refuse(408, f"path and headers must arrive within {self._head_seconds:g} seconds")

    def _stop_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        if self._is_answering():
            self._refusal = self._refusal or (status, message)
            return
        body = error_body(message)
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % (status, _REASONS[status], len(body)) + body)
        self.transport.close()


_HANG_UP = getattr(signal, "SIGHUP", None)
"""A closed terminal ends a server like SIGTERM. Windows has no such signal."""
_KEEP_ALIVE_SECONDS = 75
_SECONDS_TO_ANSWER, _SECONDS_TO_END = 6, 9
"""Seconds after the signal: when running requests are given up, and when the process is ended in any case."""
_SWITCH_SECONDS = 0.0001
"""How long a thread may keep the interpreter while another one waits. All answers wait meanwhile."""
_NEW_OBJECTS = 50_000
"""Python's garbage collector runs after this many allocations. With the default of 700, reading a long list would take
ten times as long."""


def _head_length(data: bytes) -> int:
    """Number of bytes that belong to path and headers, in data that begins with them."""
    end = data.find(b"\r\n\r\n")
    return len(data) if end < 0 else end


def run_server(
    app: FastAPI,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_listening: Callable[[str], None] | None = None,
    log_level: str = "info",
    reuse_port: bool = False,
) -> None:
    """Serve an application until SIGTERM or SIGINT; then requests that run have 6 seconds to be answered.

    Within 10 seconds the process ends, whatever runs: a write is made as a whole or not at all.

    Parameters
    ----------
    app : FastAPI
        The result of :func:`~hashlearn.server.create_app`.
    host : str
        Name or address to listen at.
    port : int
        0 takes any free port.
    on_listening : callable or None
        Gets the URL, once the server has the port.
    log_level : {"info", "warning"}
        Whether each request is logged, or only errors.
    reuse_port : bool
        Whether another server with this setting may listen at the same port, such as the successor of this one.
    """
    listening = bind(host, port, reuse_port)
    log_to_stderr(log_level)
    url = _url(host, listening.getsockname()[1])
    log_event("listening", url=url)
    listening.listen()  # before the URL is known: a client that asks at once waits, and is not refused
    if on_listening is not None:
        on_listening(url)
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(_NEW_OBJECTS)
    settings = app.state.workers.settings
    config = uvicorn.Config(
        app,
        http=partial(BoundedProtocol, head_seconds=settings.timeout_seconds),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SECONDS_TO_ANSWER + 1,
    )
    server = _Server(config, app.state.workers)
    # Requests have a thread each; threads of BLAS would only take cores from them.
    with server.ended_by_signals(), threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        # Python keeps the text of each warning. Clients can make any number of texts (filters by unknown fields).
        warnings.simplefilter("ignore", UserWarning)
        warnings.showwarning = log_warning
        server.run(sockets=[listening])
    log_event("stopped")


class _Server(uvicorn.Server):
    """uvicorn's server; it ends within a fixed time after the signal."""

    def __init__(self, config: uvicorn.Config, workers: Workers):
        super().__init__(config)
        self._timers = [
            threading.Timer(_SECONDS_TO_ANSWER, workers.give_up),
            threading.Timer(_SECONDS_TO_END, _end_now),
        ]
        self._n_signals = count()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not next(self._n_signals):  # a further signal may come before this call ends, and is handled inside of it
            for timer in self._timers:
                timer.daemon = True
                timer.start()
        super().handle_exit(sig, frame)

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """Signals end the server and not the process. uvicorn sends them on when it has stopped; this is no failure."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
        if _HANG_UP is not None and signal.getsignal(_HANG_UP) == signal.SIG_DFL:  # not where nohup ignores it
            before[_HANG_UP] = signal.signal(_HANG_UP, self.handle_exit)
        try:
            yield
        finally:
            for timer in self._timers:
                timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)


def _end_now() -> None:
    """End the process at once, as a kill would. Every write that was answered is on disk."""
    log_event("stopped by force")
    os._exit(1)


def bind(host: str, port: int, reuse_port: bool = False) -> socket.socket:
    """A socket at an address, or a ValueError of one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ValueError(f"host must be a name or an address of this machine, got {host!r}") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse_port:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ValueError(_why_not_bound(error, host, port)) from None
    return listening


def _why_not_bound(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port must be free, got {port}, which another program uses at {host}"
    if error.errno == errno.EACCES:
        return f"port must be one that you may use, got {port}; take one above 1023"
    return f"host must be an address of this machine, got {host!r}"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
