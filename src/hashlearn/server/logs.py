"""One JSON object a line: for a request, for an event of the server, and for a fault of ours with its traceback."""

import logging
import sys
import time
import traceback
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

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
    """Send the lines of this package and of uvicorn to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("hashlearn.server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    LOGGER.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel("WARNING")


class _Answered(logging.LogRecord):
    """The record of a request: without the line of code and the thread, which take longer to find than all the rest."""

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
    """Say that a request was answered."""
    if LOGGER.isEnabledFor(logging.INFO):
        LOGGER.handle(_Answered(fields))


def log_event(event: str, **fields: Any) -> None:
    """Say that something happened to the server."""
    LOGGER.info(event, extra={"fields": fields})


def log_error(scope: MutableMapping[str, Any], error: Exception) -> None:
    """Keep the traceback of a fault of ours, and the request that it came from."""
    fields = {"method": scope.get("method"), "path": scope.get("path"), "request": scope.get("request_id")}
    LOGGER.error("fault", extra={"fields": fields}, exc_info=error)
