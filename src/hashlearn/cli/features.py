"""``hashlearn features gist`` and ``hashlearn features embed``."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from hashlearn.cli.support.arrays import column_values
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.places import check_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hashlearn.features import Encoder

app = typer.Typer(help="Turn images or texts into vectors.", no_args_is_help=True)

NETWORKS = {"image": "Qdrant/clip-ViT-B-32-vision", "text": "sentence-transformers/all-MiniLM-L6-v2"}
"""The default encoders."""

_TEXTS_AT_A_TIME = 1024
_SHOWN_SKIPPED = 5


@app.command("gist", epilog="Example: hashlearn features gist photos/ --out vectors.npy --names names.txt")
def gist(
    images: Annotated[str, typer.Argument(help="A folder of images, read with its subfolders.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The .npy file of vectors, one row an image.")],
    size: Annotated[
        int | None,
        typer.Option(min=4, help="Side of the squares described; by default the images' own, or 256 if they differ."),
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write the images' paths, in the order of the rows.")
    ] = None,
) -> None:
    """Describe every image by 512 numbers: GIST of 4 scales, 8 orientations and 4 x 4 blocks."""
    _check_npy("--out", out)
    check_places({"--out": out, "--names": names}, [])

    from hashlearn.features import ImageFolder
    from hashlearn.features import gist as describe

    with progress_bars():
        folder = ImageFolder(images, size)
        check_places({"--out": out, "--names": names}, folder.paths)
        vectors = describe(folder)
    _write({out: vectors, names: [path.relative_to(folder.folder).as_posix() for path in folder.paths]})
    typer.echo(f"{out}: {len(vectors)} images of {folder.size} x {folder.size} pixels, {vectors.shape[1]} numbers each")


class Embedded(NamedTuple):
    """Vectors of images or texts, labels if they are wanted, names of images, and skipped files."""

    vectors: "NDArray"
    labels: "NDArray | None"
    names: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()


@app.command(
    "embed", epilog="Example: hashlearn features embed news.csv --text text --label topic -o X.npy --labels y.npy"
)
def embed(
    source: Annotated[str, typer.Argument(help="A folder of images, read with its subfolders, or a .csv file.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The .npy file of vectors, one row an image or text.")],
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of texts of a .csv file.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of labels of a .csv file.")] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write labels, .npy: of --label, or the subfolders that images are in."),
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write the images' paths, in the order of the rows.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="A model of fastembed, gist or tfidf; by default CLIP for images, MiniLM for texts."),
    ] = None,
    model_folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder with the files of the model, instead of a download.")
    ] = None,
) -> None:
    """Turn a folder of images or a column of texts into vectors, by a published model."""
    _check_npy("--out", out)
    _check_npy("--labels", labels)
    is_folder = Path(source).is_dir()
    if is_folder and (text is not None or label is not None):
        raise ValueError("--text and --label are for a .csv file; labels of images are the folders they are in")
    if not is_folder and names is not None:
        raise ValueError("--names is for a folder of images; vectors of texts are in the order of the table")
    if not is_folder and text is None:
        raise ValueError(f"--text must name the column of texts of {source}")
    if not is_folder and (label is None) != (labels is None):
        raise ValueError("--label (the column) and --labels (the file) belong together")
    check_places({"--out": out, "--labels": labels, "--names": names}, [] if is_folder else [source])

    from hashlearn.features import encoder_named

    kind = "image" if is_folder else "text"
    made = encoder_named(encoder or NETWORKS[kind], kind, model_folder)
    with progress_bars():
        if is_folder:
            found = _embedded_images(source, made, with_labels=labels is not None)
            check_places({"--out": out, "--labels": labels, "--names": names}, [Path(source, n) for n in found.names])
        else:
            found = _embedded_texts(source, text or "", label, made)
    _write({out: found.vectors, labels: found.labels, names: found.names})
    typer.echo(f"{out}: {len(found.vectors)} {kind}s, {found.vectors.shape[1]} numbers each by {made.name}")
    if found.skipped:
        shown = "; ".join(f"{name}: {reason}" for name, reason in found.skipped[:_SHOWN_SKIPPED])
        typer.echo(f"{len(found.skipped)} files skipped ({shown})", err=True)


def _embedded_images(folder: str, encoder: "Encoder", with_labels: bool) -> Embedded:
    import numpy as np

    from hashlearn.features import folder_of_images

    images = folder_of_images(folder, encoder)
    classes = [PurePosixPath(name).parts[0] for name in images.names]
    outside = next((name for name, kind in zip(images.names, classes) if name == kind), None)
    if with_labels and outside is not None:
        raise ValueError(f"--labels needs every image in a subfolder that names its class, got {outside} in {folder}")
    return Embedded(images.vectors, np.array(classes) if with_labels else None, images.names, images.skipped)


def _embedded_texts(path: str, column: str, label: str | None, encoder: "Encoder") -> Embedded:
    import numpy as np

    from hashlearn.features import texts_of_csv
    from hashlearn.progress import track

    table = texts_of_csv(path, column)
    labels = None if label is None else np.array(column_values(path, table.fields, "--label", label))
    encoder.fit(table.texts)
    starts = range(0, len(table.texts), _TEXTS_AT_A_TIME)
    blocks = [encoder.encode(table.texts[start : start + _TEXTS_AT_A_TIME]) for start in track(starts, "texts")]
    return Embedded(np.concatenate(blocks), labels)


def _check_npy(option: str, path: str | None) -> None:
    if path is not None and not path.endswith(".npy"):
        raise ValueError(f"{option} must end in .npy, got {path}")


def _write(contents: Mapping[str | None, Any]) -> None:
    """Write arrays and lines to all wanted files, or to none of them if there is an error."""
    import numpy as np

    from hashlearn.durable.files import replacing_together

    wanted = {path: content for path, content in contents.items() if path is not None}
    with replacing_together(*wanted) as beside:
        for file, content in zip(beside, wanted.values()):
            if isinstance(content, list):
                file.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
            else:
                with file.open("wb") as written:
                    np.save(written, content)
