"""Writes: one after the other, and on disk before they are answered."""

from collections.abc import Callable, Hashable
from typing import Any

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import Problem, problem_of
from hashlearn.server.logs import LOGGER, log_event

Change = Callable[[], Any]
"""Changes the search in memory; returns what the client is told."""

_FIELDS = {"ids": "points.id", "payloads": "points.payload", "X": "points.vector"}


def write_together(search: SimilaritySearch, kind: Hashable, changes: list[Change]) -> list[Any]:
    """Make changes, then save them at once: a result for each, or the exception that its request ends with."""
    take_over(search)
    results = [_result_or_error(change) for change in changes]
    if all(isinstance(result, Exception) for result in results):
        return results
    try:
        if search.store is None:  # otherwise the changes are in the database already
            search.save()
    except Exception as error:
        LOGGER.error("a write could not be saved", exc_info=error)
        unsaved = Problem(503, "the write could not be saved; it may be gone when the server starts again")
        return [result if isinstance(result, Exception) else unsaved for result in results]
    return results


def take_over(search: SimilaritySearch) -> None:
    """Read what another process has saved."""
    try:
        if search.folder is not None and search.refresh():
            log_event("refreshed", rows=len(search))
    except (OSError, ValueError) as error:
        LOGGER.error("what another process saved could not be read", exc_info=error)


def _result_or_error(change: Change) -> Any:
    try:
        return change()
    except (ValueError, TypeError) as error:
        return problem_of(error, _FIELDS) or error
    except Exception as error:
        return error
