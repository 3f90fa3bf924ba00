"""``hashlearn restore``."""

from typing import Annotated

import typer

EXAMPLE = "Example: hashlearn restore backups/monday search/ --replace"


def run(
    snapshot: Annotated[str, typer.Argument(help="The folder of a snapshot; it is not changed.")],
    target: Annotated[str, typer.Argument(help="A folder that is not there yet, or with --replace a search.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the rows of TARGET, in one step.")] = False,
) -> None:
    """Check a snapshot and copy it to the folder of a search."""
    from hashlearn.upkeep import restore_snapshot

    report = restore_snapshot(snapshot, target, replace=replace)
    typer.echo(f"{report.folder}: {report.rows} rows, all read back")
