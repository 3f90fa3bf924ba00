"""``hashlearn compact``."""

from typing import Annotated

import typer

EXAMPLE = "Example: hashlearn compact search/"


def run(
    search: Annotated[str, typer.Argument(help="The folder of a saved search; others may use it meanwhile.")],
) -> None:
    """Free the space of removed rows, and make the lists of a search again."""
    from hashlearn.search import SimilaritySearch

    opened = SimilaritySearch.open(search)
    try:
        opened.compact()
        typer.echo(f"{search}: {len(opened)} rows")
    finally:
        opened.close()
