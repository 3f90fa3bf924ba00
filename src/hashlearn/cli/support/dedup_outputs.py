"""The output of ``hashlearn dedup``: tables, lists, the review, the summary, and moved files."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import typer

from hashlearn.cli.support.dedup_inputs import Things

WHAT = {
    "--out": "the groups",
    "--review": "the page",
    "--kept": "what to keep",
    "--dropped": "what to drop",
    "--kept0": "what to keep, NUL behind each",
    "--dropped0": "what to drop, NUL behind each",
    "--clean": "the source without what to drop",
    "--variety": "rows of greatest variety",
    "--representatives": "rows that stand for the others",
    "--outliers": "rows that are like no other, and their distance from the nearest",
}

_SHOWN_GROUPS = 10
_SHOWN_SKIPPED = 5


class Outputs(NamedTuple):
    """The files of the results.

    Attributes
    ----------
    places : dict of str to str
        The wanted files by option.
    choices : dict of str to int
        The numbers of rows for --variety, --representatives and --outliers.
    source : str
        The file whose rows are compared, for --clean.
    id_column : str or None
    has_names : bool or None
        Whether the first line of a CSV file names its columns; None finds out.
    """

    places: dict[str, str]
    choices: dict[str, int]
    source: str
    id_column: str | None
    has_names: bool | None


class DedupResult(NamedTuple):
    """The contents of the files: ids to keep and to drop, lines of the table, the page, and lines of each choice."""

    kept: Any
    dropped: Any
    rows: Iterable[Any]
    page: str | None = None
    chosen: Mapping[str, list[str]] = MappingProxyType({})


@contextmanager
def written(outputs: Outputs, result: DedupResult) -> Iterator[None]:
    """Write tables, lists and page. They appear together when the block has ended."""
    from hashlearn.duplicates.tables import check_lines, is_parquet, write_clean, write_list, write_rows
    from hashlearn.durable.files import replacing_together

    places = outputs.places
    if not places:
        yield
        return
    with replacing_together(*places.values()) as files:
        for (option, path), beside in zip(places.items(), files):
            if option == "--out":
                write_rows(result.rows, beside, is_parquet(path))
            elif option == "--review":
                beside.write_text(result.page or "", encoding="utf-8")
            elif option == "--clean":
                dropped = set(result.dropped.tolist())
                write_clean(outputs.source, beside, dropped, outputs.id_column, outputs.has_names)
            elif option in outputs.choices:
                beside.write_text("".join(result.chosen[option]), encoding="utf-8")
            else:
                ids = result.kept if option.startswith("--kept") else result.dropped
                if not option.endswith("0"):
                    check_lines(ids, option, f"use {option}0 instead")
                write_list(ids, beside, "\0" if option.endswith("0") else "\n")
        yield


def chosen_lines(found: Any, choices: dict[str, int]) -> dict[str, list[str]]:
    """The lines of --variety, --representatives and --outliers; the choice is among the kept rows."""
    import numpy as np

    from hashlearn.duplicates import most_varied, outliers, representatives
    from hashlearn.duplicates.tables import check_lines

    kept = np.flatnonzero(found.assignment.kept == np.arange(len(found)))
    lines: dict[str, list[str]] = {}
    for option, n in choices.items():
        count = min(n, len(kept))
        if option == "--outliers":
            rows, distances = outliers(found.state.vectors, count, among=kept)
            ends = [f"\t{distance:.6g}" for distance in distances]
        else:
            choose = most_varied if option == "--variety" else representatives
            rows = choose(found.state.vectors, count, among=kept)
            ends = [""] * len(rows)
        check_lines(found.ids[rows], option, "rename it")
        lines[option] = [f"{name}{end}\n" for name, end in zip(found.ids[rows].tolist(), ends)]
    return lines


def review_page(found: Any, things: Things, place: str, review: str) -> str:
    from hashlearn.duplicates.review import write_pages

    def address(row: int) -> str:
        assert things.file is not None
        return quote(os.path.relpath(things.file(row), Path(review).absolute().parent))

    shown = shown_of(found, things)._replace(file=None if things.file is None else address)
    return write_pages(found, review, shown, title_of(place))


def shown_of(found: Any, things: Things) -> Any:
    from hashlearn.duplicates.review import RowDisplay

    texts = [things.text_of.get(name, "") for name in found.ids.tolist()] if things.text_of else None
    return RowDisplay(texts, things.picture, things.note)


def title_of(place: str) -> str:
    return f"Near-duplicates in {place}"


def serve_review(found: Any, things: Things, place: str, state: str, decisions: Path) -> None:
    """Show the review until the user stops it."""
    from hashlearn.duplicates.review_server import ReviewServer

    server = ReviewServer(found, decisions, shown_of(found, things), title_of(place), things.file)
    typer.echo(f"Open {server.address} (Ctrl+C ends it)")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        server.serve()
    typer.echo(f"{decisions}: {server.n_decided} decisions; the next run with --state {state} follows them")


def report(found: Any, things: Things, reason: str) -> None:
    for name, why in things.skipped[:_SHOWN_SKIPPED]:
        typer.echo(f"skipped {printable(name)}: {printable(why)}", err=True)
    if len(things.skipped) > _SHOWN_SKIPPED:
        typer.echo(f"skipped {len(things.skipped) - _SHOWN_SKIPPED} more", err=True)
    typer.echo(
        f"{_counted(len(found), 'row')}, {found.metric} distance <= {found.max_distance:.4g}: "
        f"{_counted(len(found.groups), 'group')}, {len(found.kept)} to keep, {len(found.dropped)} to drop "
        f"({found.n_copies} exact {'copy' if found.n_copies == 1 else 'copies'})"
    )
    typer.echo(f"why this distance: {reason}")
    typer.echo(f"found by {found.plan}; estimated recall {found.recall:.3f}")
    for group in found.groups[:_SHOWN_GROUPS]:
        shown = ", ".join(printable(str(member)) for member in group.members[:5].tolist())
        more = f" and {len(group.members) - 5} more" if len(group.members) > 5 else ""
        typer.echo(f"  keep {printable(str(group.kept))}, drop {shown}{more}")
    if len(found.groups) > _SHOWN_GROUPS:
        typer.echo(f"  and {len(found.groups) - _SHOWN_GROUPS} more groups")


def printable(name: str) -> str:
    """A name in one line, with unprintable characters escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in name)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def say_places(outputs: Outputs) -> None:
    """A line for each file that was written."""
    for option, path in outputs.places.items():
        typer.echo(f"{path}: {WHAT[option]}")


def link_kept(found: Any, folder: str, target: str, dry_run: bool) -> None:
    from hashlearn.duplicates.apply import link_files

    if dry_run:
        typer.echo(f"{target}: there would be links to {len(found.kept)} images to keep; {folder} would be as it is")
        return
    count = link_files(found.kept.tolist(), folder, target)
    typer.echo(f"{target}: {count} links to images to keep; {folder} is as it was")


def move_dropped(found: Any, folder: str, target: str, stamps: dict[str, Any], other_names: Any, dry_run: bool) -> None:
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


def put_back(record: str) -> None:
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
