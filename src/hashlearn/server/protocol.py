"""HTTP as uvicorn speaks it, with limits for the head of a request: no application sees it before it is whole."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hashlearn.server.errors import error_body

_HEAD_BYTES = 64 * 1024
_REASONS = {408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Path and headers of a request must come within a time, and be at most 64 KiB."""

    def __init__(self, *args: Any, head_seconds: float, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._head_seconds = head_seconds
        self._head_bytes = 0
        self._in_head = True
        self._giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > _HEAD_BYTES:
            self._refuse(431, f"path and headers must be at most {_HEAD_BYTES} bytes")
        elif self._giving_up is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        message = f"path and headers must arrive within {self._head_seconds:g} seconds"
        self._giving_up = self.loop.call_later(self._head_seconds, self._refuse, 408, message)

    def _stop_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        body = error_body(message)
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % (status, _REASONS[status], len(body)) + body)
        self.transport.close()
