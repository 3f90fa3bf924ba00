"""``hashlearn doctor``."""

from contextlib import closing
from typing import Annotated

import typer

EXAMPLE = "Example: hashlearn doctor search/"


def run(
    search: Annotated[str, typer.Argument(help="The folder of a saved search.")],
    queries: Annotated[int, typer.Option(min=1, help="Rows that are searched for, to measure the recall.")] = 100,
    read_all: Annotated[bool, typer.Option("--read-all", help="Also read every row, to find damage.")] = False,
) -> None:
    """Report the problems of a search and how to solve them. The exit code is 1 if there is a problem."""
    from hashlearn.search import SimilaritySearch
    from hashlearn.search.folder import SearchFolder
    from hashlearn.upkeep import check_search, examine

    try:
        if read_all:
            typer.echo(f"ok     All {check_search(search)} rows can be read.")
        with closing(SimilaritySearch.open(search)) as opened:
            findings = examine(opened, n_queries=queries)
    except (ValueError, OSError) as error:
        if not SearchFolder(search).is_search:
            raise
        mended = f"hashlearn restore SNAPSHOT {search} --replace"
        raise ValueError(f"{error}; where there is a snapshot, this mends it: {mended}") from None
    for finding in findings:
        typer.echo(f"{'ok   ' if finding.is_good else 'WRONG'}  {finding.what}")
        if finding.remedy:
            typer.echo(f"       Do: {finding.remedy}")
    if not all(finding.is_good for finding in findings):
        raise typer.Exit(1)
