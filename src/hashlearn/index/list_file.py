"""The file of a partitioned index."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.codes import bytes_per_code
from hashlearn.durable.files import replacing
from hashlearn.index.base import MAX_BITS
from hashlearn.index.file import Sections, read_sections, write_sections
from hashlearn.index.frontier import Frontier
from hashlearn.index.kernels.lists import KEY_SHIFT
from hashlearn.index.kernels.simd import TILE
from hashlearn.index.list_search import ListState
from hashlearn.index.list_table import ListArrays, ListTable, tiles_of
from hashlearn.index.partition import METRICS, Partition

MAGIC = b"HLLISTS\n"
VERSION = 2

_READ_LATER = ("tiles", "rows")
_ARRAYS_OF_PARTITION = ("centers", "words", "directions", "shrinkage", "weights")


def write_lists(state: ListState, path: str | Path) -> None:
    """Write lists one behind the other, without removed rows; an earlier file stays whole until the new one is."""
    if state.file is not None:
        state.file.expect_all()
    partition = state.partition
    table = state.table.compacted() if state.table.n_removed or _is_scattered(state.table) else state.table
    sections: dict[str, NDArray] = dict(partition.arrays)
    sections |= {name: getattr(table.lists, name) for name in ("sizes", "offsets", "scales")}
    if table.removed is not None:
        sections["removed"] = table.removed
    n_places = table.n_used * TILE
    sections["tiles"] = table.tiles[: n_places * (table.n_bytes + 1)]
    sections["rows"] = table.rows[:n_places]
    if state.frontier is not None:
        sections |= state.frontier.sections
    header = {"n_bits": partition.n_bits, "metric": partition.metric, "next_row": table.next_row, "tile": TILE}
    with replacing(path) as (beside,), beside.open("wb") as out:
        write_sections(out, MAGIC, VERSION, header, sections)


def mapped_lists(path: str | Path) -> ListState:
    """The lists of a file, mapped; ValueError where the file is damaged or of another kind."""
    file = read_sections(path, MAGIC, VERSION, "a partitioned index", _READ_LATER, {}, in_parts=True)
    try:
        return _state_of(file)
    except KeyError as missing:
        raise ValueError(f"{path}: the file says no {missing}") from None
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{path}: {wrong}") from None


def _is_scattered(table: ListTable) -> bool:
    """Do lists stand elsewhere than one behind the other in their order?"""
    room = tiles_of(table.lists.sizes)
    return not np.array_equal(table.lists.first_tiles, np.cumsum(room) - room)


def _state_of(file: Sections) -> ListState:
    """Raises where the parts of the file contradict each other."""
    said: dict[str, Any] = file.header
    arrays = file.arrays
    n_bits = check_integer("n_bits", said["n_bits"], low=1, high=MAX_BITS)
    metric = check_choice("metric", said["metric"], METRICS)
    next_row = check_integer("next_row", said["next_row"], low=0, high=1 << KEY_SHIFT)
    names = (*_ARRAYS_OF_PARTITION, *({"groups", "origin"} & arrays.keys()))
    partition = Partition(metric, n_bits, {name: arrays[name] for name in names})
    n_lists, d = partition.centers.shape
    n_bytes = bytes_per_code(n_bits)
    sizes = arrays["sizes"].astype(np.int64)
    if said["tile"] != TILE or partition.words.shape not in ((n_bits, d), (4 * n_bits, d)) or len(sizes) != n_lists:
        raise ValueError("lists are laid out in a way this hashlearn does not know")
    room = tiles_of(sizes)
    n_places = int(room.sum()) * TILE
    if (sizes < 0).any() or arrays["tiles"].size != n_places * (n_bytes + 1) or arrays["rows"].size != n_places:
        raise ValueError("codes or rows are not as many as the lists say")
    lists = ListArrays(np.cumsum(room) - room, room, sizes, arrays["offsets"].copy(), arrays["scales"].copy())
    removed = arrays["removed"].copy() if "removed" in arrays else None
    n_used = int(room.sum())
    table = ListTable(n_bytes, arrays["tiles"], arrays["rows"], lists, n_used, next_row, removed, 0)
    return ListState.of(partition, table, Frontier.read(arrays, n_lists, d), file)
