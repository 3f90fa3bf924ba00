"""``hashlearn data info``."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from hashlearn.cli.support.arrays import Header, as_option, names_columns
from hashlearn.cli.support.bars import progress_bars

if TYPE_CHECKING:
    from hashlearn.datasets import Dataset

SHOWN_VALUES = 6
"""How many numbers of the first row are shown."""

app = typer.Typer(help="Look at datasets and files of vectors.", no_args_is_help=True)


@app.command("info", epilog="Example: hashlearn data info mnist")
def info(
    name: Annotated[
        str,
        typer.Argument(
            help="mnist, fashion-mnist, cifar-10, cifar-10-cnn, ag-news-minilm, flickr25k, nus-wide, digits, "
            "or a file or folder."
        ),
    ],
    folder: Annotated[
        str | None, typer.Option(help="Where a named dataset is looked for; by default HASHLEARN_DATA.")
    ] = None,
    array: Annotated[str | None, typer.Option(help="The array of vectors, if a file holds several.")] = None,
    header: Header = None,
    download: Annotated[bool, typer.Option("--download", help="Download what is not on this machine.")] = False,
) -> None:
    """Show the content of a dataset or a file of vectors, how the file was read, and its first row."""
    from hashlearn.datasets import load
    from hashlearn.rows.formats import FileProblem

    try:
        with progress_bars():
            dataset = load(name, folder=folder, array=array, header=names_columns(header), download=download)
    except FileProblem as error:
        raise ValueError(as_option(error)) from None
    for key, value in [*facts(dataset), *_understood(name, header), ("first row", _first_row(dataset))]:
        typer.echo(f"{key:<9} {value}")


def facts(dataset: "Dataset") -> list[tuple[str, str]]:
    """Facts about a dataset, as pairs of a name and a line."""
    lines = [
        ("name", dataset.name),
        ("source", dataset.source),
        ("features", f"{len(dataset)} x {dataset.features.shape[1]} {dataset.features.dtype}"),
        ("split", f"{len(dataset.query)} queries, {len(dataset) - len(dataset.query)} in the database"),
        ("labels", _labels(dataset)),
    ]
    if dataset.label_names:
        lines.append(("classes", ", ".join(dataset.label_names)))
    if dataset.images is not None:
        lines.append(("images", " x ".join(map(str, dataset.images.shape[1:]))))
    if dataset.neighbors is not None:
        lines.append(("neighbors", f"{dataset.neighbors.shape[1]} true neighbors of every query"))
    return lines


def _understood(name: str, header: str | None) -> list[tuple[str, str]]:
    """How a file was read; nothing for a dataset or a folder."""
    from hashlearn.rows.formats import describe_file, has_known_suffix, path_and_name

    path, _ = path_and_name(os.path.expanduser(name))
    if not path.is_file() or not has_known_suffix(path):
        return []
    return list(describe_file(path, names_columns(header)).items())


def _first_row(dataset: "Dataset") -> str:
    from hashlearn.rows.blocks import dense

    row = dense(dataset.features[:1])[0]
    shown = " ".join(f"{value:.6g}" for value in row[:SHOWN_VALUES])
    return shown + (f" ... ({len(row)} numbers)" if len(row) > SHOWN_VALUES else "")


def _labels(dataset: "Dataset") -> str:
    if dataset.labels is None:
        return "none"
    if dataset.multilabel:
        return f"{dataset.n_classes} classes, {dataset.labels.sum() / len(dataset):.1f} a row"
    return f"{dataset.n_classes} classes, one a row"
