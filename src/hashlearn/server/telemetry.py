"""Outermost: every request gets a number, is counted, timed and logged, and no fault of ours ends without an answer."""

import itertools
import os
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.server.errors import fault_response
from hashlearn.server.logs import log_error, log_request
from hashlearn.server.metrics import Metrics

_UNKNOWN = "unknown"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class Telemetry:
    """ASGI middleware; the number of a request is in the header ``X-Request-ID`` of its answer, and in the log.

    ``scope["status"]`` is the status of the answer once it is under way, and 0 before.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self.app = app
        self.metrics = metrics
        self.process = os.urandom(4).hex()
        self.numbers = itertools.count(1)
        self.n_running = 0
        metrics.running.set_function(lambda: self.n_running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        number = scope["request_id"] = f"{self.process}-{next(self.numbers)}"
        scope["status"] = 0

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["status"] = message["status"]
                message["headers"].append((b"x-request-id", number.encode()))
            await send(message)

        self.n_running += 1
        try:
            await self.app(scope, receive, noted)
        except Exception as error:
            log_error(scope, error)
            if not scope["status"]:
                await fault_response()(scope, receive, noted)
        finally:
            self.n_running -= 1
            self._note(scope, scope["status"], time.perf_counter() - start)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        # The pattern of the path, not the path: what clients make up must not become labels.
        route = getattr(scope.get("route"), "path_format", _UNKNOWN)
        method = scope["method"] if scope["method"] in _METHODS else _UNKNOWN
        self.metrics.count_request(route, method, status, seconds)
        log_request(
            request=scope["request_id"],
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(1000 * seconds, 3),
        )
