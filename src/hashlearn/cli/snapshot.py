"""``hashlearn snapshot``."""

from typing import Annotated

import typer

EXAMPLE = "Example: hashlearn snapshot search/ backups/monday"


def run(
    search: Annotated[str, typer.Argument(help="The folder of a saved search; others may write to it meanwhile.")],
    target: Annotated[str, typer.Argument(help="A folder that is not there yet.")],
) -> None:
    """Copy the present state of a search, and check the copy."""
    from hashlearn.upkeep import take_snapshot

    report = take_snapshot(search, target)
    typer.echo(f"{report.folder}: {report.rows} rows, all read back")
