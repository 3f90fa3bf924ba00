"""Logs and metrics for operators: a JSON line for each request and event, counts for Prometheus, ids of requests."""

import itertools
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic_core import to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import fault_response
from hashlearn.upkeep.drift import DriftReport
from hashlearn.upkeep.recall import RecallEstimate

LOGGER = logging.getLogger("hashlearn.server")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; fields of its own come as ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": f"{_second(int(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return to_json(told).decode()


@lru_cache(1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def log_to_stderr(level: str = "info") -> None:
    """Send the lines of this package, of uvicorn and of asyncio to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("hashlearn.server", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    LOGGER.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel("WARNING")


class _Answered(logging.LogRecord):
    """The record of a request, without line of code and thread: finding these takes longer than everything else."""

    def __init__(self, fields: dict[str, Any]):
        self.fields = fields
        self.created = time.time()
        self.msecs = 1000 * (self.created % 1)

    name, msg, args = LOGGER.name, "request", ()
    levelno, levelname = logging.INFO, "INFO"
    pathname, filename, module, lineno, funcName = __file__, "logs.py", "logs", 0, "log_request"
    exc_info = exc_text = stack_info = None
    process = thread = relativeCreated = 0
    processName = threadName = taskName = ""


def log_request(**fields: Any) -> None:
    """Log an answered request."""
    if LOGGER.isEnabledFor(logging.INFO):
        LOGGER.handle(_Answered(fields))


def log_event(event: str, **fields: Any) -> None:
    """Log an event of the server."""
    LOGGER.info(event, extra={"fields": fields})


def log_warning(message: Warning | str, category: type[Warning], *place: Any, **named: Any) -> None:
    """Log a warning of Python in one line of JSON, as all events."""
    LOGGER.warning("a warning of Python", extra={"fields": {"kind": category.__name__, "message": str(message)}})


def log_error(scope: MutableMapping[str, Any], error: Exception) -> None:
    """Log the traceback of an internal error, and the request that caused it."""
    fields = {"method": scope.get("method"), "path": scope.get("path"), "request": scope.get("request_id")}
    LOGGER.error("fault", extra={"fields": fields}, exc_info=error)


_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counts of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "hashlearn_requests", "Requests answered.", ["route", "method", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "hashlearn_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.running = Gauge("hashlearn_requests_running", "Requests being answered.", registry=self.registry)
        self.rows = Gauge("hashlearn_rows", "Rows of the search.", registry=self.registry)
        self.searched_together = Histogram(
            "hashlearn_queries_together", "Queries searched in one go.", buckets=_SIZES, registry=self.registry
        )
        self.saved_together = Histogram(
            "hashlearn_writes_together", "Writes made durable in one go.", buckets=_SIZES, registry=self.registry
        )

        self.stage_seconds = Histogram(
            "hashlearn_stage_seconds",
            "Time of a part of a search: waiting for a thread, searching, writing the answer.",
            ["stage"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.stages = {stage: self.stage_seconds.labels(stage) for stage in ("wait", "search", "write")}
        self._recall = Gauge(
            "hashlearn_recall",
            "Share of the true neighbors that queries found, and its interval.",
            ["search", "bound"],
            registry=self.registry,
        )
        self._recall_queries = Gauge(
            "hashlearn_recall_queries", "Queries that the recall is of.", ["search"], registry=self.registry
        )
        self._drift = Gauge(
            "hashlearn_drift",
            "How new rows differ from those that were there: bits, novelty, error, and whether that is much.",
            ["search", "of"],
            registry=self.registry,
        )

        self._list_rows = Gauge(
            "hashlearn_list_rows", "Rows of a list of the index.", ["search", "of"], registry=self.registry
        )
        self._clipped = Gauge(
            "hashlearn_clipped_share",
            "Share of the kept int8 values that were beyond the range of the fit.",
            ["search"],
            registry=self.registry,
        )
        self._of_request: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        key = (route, method, status)
        if key not in self._of_request:  # looking up labels costs more than counting
            self._of_request[key] = self.requests.labels(*key), self.seconds.labels(route)
        requests, times = self._of_request[key]
        requests.inc()
        times.observe(seconds)

    def tell_recall(self, search: str, estimate: RecallEstimate) -> None:
        """Set the recall of a search."""
        for bound, value in (("mean", estimate.recall), ("low", estimate.low), ("high", estimate.high)):
            self._recall.labels(search, bound).set(value)
        self._recall_queries.labels(search).set(estimate.n_queries)

    def tell_drift(self, search: str, report: DriftReport) -> None:
        """Set the drift of a search: how its new rows differ from the old ones."""
        told = {"bits": report.shares, "novelty": report.novelty, "error": report.error, "large": report.is_large}
        for of, value in told.items():
            if value is not None:
                self._drift.labels(search, of).set(value)

    def tell_storage(self, name: str, search: SimilaritySearch) -> None:
        """Set the sizes of the lists of a search and the share of clipped int8 values, if it has these."""
        sizes = search.list_sizes
        if sizes is not None:
            for of, value in (("mean", sizes.mean()), ("largest", sizes.max())):
                self._list_rows.labels(name, of).set(value)
        if search.clipped_share is not None:
            self._clipped.labels(name).set(search.clipped_share)

    def stage_milliseconds(self) -> dict[str, float]:
        """The mean time of each part of a search; empty before the first search."""
        (family,) = self.stage_seconds.collect()
        found: dict[str, dict[str, float]] = {}
        for sample in family.samples:
            found.setdefault(sample.labels["stage"], {})[sample.name.rpartition("_")[2]] = sample.value
        return {stage: 1000 * of["sum"] / of["count"] for stage, of in found.items() if of.get("count")}

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)


_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_UNKNOWN = "unknown"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


def _is_there() -> bool:
    """Always false: used where there is no connection."""
    return False


def _id_sent(scope: Scope) -> str | None:
    """The id that a client or a proxy gave to a request, if it is safe in a log."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return None


class Telemetry:
    """ASGI middleware; the id of a request is in the header ``X-Request-ID`` of its answer, and in the log.

    ``scope["status"]`` is the status of the answer once its first part was sent, and 0 before.
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
        number = scope["request_id"] = _id_sent(scope) or f"{self.process}-{next(self.numbers)}"
        scope["status"] = 0

        is_gone = scope.get("is_gone", _is_there)

        async def noted(message: Message) -> None:
            if is_gone():  # the client has closed the connection
                scope["status"] = 499
                return
            if message["type"] == "http.response.start":
                scope["status"] = message["status"]
                headers = message["headers"]
                headers.append((b"x-request-id", number.encode()))
                if _NO_SNIFFING not in headers:
                    headers.append(_NO_SNIFFING)
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
        # The pattern of the path and not the path: texts of clients must not become labels.
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
