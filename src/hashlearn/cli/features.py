"""``hashlearn features gist``."""

from typing import Annotated

import typer

from hashlearn.cli.bars import progress_bars
from hashlearn.cli.places import check_places

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
    from hashlearn.files import replacing_together

    if not out.endswith(".npy"):
        raise ValueError(f"--out must end in .npy, got {out}")
    check_places({"--out": out, "--names": names}, [])

    import numpy as np

    from hashlearn.features import ImageFolder
    from hashlearn.features import gist as describe

    with progress_bars():
        folder = ImageFolder(images, size)
        check_places({"--out": out, "--names": names}, folder.paths)
        vectors = describe(folder)
    with replacing_together(*([out] if names is None else [out, names])) as beside:
        with beside[0].open("wb") as file:
            np.save(file, vectors)
        if names is not None:
            lines = [path.relative_to(folder.folder).as_posix() + "\n" for path in folder.paths]
            beside[1].write_text("".join(lines), encoding="utf-8")
    typer.echo(f"{out}: {len(vectors)} images of {folder.size} x {folder.size} pixels, {vectors.shape[1]} numbers each")
