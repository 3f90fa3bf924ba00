"""``hashlearn features gist``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from hashlearn.cli.bars import progress_bars

app = typer.Typer(help="Turn images into vectors.", no_args_is_help=True)


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
    from hashlearn.files import check_writable, replacing_together

    if not out.endswith(".npy"):
        raise ValueError(f"--out must end in .npy, got {out}")
    targets = [out] if names is None else [out, names]
    for option, path in zip(("--out", "--names"), targets):
        check_writable(path, option)

    import numpy as np

    from hashlearn.features import ImageFolder
    from hashlearn.features import gist as describe

    with progress_bars():
        folder = ImageFolder(images, size)
        _check_apart(out, names, folder.paths)
        vectors = describe(folder)
    with replacing_together(*targets) as beside:
        with beside[0].open("wb") as file:
            np.save(file, vectors)
        if names is not None:
            lines = [path.relative_to(folder.folder).as_posix() + "\n" for path in folder.paths]
            beside[1].write_text("".join(lines), encoding="utf-8")
    typer.echo(f"{out}: {len(vectors)} images of {folder.size} x {folder.size} pixels, {vectors.shape[1]} numbers each")


def _check_apart(out: str, names: str | None, images: list[Path]) -> None:
    """Neither output may be the other one, or one of the images."""
    if names is None:
        return
    target = os.path.realpath(names)
    if target == os.path.realpath(out):
        raise ValueError(f"--out and --names must be two files, got {out} twice")
    if target in map(os.path.realpath, images):
        raise ValueError(f"--names must not be one of the images, got {names}")
