"""The file of an index: written beside and renamed, memory-mapped on opening, refused if it is not whole.

A file of named arrays (:mod:`hashlearn.index.sections`), of version 3. It begins with ``HLINDEX`` and a line feed.

===============  =======================================================================================================
section          content
===============  =======================================================================================================
``front``        the first words of the codes (see :mod:`hashlearn.index.kernels.tiles`)
``back``         their other words
``ids``          int64, ascending; missing where the ids are 0, 1, 2, ...
``corrections``  one byte for every code, where the index has them
===============  =======================================================================================================

===================  ===================================================================================================
key of the header    value
===================  ===================================================================================================
``n_bits``           bits of a code
``bit_order``        ``"big"``: the first bit of a code is the most significant of its first byte
``n_codes``          number of codes
``next_id``          the id that the next code gets if none is given
``word_bytes``       bytes of a word: 1, 2, 4 or 8
``n_words``          words of a code
``n_front``          words of a code that are in ``front``
``tile``             codes of a tile: 64
``metadata``         an object: ``model``, the digest of the model that made the codes, and ``corrections``,
                     ``[scale, offset]``, where they are known; a correction is ``offset + scale * byte``
===================  ===================================================================================================

A section is whole tiles: ids and corrections, too, have room for a multiple of 64 codes. Opening reads the header, and
checks it and the file's size, in a time that does not depend on the number of codes; the checksums of the sections are
compared before they are first used.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.index.code_table import CodeTable, Once, Segment
from hashlearn.index.kernels.tiles import TILE, Layout, Tiles, byte_layout, n_tiles, word_layout
from hashlearn.index.sections import Sections, read_sections, write_sections

MAGIC = b"HLINDEX\n"
VERSION = 3


def write_table(table: CodeTable, path: str | Path) -> None:
    """Write an index's codes so that ``path`` holds, whatever happens, either the old file or the new one."""
    table = table.compacted()
    layout = table.layout
    header = {
        "n_bits": table.n_bits,
        "bit_order": "big",
        "n_codes": len(table),
        "next_id": table.next_id,
        "word_bytes": layout.dtype.itemsize,
        "n_words": layout.n_words,
        "n_front": layout.n_front,
        "tile": TILE,
        "metadata": dict(table.metadata),
    }
    widths = _widths(layout)
    arrays = {name: _pieces(array, widths[name], len(table)) for name, array in _arrays_of(table).items()}
    write_sections(path, MAGIC, VERSION, header, arrays)


def read_table(path: str | Path) -> CodeTable:
    """Map a file into memory as the codes of an index; nothing is read but the header."""
    sections = read_sections(path, MAGIC, VERSION, "an index file", on_demand=("front", "back", "ids", "corrections"))
    try:
        return _table(sections)
    except KeyError as missing:
        raise ValueError(f"{path}: the header says no {missing}") from None
    except (AttributeError, TypeError, ValueError) as wrong:
        raise ValueError(f"{path}: {wrong}") from None


def _table(sections: Sections) -> CodeTable:
    """The codes of a file; raises if the header contradicts itself."""
    said, arrays = sections.header, sections.arrays
    n_bits = check_integer("n_bits", said["n_bits"], low=1)
    n = check_integer("n_codes", said["n_codes"], low=0)
    next_id = check_integer("next_id", said["next_id"], low=0)
    layout = _layout(n_bits, said)
    dtypes = {"front": layout.dtype, "back": layout.dtype, "ids": np.dtype(np.int64), "corrections": np.dtype(np.uint8)}
    widths = _widths(layout)
    for name, array in arrays.items():
        if name not in widths or array.dtype != dtypes[name] or array.shape != (n_tiles(n) * TILE * widths[name],):
            raise ValueError(f"the section {name!r} is not as long as it has to be, or not known")
    corrected, metadata = "corrections" in arrays, dict(said.get("metadata", {}))
    if not n:
        return CodeTable(n_bits, layout, corrected, metadata, (), next_id)
    tiles = Tiles(arrays["front"], arrays["back"], layout.n_front, layout.n_back, n)
    ids = arrays["ids"][:n] if "ids" in arrays else None
    check = Once(sections.verify)
    segment = Segment(n_bits, layout, tiles, ids, 0, arrays.get("corrections"), room=None, check=check)
    return CodeTable(n_bits, layout, corrected, metadata, (segment,), next_id)


def _arrays_of(table: CodeTable) -> dict[str, NDArray]:
    """The sections of a table of one segment, by name."""
    if not table.segments:
        nothing = np.empty(0, table.layout.dtype)
        arrays = {"front": nothing, "back": nothing}
        return {**arrays, "corrections": np.empty(0, np.uint8)} if table.corrected else arrays
    (segment,) = table.segments
    arrays = {"front": segment.tiles.front, "back": segment.tiles.back}
    if segment.ids is not None or segment.first_id:
        arrays["ids"] = segment.ids_at(np.arange(len(segment)))
    if segment.corrections is not None:
        arrays["corrections"] = segment.corrections
    return arrays


def _widths(layout: Layout) -> dict[str, int]:
    """Numbers of a code in each section that a file may have."""
    return {"front": layout.n_front, "back": layout.n_back, "ids": 1, "corrections": 1}


def _pieces(array: NDArray, width: int, n_codes: int) -> list[NDArray]:
    """The full tiles of a section, and the last one with zeros behind the codes: a later table may write there."""
    tile_words = TILE * width
    n_full, n_in_last = n_codes // TILE * tile_words, n_codes % TILE
    if not n_in_last:
        return [array[:n_full]]
    rest = array[n_full : n_full + tile_words]
    last = np.zeros(tile_words, array.dtype)
    last[: len(rest)] = rest
    last.reshape(-1, TILE)[:, n_in_last:] = 0
    return [array[:n_full], last]


def _layout(n_bits: int, said: dict[str, Any]) -> Layout:
    described = (said["word_bytes"], said["n_words"], said["n_front"], said["tile"], said["bit_order"])
    for layout in (word_layout(n_bits), byte_layout(n_bits)):
        if described == (layout.dtype.itemsize, layout.n_words, layout.n_front, TILE, "big"):
            return layout
    raise ValueError("codes are laid out in a way this hashlearn does not know")
