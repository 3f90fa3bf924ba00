"""Ids that users give to the rows of a search: integers or strings, one kind in a search."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.code_table import ids_from
from hashlearn.search.row_columns import Names
from hashlearn.search.state import IdType, State
from hashlearn.stores.arguments import check_ids, check_new_ids

_KINDS = {"int64": "integers", "str": "strings"}


def ids_to_find(ids: Any, state: State) -> NDArray[Any]:
    """Ids as an array of the kind that the rows have."""
    return check_ids(ids, _checked_type(ids, state))


def ids_to_put(ids: Any, state: State, n: int) -> tuple[State, NDArray[Any]]:
    """The state, made for ids of the kind given where it has no rows, and the n ids as an array."""
    id_type = _checked_type(ids, state)
    if id_type != state.id_type:
        state = replace(state, names=Names.empty() if id_type == "str" else None)
    return state, check_new_ids(ids, id_type, n)


def running_ids(state: State, n: int) -> NDArray[np.int64]:
    """The next n integers."""
    if state.names is not None:
        raise ValueError("ids must be given: those of this search are strings")
    return ids_from(state.index.next_id, n)


def _checked_type(ids: Any, state: State) -> IdType:
    """The kind of the ids; raises where it is not that of the rows. No ids are of any kind."""
    if not isinstance(ids, (list, tuple, np.ndarray)) or not len(ids):
        return state.id_type
    given: IdType = "str" if isinstance(ids[0], str) else "int64"
    if len(state) and given != state.id_type:
        raise TypeError(f"ids must be {_KINDS[state.id_type]}, as those of this search, got {_KINDS[given]}")
    return given
