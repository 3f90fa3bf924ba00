"""``hashlearn near-duplicates``."""

import sys
from contextlib import ExitStack
from typing import Annotated, Any, TextIO

import typer

from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import read_codes
from hashlearn.cli.support.places import check_places, with_sidecars

EXAMPLE = "Example: hashlearn near-duplicates codes.npy --radius 3"


def run(
    codes: Annotated[str, typer.Argument(help="Packed codes (.npy), or an index file (.hli).")],
    radius: Annotated[int, typer.Option("--radius", "-r", min=0, help="The most bits that may differ.")] = 3,
    bits: Annotated[int | None, typer.Option(help="Bits of a code, where the codes have no sidecar.")] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="A file for the pairs; otherwise printed.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 is all cores.")] = 1,
) -> None:
    """Find all pairs of codes that differ in few bits. Each pair is a line: id, id, distance, separated by tabs.

    For images, texts and vectors see dedup: it checks the pairs and groups them.
    """
    import numpy as np

    from hashlearn.durable.files import replacing

    check_places({"--out": out}, with_sidecars(codes))
    index = _index(codes, bits)
    pairs = index.pairs_within(radius, n_jobs=jobs)
    count = 0
    with ExitStack() as stack:
        file: TextIO = sys.stdout
        if out is not None:
            (beside,) = stack.enter_context(replacing(out))
            file = stack.enter_context(beside.open("w", encoding="ascii"))
        stack.enter_context(progress_bars())
        for block in pairs:
            np.savetxt(file, np.column_stack(block), fmt="%d", delimiter="\t")
            count += len(block.first)
    if out is not None:
        typer.echo(f"{out}: {count} pairs within {radius} of {len(index)} codes")


def _index(place: str, bits: int | None) -> Any:
    from hashlearn.durable.files import check_regular
    from hashlearn.index import HammingIndex
    from hashlearn.index.file import MAGIC

    with check_regular(place).open("rb") as file:
        is_index = file.read(len(MAGIC)) == MAGIC
    if is_index:
        return HammingIndex.open(place)
    codes = read_codes(place, bits)
    return HammingIndex(codes.n_bits).add(codes.codes)
