"""Writes: those that wait at the same time are one transaction, and on disk before they are answered."""

from collections.abc import Callable, Hashable
from typing import Any

from hashlearn.search import SimilaritySearch
from hashlearn.server.errors import Problem, problem_of
from hashlearn.server.logs import LOGGER, log_event

Change = Callable[[], Any]
"""Changes the search; returns what the client is told."""

_FIELDS = {"ids": "points.id", "payloads": "points.payload", "X": "points.vector"}


def write_together(search: SimilaritySearch, kind: Hashable, changes: list[Change]) -> list[Any]:
    """Make changes in one transaction: a result for each, or the exception that its request ends with.

    A request that is refused changes nothing, and neither do all of them where the transaction fails.
    """
    if search.store is not None:  # every change is in the database when it returns
        return [_result_or_error(change) for change in changes]
    results: list[Any] = []
    try:
        with search.transaction():
            results = [_result_or_error(change) for change in changes]
    except Exception as error:
        LOGGER.error("a write could not be saved", exc_info=error)
        refused = Problem(503, "the write could not be saved; nothing was changed")
        return [result if isinstance(result, Exception) else refused for result in results] or [refused] * len(changes)
    return results


def take_over(search: SimilaritySearch) -> None:
    """Read what another process has changed."""
    try:
        if (search.folder is not None or search.store is not None) and search.refresh():
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
