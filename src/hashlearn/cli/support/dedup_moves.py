"""What ``hashlearn dedup --apply`` and ``--undo`` do with files."""

from pathlib import Path
from typing import Any

import typer

from hashlearn.cli.support.dedup_outputs import printable


def link(found: Any, folder: str, target: str, dry_run: bool) -> None:
    from hashlearn.duplicates.apply import link_files

    if dry_run:
        typer.echo(f"{target}: there would be links to {len(found.kept)} images to keep; {folder} would be as it is")
        return
    count = link_files(found.kept.tolist(), folder, target)
    typer.echo(f"{target}: {count} links to images to keep; {folder} is as it was")


def move(found: Any, folder: str, target: str, stamps: dict[str, Any], other_names: Any, dry_run: bool) -> None:
    from hashlearn.duplicates.apply import MOVED, move_files, plan_moves

    dropped = {name: group.kept for group in found.groups for name in group.members.tolist()}
    plan = plan_moves(dropped, folder, target, stamps, other_names)
    if dry_run:
        _show_moves(plan, folder)
        typer.echo(f"--dry-run: nothing was moved; {len(plan.moves)} files would be, {_size(plan.n_bytes)} saved")
        return
    moved = move_files(plan, target)
    _say_what_stays(moved.stays)
    typer.echo(
        f"{target}: {moved.n_files} images moved there from {folder}, {_size(moved.n_bytes)}; "
        f"to put them back: hashlearn dedup --undo {Path(target) / MOVED}"
    )


def undo(record: str) -> None:
    from hashlearn.duplicates.apply import undo_moves

    undone = undo_moves(record)
    _say_what_stays(undone.stays, "not put back")
    typer.echo(f"{record}: {undone.n_files} files are back in their places")


def _show_moves(plan: Any, folder: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("kept", "moved", "bytes saved", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    top = Path(folder).resolve()
    for move in plan.moves:
        names = (printable(str(Path(path).relative_to(top))) for path in (move.kept, move.source))
        table.add_row(*names, f"{move.n_bytes:,}")
    Console(markup=False, highlight=False).print(table)
    _say_what_stays(plan.stays)


def _say_what_stays(stays: Any, what: str = "not moved") -> None:
    for name, reason in stays:
        typer.echo(f"{what}: {printable(name)}: {reason}", err=True)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 100_000 else f"{n_bytes:,} bytes"
