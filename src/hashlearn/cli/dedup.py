"""``hashlearn dedup``."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from hashlearn.cli.support.arrays import FORMATS
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.dedup_inputs import (
    PICTURE_ENCODER,
    RANGES,
    Things,
    default_distance,
    distance_of,
    judged_pairs,
    pictures_of,
    texts_by_encoder,
    texts_by_words,
    vectors_of,
)
from hashlearn.cli.support.places import check_places

EXAMPLE = "Example: hashlearn dedup photos/ --review review.html --apply move photos-duplicates/"

BY_CHANCE = "it was chosen so that hardly a pair is near by chance; --max-distance sets another"

_LISTS = {
    "--kept": "what to keep",
    "--dropped": "what to drop",
    "--kept0": "what to keep, NUL behind each",
    "--dropped0": "what to drop, NUL behind each",
}

_SHOWN_GROUPS = 10
_SHOWN_SKIPPED = 5


def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help=f"A folder of images; a CSV or parquet file, with --text; or vectors: {FORMATS}."),
    ] = None,
    max_distance: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto", help="Rows at this distance or less are duplicates; auto: the rows decide."
        ),
    ] = None,
    pairs: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="YES NO", help="CSV files of judged pairs of ids, which say the distance instead."),
    ] = None,
    metric: Annotated[Literal["cosine", "euclidean"] | None, typer.Option(help="How vectors are compared.")] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of texts, of a CSV or parquet file.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="The column of ids, of such a file; else row numbers.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="What makes vectors of images or texts; by default spectrum, and words alone.")
    ] = None,
    recall: Annotated[float, typer.Option(help="Share of the true pairs to find; 1 is exact.")] = 0.99,
    grouping: Annotated[
        Literal["leader", "components"], typer.Option(help="'leader': all members are near the kept row.")
    ] = "leader",
    keep: Annotated[
        Literal["center", "first", "last", "best"] | None, typer.Option(help="Which row of a group is kept.")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(metavar="FILE", help="An .npy file with a score for each row, for --keep best.")
    ] = None,
    max_pairs: Annotated[int, typer.Option(help="Stop where more pairs than these match.")] = 10_000_000,
    array: Annotated[str | None, typer.Option(help="The array, of a file of vectors with several.")] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="The table of groups: .csv or .parquet.")] = None,
    kept: Annotated[str | None, typer.Option(metavar="FILE", help="A list of the ids to keep.")] = None,
    dropped: Annotated[str | None, typer.Option(metavar="FILE", help="A list of the ids to drop.")] = None,
    kept0: Annotated[str | None, typer.Option(metavar="FILE", help="As --kept, with NUL behind each name.")] = None,
    dropped0: Annotated[
        str | None, typer.Option(metavar="FILE", help="As --dropped, with NUL behind each name, as xargs -0 takes it.")
    ] = None,
    review: Annotated[str | None, typer.Option(metavar="FILE", help="A page to look at the groups: .html.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the page on this computer; decisions are saved beside --state.")
    ] = False,
    decisions: Annotated[
        str | None, typer.Option(metavar="FILE", help="The decisions that were downloaded from the page of --review.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Keep what was found there; if it is there, compare new rows and add them."
        ),
    ] = None,
    work: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Keep encoded images there: an interrupted run goes on.")
    ] = None,
    apply: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="move|link FOLDER", help="Move dropped images there, or link kept ones. Deletes nothing."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what --apply would do, and do nothing.")] = False,
    undo: Annotated[
        str | None, typer.Option(metavar="moved.csv", help="Put back what --apply move has moved, and do nothing else.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 is all cores.")] = 1,
) -> None:
    """Find near-duplicates among images, texts or vectors, and say which to keep. For codes see near-duplicates."""
    from hashlearn.duplicates.apply import check_apply
    from hashlearn.duplicates.decisions import read_decisions
    from hashlearn.duplicates.review import remove_other_pages
    from hashlearn.durable.locks import exclusive

    if undo is not None:
        if paths:
            raise ValueError("--undo needs nothing but the record moved.csv, got files to compare too")
        _undo(undo)
        return
    if not paths:
        raise ValueError("give a folder of images, a file of texts, or files of vectors")
    if serve and (state is None or apply is not None):
        raise ValueError("--serve needs --state, where decisions are saved, and no --apply before they are made")
    if pairs is not None and max_distance is not None:
        raise ValueError("give either --max-distance or --pairs")
    if dry_run and apply is None:
        raise ValueError("--dry-run shows what --apply would do, and needs it")
    files = [path for path in paths if not Path(path).is_dir()]
    lists = {"--kept": kept, "--dropped": dropped, "--kept0": kept0, "--dropped0": dropped0}
    check_places({"--out": out, **lists, "--review": review}, [*files, scores, decisions, *(pairs or ())])
    is_folder = len(paths) == 1 and not files
    if apply is not None:
        if not is_folder:
            raise ValueError("--apply is for a folder of images")
        check_apply(apply[0], paths[0], apply[1])
    # What is known is read, extended and written back: nobody else does so meanwhile.
    alone = nullcontext() if state is None else exclusive(Path(state).absolute(), wait=False)
    with alone, progress_bars():
        known, things = _read(paths, is_folder, text, id_column, encoder, array, state, work)
        if keep == "best" and scores is None and things.scores is None:
            raise ValueError("--keep best needs --scores, a file with a score for each row")
        distance = None if max_distance is None else distance_of(max_distance)
        found = _found(known, things, distance, pairs, metric, recall, grouping, keep, scores, max_pairs, jobs)
        if decisions is not None:
            found.decide(read_decisions(decisions, found.ids))
        page = None if review is None else _page(found, things, paths[0], review)
        stamps = {**_known_stamps(state, known), **things.stamps}
        with _written(found, page, out, review, lists):
            if state is not None:
                _save(found, things, state, stamps)
        if review is not None and page is not None:
            remove_other_pages(review, page)
    is_chosen = known is None and max_distance is None and getattr(things.encoder, "name", None) in RANGES
    _report(found, things, BY_CHANCE if is_chosen else found.reason)
    for path, what in (
        (out, "the groups"),
        (review, "the page"),
        *((path, _LISTS[name]) for name, path in lists.items()),
    ):
        if path is not None:
            typer.echo(f"{path}: {what}")
    if apply is not None and apply[0] == "link":
        _link(found, paths[0], apply[1], dry_run)
    elif apply is not None:
        _move(found, paths[0], apply[1], stamps, things.other_names, dry_run)
    if serve:
        assert state is not None
        _serve(found, things, paths[0], state)


def _read(
    paths: list[str],
    is_folder: bool,
    text: str | None,
    id_column: str | None,
    encoder: str | None,
    array: str | None,
    state: str | None,
    work: str | None,
) -> tuple[Any, Things]:
    """What is known already (None without a state), and what is to be compared."""
    from hashlearn.duplicates import Duplicates
    from hashlearn.duplicates.decisions import read_decisions
    from hashlearn.duplicates.saved import FORMAT

    known = None
    if state is not None and (Path(state) / FORMAT.manifest).is_file():
        known = Duplicates.open(state)
        if _decisions_beside(state).exists():
            known.decide(read_decisions(_decisions_beside(state), known.ids))
    if not is_folder and text is None:
        return known, vectors_of(paths, array)
    from hashlearn.features import encoder_named, load_encoder

    if not is_folder and len(paths) != 1:
        raise ValueError(f"--text needs one file, got {len(paths)}")
    if not is_folder and (encoder is None if known is None else known.metric == "words"):
        return known, texts_by_words(paths[0], text or "", id_column, known)
    is_saved = known is not None and _encoder_beside(state).is_file()
    kind = "image" if is_folder else "text"
    made = load_encoder(_encoder_beside(state)) if is_saved else encoder_named(encoder or PICTURE_ENCODER, kind)
    if is_folder:
        done = None if work is None else Path(work)
        if done is not None and not done.is_dir() and not done.absolute().parent.is_dir():
            raise ValueError(f"--work must be a folder, or lie in one, got {work}")
        return known, pictures_of(paths[0], made, done, [] if known is None else known.ids.tolist())
    return known, texts_by_encoder(paths[0], text or "", id_column, made, is_saved)


def _found(
    known: Any,
    things: Things,
    distance: float | Literal["auto"] | None,
    pairs: tuple[str, str] | None,
    metric: str | None,
    recall: float,
    grouping: Any,
    keep: Any,
    scores: str | None,
    max_pairs: int,
    jobs: int,
) -> Any:
    from hashlearn.cli.support.arrays import read_array
    from hashlearn.duplicates import find_duplicate_texts, find_duplicates
    from hashlearn.duplicates.find import TEXT_DISTANCE

    score = things.scores if scores is None else read_array(scores)
    if known is not None:
        if scores is None and known.state.scores is None:
            score = None
        if distance == "auto" or pairs is not None:
            raise ValueError("--max-distance auto and --pairs are for rows that are compared for the first time")
        if distance is not None:
            known = known.at(distance)
        rows: Any = things.texts if things.metric == "words" else things.vectors
        if len(rows) == 0:
            return known
        checked = known.check(rows, n_jobs=jobs)
        n_new = int(checked.is_new.sum())
        typer.echo(
            f"{len(checked.is_new)} more rows: {n_new} new, {len(checked.is_new) - n_new} duplicates of known ones"
        )
        ids = things.ids if known.state.ids is not None else None
        return known.add(rows, ids, score, n_jobs=jobs)
    options: dict[str, Any] = {
        "recall": recall,
        "grouping": grouping,
        "keep": keep,
        "scores": score,
        "ids": things.ids,
        "max_pairs": max_pairs,
        "n_jobs": jobs,
    }
    if things.metric == "words":
        assert things.texts is not None
        if distance == "auto" or pairs is not None:
            raise ValueError("texts are compared by their words: --max-distance must be the share that may differ")
        return find_duplicate_texts(things.texts, TEXT_DISTANCE if distance is None else distance, **options)
    options["metric"] = metric or things.metric or "cosine"
    if pairs is not None:
        return find_duplicates(things.vectors, labeled_pairs=judged_pairs(*pairs, things.ids), **options)
    if distance is None:
        distance = default_distance(things.encoder, things.vectors)
    return find_duplicates(things.vectors, distance, **options)


@contextmanager
def _written(
    found: Any, page: str | None, out: str | None, review: str | None, lists: dict[str, str | None]
) -> Iterator[None]:
    """Write tables, lists and page, which take their places together, once the block has done its work."""
    from hashlearn.duplicates.tables import check_lines, is_parquet, write_groups, write_list
    from hashlearn.durable.files import replacing_together

    wanted = {name: path for name, path in {"--out": out, "--review": review, **lists}.items() if path is not None}
    if not wanted:
        yield
        return
    with replacing_together(*wanted.values()) as files:
        beside = dict(zip(wanted, files))
        if out is not None:
            write_groups(found, beside["--out"], is_parquet(out))
        if page is not None:
            beside["--review"].write_text(page, encoding="utf-8")
        for name in beside.keys() & lists.keys():
            ids = found.kept if name.startswith("--kept") else found.dropped
            if name.endswith("0"):
                write_list(ids, beside[name], "\0")
            else:
                check_lines(ids, name)
                write_list(ids, beside[name])
        yield


def _page(found: Any, things: Things, place: str, review: str) -> str:
    from hashlearn.duplicates.review import write_pages

    def address(row: int) -> str:
        assert things.file is not None
        return quote(os.path.relpath(things.file(row), Path(review).absolute().parent))

    shown = _shown(found, things)._replace(file=None if things.file is None else address)
    return write_pages(found, review, shown, _title(place))


def _shown(found: Any, things: Things) -> Any:
    from hashlearn.duplicates.review import Shown

    texts = [things.text_of.get(name, "") for name in found.ids.tolist()] if things.text_of else None
    return Shown(texts, things.picture, things.note)


def _title(place: str) -> str:
    return f"Near-duplicates in {place}"


def _serve(found: Any, things: Things, place: str, state: str) -> None:
    """Show the review until the user has had enough."""
    from hashlearn.duplicates.review_server import ReviewServer

    server = ReviewServer(found, _decisions_beside(state), _shown(found, things), _title(place), things.file)
    typer.echo(f"Open {server.address} (Ctrl+C ends it)")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        server.serve()
    typer.echo(
        f"{_decisions_beside(state)}: {server.n_decided} decisions; the next run with --state {state} follows them"
    )


def _save(found: Any, things: Things, state: str, stamps: dict[str, Any]) -> None:
    from hashlearn.duplicates.apply import write_stamps

    if things.encoder is not None:
        from hashlearn.features import save_encoder

        save_encoder(things.encoder, _encoder_beside(state))
    if stamps:
        write_stamps(_stamps_beside(state), stamps)
    found.save(state)
    _decisions_beside(state).unlink(missing_ok=True)  # they are in the state now


def _encoder_beside(state: str | None) -> Path:
    """The file of the encoder that made the vectors of a state: new rows must be encoded by the same."""
    return Path(f"{str(state).rstrip('/')}.encoder.safetensors")


def _stamps_beside(state: str | None) -> Path:
    """What the files of a state were when they were compared: one that changed since is not moved."""
    return Path(f"{str(state).rstrip('/')}.files.json")


def _decisions_beside(state: str) -> Path:
    """The decisions that the review page of a state has saved since the state was written."""
    return Path(f"{state.rstrip('/')}.decisions.csv")


def _known_stamps(state: str | None, known: Any) -> dict[str, Any]:
    from hashlearn.duplicates.apply import read_stamps

    return {} if known is None else read_stamps(_stamps_beside(state))


def _report(found: Any, things: Things, reason: str) -> None:
    for name, reason in things.skipped[:_SHOWN_SKIPPED]:
        typer.echo(f"skipped {name}: {reason}", err=True)
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
        shown = ", ".join(map(str, group.members[:5].tolist()))
        more = f" and {len(group.members) - 5} more" if len(group.members) > 5 else ""
        typer.echo(f"  keep {group.kept}, drop {shown}{more}")
    if len(found.groups) > _SHOWN_GROUPS:
        typer.echo(f"  and {len(found.groups) - _SHOWN_GROUPS} more groups")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _link(found: Any, folder: str, target: str, dry_run: bool) -> None:
    from hashlearn.duplicates.apply import link_files

    if dry_run:
        typer.echo(f"{target}: there would be links to {len(found.kept)} images to keep; {folder} would be as it is")
        return
    count = link_files(found.kept.tolist(), folder, target)
    typer.echo(f"{target}: {count} links to images to keep; {folder} is as it was")


def _move(found: Any, folder: str, target: str, stamps: dict[str, Any], other_names: Any, dry_run: bool) -> None:
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
        f"{target}: {moved.n_files} images moved there from {folder}, {_size(plan.n_bytes)}; "
        f"to put them back: hashlearn dedup --undo {Path(target) / MOVED}"
    )


def _undo(record: str) -> None:
    from hashlearn.duplicates.apply import undo_moves

    undone = undo_moves(record)
    _say_what_stays(undone.stays)
    typer.echo(f"{record}: {undone.n_files} files are back in their places")


def _show_moves(plan: Any, folder: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("kept", "moved", "bytes saved", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    top = Path(folder).resolve()
    for move in plan.moves:
        names = (_printable(str(Path(path).relative_to(top))) for path in (move.kept, move.source))
        table.add_row(*names, f"{move.n_bytes:,}")
    Console(markup=False, highlight=False).print(table)
    _say_what_stays(plan.stays)


def _say_what_stays(stays: Any) -> None:
    for name, reason in stays:
        typer.echo(f"not moved: {_printable(name)}: {reason}", err=True)


def _printable(name: str) -> str:
    """A name in one line: what cannot be printed is escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in name)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 100_000 else f"{n_bytes:,} bytes"
