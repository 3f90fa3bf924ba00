"""``hashlearn app``."""

import gc
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, Any

import typer

from hashlearn.cli.support.arrays import Header, check_header, names_columns, read_ids, read_payloads
from hashlearn.cli.support.bars import progress_bars

EXAMPLE = "Example: hashlearn app photos/"
_MOST_LISTED = 10


def run(
    path: Annotated[
        str | None,
        typer.Argument(help="A folder of images, a .csv file (with --text), or a file of vectors. Without: digits."),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of texts of a .csv file.")] = None,
    labels: Annotated[str | None, typer.Option(metavar="FILE", help="A label for each vector.")] = None,
    images: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A picture for each vector: one image file, a square grid of them."),
    ] = None,
    ids: Annotated[
        str | None, typer.Option(metavar="FILE:COLUMN", help="An id for each vector or text, from a column of a table.")
    ] = None,
    texts: Annotated[
        str | None,
        typer.Option(metavar="FILE:COLUMN", help="A text for each vector, shown with it and searched by its words."),
    ] = None,
    payloads: Annotated[
        str | None, typer.Option(metavar="FILE:COLUMN,...", help="Columns of a table that are shown with the vectors.")
    ] = None,
    header: Header = None,
    encoder: Annotated[
        str | None, typer.Option(help="gist, tfidf, or a model of fastembed (needs the extra embed).")
    ] = None,
    model_folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder with the files of the model, instead of a download.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="A method. Default: itq; lsh for short vectors."),
    ] = None,
    bits: Annotated[
        int | None, typer.Option("--bits", "-b", min=1, max=4096, help="Length of a code; by default 64, of texts 256.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 127.0.0.1 is for this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8000,
    show: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
) -> None:
    """Search your images, texts or vectors in a page, and look inside their codes."""
    from hashlearn.extras import require

    require("fastapi", "app")
    require("PIL", "app")
    gc.disable()  # imported objects stay; searching them for garbage would take a tenth of the start
    from hashlearn.server import Settings, create_app
    from hashlearn.server.features import EncoderFeatures
    from hashlearn.server.own_collection import HowToHash
    from hashlearn.server.page import add_page
    from hashlearn.server.run import bind, run_server

    gc.freeze()
    gc.enable()

    bind(host, port).close()  # an error of the port is reported before the work
    n_bits = bits or (64 if text is None else 256)
    how = HowToHash(method, n_bits, encoder, model_folder)
    with progress_bars():
        of_vectors = {"--labels": labels, "--images": images, "--texts": texts, "--payloads": payloads}
        made = _collection(path, text, {**of_vectors, "--header": header}, ids, how)
    _print_skipped(made.skipped)
    features = None if made.encoder is None else EncoderFeatures(made.encoder)
    # The served search is a copy in the cache. It has no key to write, so no client can change it.
    app = create_app(made.search, Settings(write_key=token_urlsafe(), host=host), features)
    app.state.service.warm()  # otherwise the first visitor would get 503
    notes = [f"{len(made.skipped)} files skipped"] if made.skipped else []
    add_page(app, title=made.title, pictures=made.pictures, notes=notes)

    def listening(url: str) -> None:
        typer.echo(f"{made.title}: {len(made.search)} items, {n_bits} bits each. Open {url} (Ctrl-C ends it)")
        if show:
            import webbrowser

            webbrowser.open(url)

    run_server(app, host, port, listening, log_level="warning")


def _collection(
    path: str | None, text: str | None, of_vectors: dict[str, str | None], ids: str | None, how: Any
) -> Any:
    """The collection that the arguments name. ``of_vectors`` are the options for a file of vectors."""
    from hashlearn.rows.formats import path_and_name
    from hashlearn.server import own_collection

    if path is None:
        _refuse_others({"--text": text, "--ids": ids, **of_vectors}, "a PATH")
        return own_collection.digits_collection(how)
    if Path(path).is_dir():
        _refuse_others({"--text": text, "--ids": ids, **of_vectors}, "files, not for a folder of images")
        return own_collection.images_collection(path, how)
    if not path_and_name(path)[0].exists():
        raise ValueError(f"PATH must be a folder of images, a .csv file or a file of vectors, got {path}: not there")
    if text is not None:
        _refuse_others(of_vectors, "vectors, not for texts")
        file, column = (None, None) if ids is None else path_and_name(ids)
        if ids is not None and (column is None or file != Path(path)):
            raise ValueError(f"--ids must name a column of the texts, {path}:COLUMN, got {ids}")
        return own_collection.texts_collection(path, text, how, column)
    if how.encoder is not None:
        raise ValueError("--encoder is for images and texts, got a file of vectors (a .csv file needs --text COLUMN)")
    payloads, texts, header = (of_vectors[option] for option in ("--payloads", "--texts", "--header"))
    check_header(header, path)
    known = own_collection.KnownOfRows(
        None if ids is None else read_ids(ids),
        read_payloads(payloads, texts),
        tuple(place for place in (ids, payloads, texts) if place is not None),
        texts is not None,
        names_columns(header),
    )
    return own_collection.vectors_collection(path, how, of_vectors["--labels"], of_vectors["--images"], known)


def _refuse_others(options: dict[str, str | None], needed: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{option} is for {needed}, got {value}")


def _print_skipped(skipped: list[Any]) -> None:
    for name, reason in skipped[:_MOST_LISTED]:
        typer.echo(f"skipped {name}: {reason}", err=True)
    if len(skipped) > _MOST_LISTED:
        typer.echo(f"skipped {len(skipped) - _MOST_LISTED} more files", err=True)
