"""Errors as clients see them: one JSON form, one line, nothing about this machine.

``{"error": {"field": "k", "message": "k must be at most 1000, got 5000"}}``. ``field`` is null where the fault is not
in one field.
"""

import errno
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

SOON = {"Retry-After": "1"}
_LONGEST, _LONGEST_NAME = 300, 200
_MOST_LISTED = 100
_MESSAGES = {404: "there is no such page", 405: "this page does not know the method"}
_WORDS = {
    "extra_forbidden": "is not a field of this request",
    "missing": "is missing",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
_ARGUMENT = re.compile(r"(?P<argument>\w+)(?P<rest>.*)")
_TAG = re.compile(r"\W|^(str|int|float|bytes|bool|json|function)$")


def written(answer: Any) -> bytes:
    """A value as JSON. Call it on the thread that made a large value: its objects are in the cache of that core."""
    return to_json(answer, inf_nan_mode="null")


class Problem(HTTPException):
    """An error as an answer: what is wrong with the request, or why the server cannot take it."""

    def __init__(self, status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None):
        super().__init__(status, message[:_LONGEST], headers)
        self.field = field


def unprocessable(field: str, message: str) -> Problem:
    """A 422 that names the field."""
    return Problem(422, f"{field} {message}", field)


def error_body(message: str, field: str | None = None) -> bytes:
    """The body of every answer that is an error."""
    return to_json({"error": {"field": field, "message": message}})


def error_response(
    status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer to a request that failed."""
    return Response(error_body(message, field), status, headers, "application/json")


def invalid(error: ValidationError | RequestValidationError) -> Problem:
    """The first complaint of pydantic as a 422. To list very many takes long, and no other request is served then."""
    if isinstance(error, ValidationError) and error.error_count() > _MOST_LISTED:
        return Problem(422, f"the body has {error.error_count():,} mistakes, such as fields that no request has")
    return _of_details(list(error.errors()))


def problem_of(error: ValueError | TypeError, arguments: dict[str, str]) -> Problem | None:
    """The answer to an error of the library, if the error is about an argument that a client sent.

    Parameters
    ----------
    error : ValueError or TypeError
        Its first word is the name of the argument, as in all errors of our checks.
    arguments : dict
        Field of the request by argument of the library.

    Returns
    -------
    Problem or None
        None if the error is about something else: its text may contain facts that clients must not see.
    """
    line = _ARGUMENT.match(str(error))
    if line is None or line["argument"] not in arguments:
        return None
    field = arguments[line["argument"]]
    return Problem(422, field + line["rest"], field)


def lack_of(error: BaseException) -> Problem | None:
    """The answer if the server has no memory or no file descriptors left; None for all other errors."""
    if isinstance(error, MemoryError):
        return Problem(503, "the server has no memory for this", headers=SOON)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Problem(503, "the server has too many files open", headers=SOON)
    return None


def add_error_handlers(app: FastAPI) -> None:
    """Answer all errors in this form; :class:`~hashlearn.server.telemetry.Telemetry` logs internal errors."""
    app.add_exception_handler(Exception, _of_fault)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(MemoryError, _of_lack)
    app.add_exception_handler(OSError, _of_lack)


def fault_response() -> Response:
    """The answer to an internal error."""
    return error_response(500, "internal error; the log of the server has more")


async def _of_fault(request: Request, error: Exception) -> Response:
    return fault_response()


async def _of_lack(request: Request, error: Exception) -> Response:
    problem = lack_of(error)
    if problem is None:
        raise error
    return await _of_http(request, problem)


async def _of_http(request: Request, error: Any) -> Response:
    if isinstance(error, Problem):
        return error_response(error.status_code, error.detail, error.field, error.headers)
    message = _MESSAGES.get(error.status_code, "the request cannot be understood")
    return error_response(error.status_code, message, headers=error.headers)


async def _of_validation(request: Request, error: Any) -> Response:
    return await _of_http(request, invalid(error))


def _of_details(every: Sequence[ErrorDetails | dict[str, Any]]) -> Problem:
    first, field = every[0], _field(every[0]["loc"])
    if first["type"] == "json_invalid":
        return Problem(422, "the body must be JSON")
    if first["type"] == "extra_forbidden":  # a client may have called it anything
        field = ".".join(map(str, first["loc"]))[:_LONGEST_NAME]
    # One for each type that the field may have; about the type that was sent, another fault is told.
    same = [each for each in every if _field(each["loc"]) == field] or [first]
    told = next((each for each in same if not each["type"].endswith("_type")), None)
    messages = dict.fromkeys(map(_message, same if told is None else [told]))
    message = " or ".join(messages).replace(" or must be a valid ", " or ")
    return Problem(422, f"{field or 'the body'} {message}", field)


def _message(details: ErrorDetails | dict[str, Any]) -> str:
    return _WORDS.get(details["type"]) or re.sub("^(Input|String) should", "must", details["msg"])


def _field(location: tuple[str | int, ...]) -> str | None:
    """``points.3.vector`` for a location of pydantic, without pydantic's names for the branches of a union."""
    parts = [str(part) for part in location if isinstance(part, int) or not _TAG.search(part)]
    return ".".join(parts)[:_LONGEST] or None
