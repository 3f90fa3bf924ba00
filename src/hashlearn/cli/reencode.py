"""``hashlearn reencode``."""

from typing import Annotated

import typer

from hashlearn.cli.support.bars import progress_bars

EXAMPLE = "Example: hashlearn reencode search/ --model new-model/"


def run(
    search: Annotated[str, typer.Argument(help="The folder of a saved search; others may use it meanwhile.")],
    model: Annotated[
        str | None,
        typer.Option(help="The folder of a fitted model; without it, the own method is fitted again."),
    ] = None,
) -> None:
    """Replace all codes of a search by those of another model, in one step. Repeat it to continue after a stop."""
    from hashlearn.hashers.saving import load_hasher
    from hashlearn.search import SimilaritySearch

    hasher = None if model is None else load_hasher(model)
    opened = SimilaritySearch.open(search)
    try:
        with progress_bars():
            opened.reencode(hasher)
        typer.echo(f"{search}: {len(opened)} rows, codes of {opened.hasher!r}")
    finally:
        opened.close()
