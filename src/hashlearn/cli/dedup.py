"""``hashlearn dedup``."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from hashlearn.cli.support.arrays import FORMATS, Header, check_header, names_columns
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.dedup_inputs import (
    PICTURE_ENCODER,
    RANGES,
    HowToRead,
    Things,
    default_distance,
    distance_of,
    judged_pairs,
    pictures_of,
    texts_by_encoder,
    texts_by_words,
    vectors_of,
)
from hashlearn.cli.support.dedup_outputs import (
    DedupResult,
    Outputs,
    chosen_lines,
    link_kept,
    move_dropped,
    put_back,
    report,
    review_page,
    say_places,
    serve_review,
    written,
)
from hashlearn.cli.support.places import check_places

EXAMPLE = "Example: hashlearn dedup photos/ --review review.html --apply move photos-duplicates/"

BY_CHANCE = "it was chosen so that hardly a pair is near by chance; --max-distance sets another"


class Comparing(NamedTuple):
    """How rows are compared: options of the command line."""

    distance: float | Literal["auto"] | None
    pairs: tuple[str, str] | None
    metric: str | None
    recall: float
    max_pairs: int
    jobs: int


class Keeping(NamedTuple):
    """How rows are grouped, and which row of a group is kept: options of the command line."""

    grouping: Any
    keep: Any
    scores: str | None


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
        str | None, typer.Option(help="Encoder of images or texts. Default: spectrum; texts are compared by words.")
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
    header: Header = None,
    payloads: Annotated[
        str | None,
        typer.Option(metavar="FILE:COLUMN,...", help="Columns of a table that the review shows with the vectors."),
    ] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="The table of groups: .csv or .parquet.")] = None,
    clean: Annotated[
        str | None, typer.Option(metavar="FILE", help="The .csv, .parquet or .npy file without the rows to drop.")
    ] = None,
    kept: Annotated[str | None, typer.Option(metavar="FILE", help="A list of the ids to keep.")] = None,
    dropped: Annotated[str | None, typer.Option(metavar="FILE", help="A list of the ids to drop.")] = None,
    kept0: Annotated[str | None, typer.Option(metavar="FILE", help="As --kept, with NUL behind each name.")] = None,
    dropped0: Annotated[
        str | None, typer.Option(metavar="FILE", help="As --dropped, with NUL behind each name, as xargs -0 takes it.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Only drop rows that are near a row of this set, such as a test set.",
        ),
    ] = None,
    variety: Annotated[
        tuple[int, str] | None, typer.Option(metavar="N FILE", help="A list of N kept rows of greatest variety.")
    ] = None,
    representatives: Annotated[
        tuple[int, str] | None, typer.Option(metavar="N FILE", help="A list of N kept rows that stand for the others.")
    ] = None,
    outliers: Annotated[
        tuple[int, str] | None,
        typer.Option(metavar="N FILE", help="A list of the N kept rows farthest from all others."),
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
            metavar="FOLDER",
            help="Folder for the result; a later run adds new rows to it.",
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
    from hashlearn.checks import check_integer
    from hashlearn.duplicates.apply import check_apply
    from hashlearn.duplicates.decisions import read_decisions
    from hashlearn.duplicates.review import remove_other_pages
    from hashlearn.duplicates.tables import group_rows
    from hashlearn.durable.locks import exclusive

    if undo is not None:
        if paths:
            raise ValueError("--undo needs nothing but the record moved.csv, got files to compare too")
        put_back(undo)
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
    chosen = {"--variety": variety, "--representatives": representatives, "--outliers": outliers}
    choices = {option: choice for option, choice in chosen.items() if choice is not None}
    lists = {"--kept": kept, "--dropped": dropped, "--kept0": kept0, "--dropped0": dropped0}
    places = {"--out": out, **lists, "--clean": clean, "--review": review}
    places |= {option: path for option, (_, path) in choices.items()}
    check_places(places, [*files, against, scores, decisions, *(pairs or ())])
    for option, path, kinds in (("--out", out, (".csv", ".parquet")), ("--review", review, (".html",))):
        if path is not None and Path(path).suffix.lower() not in kinds:
            raise ValueError(f"{option} must be a {' or '.join(kinds)} file, got {path}")
    numbers = {option: check_integer(option, n, low=1) for option, (n, _) in choices.items()}
    has_names = names_columns(header) if text is None else True
    given = {name: path for name, path in places.items() if path is not None}
    outputs = Outputs(given, numbers, paths[0], id_column, has_names)
    check_header(header, *files, against)
    how = HowToRead(text, id_column, encoder, array, header, work, payloads)
    if clean is not None and (state is not None or len(files) != 1 or not _is_kind(clean, paths[0])):
        raise ValueError(
            f"--clean needs one .csv, .parquet or .npy file, the same kind to write, no --state, got {clean}"
        )
    distance = None if max_distance is None else distance_of(max_distance)
    comparing = Comparing(distance, pairs, metric, recall, max_pairs, jobs)
    if against is not None:
        if choices or any((review, serve, decisions, state, apply, pairs, scores, text and encoder)):
            raise ValueError(
                "--against compares two sets, texts by words; it writes --out, --kept, --dropped and --clean"
            )
        with progress_bars():
            _check_against(paths, against, how, comparing, outputs)
        return
    is_folder = len(paths) == 1 and not files
    if apply is not None:
        if not is_folder:
            raise ValueError("--apply is for a folder of images")
        check_apply(apply[0], paths[0], apply[1])
    # The state is read, extended and written back. The lock keeps other processes from doing the same.
    alone = nullcontext() if state is None else exclusive(Path(state).absolute(), wait=False)
    with alone, progress_bars():
        how = how._replace(keep_texts=serve or review is not None)
        known, things = _read(paths, is_folder, how, state)
        if keep == "best" and scores is None and things.scores is None:
            raise ValueError("--keep best needs --scores, a file with a score for each row")
        found = _found(known, things, comparing, Keeping(grouping, keep, scores))
        if decisions is not None:
            found.decide(read_decisions(decisions, found.ids))
        page = None if review is None else review_page(found, things, paths[0], review)
        result = DedupResult(found.kept, found.dropped, group_rows(found), page, chosen_lines(found, numbers))
        stamps = {**_known_stamps(state, known), **things.stamps}
        with written(outputs, result):
            if state is not None:
                _save(found, things, state, stamps)
        if review is not None and page is not None:
            remove_other_pages(review, page)
    is_chosen = known is None and max_distance is None and getattr(things.encoder, "name", None) in RANGES
    report(found, things, BY_CHANCE if is_chosen else found.reason)
    say_places(outputs)
    if apply is not None and apply[0] == "link":
        link_kept(found, paths[0], apply[1], dry_run)
    elif apply is not None:
        move_dropped(found, paths[0], apply[1], stamps, things.other_names, dry_run)
    if serve:
        assert state is not None
        serve_review(found, things, paths[0], state, _decisions_beside(state))


def _check_against(
    paths: list[str],
    against: str,
    how: HowToRead,
    comparing: Comparing,
    outputs: Outputs,
) -> None:
    """Report the rows that repeat a row of another set."""
    import numpy as np

    from hashlearn.duplicates import check_against, check_texts_against
    from hashlearn.duplicates.find import TEXT_DISTANCE
    from hashlearn.duplicates.tables import checked_rows

    how = how._replace(payloads=None)
    _, others = _read([against], Path(against).is_dir(), how, None)
    _, things = _read(paths, Path(paths[0]).is_dir(), how, None)
    options: dict[str, Any] = {"ids": others.ids, "n_jobs": comparing.jobs}
    distance = comparing.distance
    if distance is None and things.metric != "words":
        distance = default_distance(things.encoder, things.vectors)
    if distance == "auto":
        raise ValueError("--against needs --max-distance for vectors, a number")
    if things.metric == "words":
        assert things.texts is not None
        assert others.texts is not None
        distance = TEXT_DISTANCE if distance is None else distance
        checked = check_texts_against(things.texts, others.texts, distance, **options)
    else:
        assert distance is not None
        options |= {"metric": comparing.metric or things.metric or "cosine", "recall": comparing.recall}
        checked = check_against(things.vectors, others.vectors, distance, **options)
    ids = np.arange(len(checked.is_new)) if things.ids is None else np.array(things.ids)
    result = DedupResult(ids[checked.is_new], ids[~checked.is_new], checked_rows(checked, ids.tolist()))
    with written(outputs, result):
        pass
    n_copies = int(checked.is_copy.sum())
    typer.echo(
        f"{len(ids)} rows against {against}: {len(result.dropped)} are within distance {distance:g} of one there "
        f"({n_copies} exact {'copy' if n_copies == 1 else 'copies'})"
    )
    say_places(outputs)


def _is_kind(clean: str, source: str) -> bool:
    """Whether two files are of the same kind, and of a kind that --clean can write."""
    kinds = [Path(path).suffix.lower() for path in (clean, source)]
    return kinds[0] == kinds[1] and kinds[0] in (".csv", ".tsv", ".parquet", ".npy")


def _read(paths: list[str], is_folder: bool, how: HowToRead, state: str | None) -> tuple[Any, Things]:
    """The saved result (None without a state), and the rows to compare."""
    from hashlearn.duplicates import Duplicates
    from hashlearn.duplicates.decisions import read_decisions
    from hashlearn.duplicates.saved import FORMAT

    known = None
    if state is not None and (Path(state) / FORMAT.manifest).is_file():
        known = Duplicates.open(state)
        if _decisions_beside(state).exists():
            known.decide(read_decisions(_decisions_beside(state), known.ids))
    if not is_folder and how.text is None:
        return known, vectors_of(paths, how, 0 if known is None else len(known))
    if how.payloads is not None:
        raise ValueError(f"--payloads is for vectors, got {how.payloads}")
    from hashlearn.features import encoder_named, load_encoder

    if not is_folder and len(paths) != 1:
        raise ValueError(f"--text needs one file, got {len(paths)}")
    if not is_folder and (how.encoder is None if known is None else known.metric == "words"):
        return known, texts_by_words(paths[0], how.text or "", how.id_column, known, how.keep_texts)
    is_saved = known is not None and _encoder_beside(state).is_file()
    kind = "image" if is_folder else "text"
    made = load_encoder(_encoder_beside(state)) if is_saved else encoder_named(how.encoder or PICTURE_ENCODER, kind)
    if is_folder:
        done = None if how.work is None else Path(how.work)
        if done is not None and not done.is_dir() and not done.absolute().parent.is_dir():
            raise ValueError(f"--work must be a folder, or lie in one, got {how.work}")
        return known, pictures_of(paths[0], made, done, [] if known is None else known.ids.tolist())
    return known, texts_by_encoder(paths[0], how.text or "", how.id_column, made, is_saved)


def _found(known: Any, things: Things, comparing: Comparing, keeping: Keeping) -> Any:
    from hashlearn.cli.support.arrays import read_array
    from hashlearn.duplicates import find_duplicate_texts, find_duplicates
    from hashlearn.duplicates.find import TEXT_DISTANCE

    scores = things.scores if keeping.scores is None else read_array(keeping.scores)
    if known is not None:
        if keeping.scores is None and known.state.scores is None:
            scores = None
        return _extended(known, things, comparing, scores)
    options: dict[str, Any] = {
        "grouping": keeping.grouping,
        "keep": keeping.keep,
        "scores": scores,
        "ids": things.ids,
        "max_pairs": comparing.max_pairs,
        "n_jobs": comparing.jobs,
    }
    distance, pairs = comparing.distance, comparing.pairs
    if things.metric == "words":
        assert things.texts is not None
        if distance == "auto" or pairs is not None:
            raise ValueError("texts are compared by their words: --max-distance must be the share that may differ")
        return find_duplicate_texts(things.texts, TEXT_DISTANCE if distance is None else distance, **options)
    options |= {"metric": comparing.metric or things.metric or "cosine", "recall": comparing.recall}
    if pairs is not None:
        return find_duplicates(things.vectors, labeled_pairs=judged_pairs(*pairs, things.ids), **options)
    if distance is None:
        distance = default_distance(things.encoder, things.vectors)
    return find_duplicates(things.vectors, distance, **options)


def _extended(known: Any, things: Things, comparing: Comparing, scores: Any) -> Any:
    """The saved result with more rows."""
    if comparing.distance == "auto" or comparing.pairs is not None:
        raise ValueError("--max-distance auto and --pairs are for rows that are compared for the first time")
    if comparing.distance is not None:
        known = known.at(comparing.distance)
    rows: Any = things.texts if things.metric == "words" else things.vectors
    if len(rows) == 0:
        return known
    checked = known.check(rows, n_jobs=comparing.jobs)
    n_new = int(checked.is_new.sum())
    typer.echo(f"{len(checked.is_new)} more rows: {n_new} new, {len(checked.is_new) - n_new} duplicates of known ones")
    ids = things.ids if known.state.ids is not None else None
    return known.add(rows, ids, scores, n_jobs=comparing.jobs)


def _save(found: Any, things: Things, state: str, stamps: dict[str, Any]) -> None:
    from hashlearn.duplicates.apply import write_stamps

    if things.encoder is not None:
        from hashlearn.features import save_encoder

        save_encoder(things.encoder, _encoder_beside(state))
    if stamps:
        write_stamps(_stamps_beside(state), stamps)
    found.save(state)
    _decisions_beside(state).unlink(missing_ok=True)  # the state has them now


def _encoder_beside(state: str | None) -> Path:
    """The file of the encoder of a state. New rows must be encoded by the same encoder."""
    return Path(f"{str(state).rstrip('/')}.encoder.safetensors")


def _stamps_beside(state: str | None) -> Path:
    """The stamps of the files of a state when they were compared. A file that has changed since is not moved."""
    return Path(f"{str(state).rstrip('/')}.files.json")


def _decisions_beside(state: str) -> Path:
    """The decisions that were saved on the review page after the state was written."""
    return Path(f"{state.rstrip('/')}.decisions.csv")


def _known_stamps(state: str | None, known: Any) -> dict[str, Any]:
    from hashlearn.duplicates.apply import read_stamps

    return {} if known is None else read_stamps(_stamps_beside(state))
