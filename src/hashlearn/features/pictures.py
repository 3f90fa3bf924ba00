"""Pictures as people have them: read upright and within limits, cut to squares, made small.

A picture of a stranger may be damaged, may be something else, and may promise far more pixels than the file has bytes.
Only the header is read before its size is known, and only formats without programs in them are opened.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.formats.problems import FileProblem, reading

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
UNREAD_SUFFIXES = (".heic", ".heif", ".avif", ".cr2", ".nef", ".arw", ".dng", ".psd", ".svg")
"""Of pictures that are named among the skipped ones instead of passed over."""

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MAX_PIXELS = 80_000_000
"""Of a picture that is decoded whole. Pillow warns above 89 million."""

THUMBNAIL_SIDE = 192


class Skipped(NamedTuple):
    """A file that was left out, and why, in one line."""

    name: str
    reason: str


class PictureNames(NamedTuple):
    """The pictures below a folder: names with ``/``, in ascending order."""

    names: list[str]
    skipped: list[Skipped]


def picture_names(folder: str | Path) -> PictureNames:
    """The names of the pictures below a folder, subfolders included; hidden files are passed over.

    Links are not followed out of the folder: a picture of another place is skipped.
    """
    top = Path(folder)
    if not top.is_dir():
        raise ValueError(f"folder must be a folder of images, got {folder}")
    inside = top.resolve()
    resolved = cache(Path.resolve)  # of the folders: it takes longer than all the rest
    names, skipped = [], []
    for path in top.rglob("*"):
        name = path.relative_to(top).as_posix()
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES + UNREAD_SUFFIXES or name.startswith(".") or "/." in name or not path.is_file():
            continue
        if suffix in UNREAD_SUFFIXES:
            skipped.append(Skipped(name, f"{suffix} files are not read; convert it to JPEG or PNG"))
        elif not (path.resolve() if path.is_symlink() else resolved(path.parent)).is_relative_to(inside):
            skipped.append(Skipped(name, "a link to a place outside the folder"))
        elif not _is_text(name):
            skipped.append(Skipped(name.encode("utf-8", "replace").decode(), "its name is no text"))
        else:
            names.append(name)
    return PictureNames(sorted(names), sorted(skipped))


def read_picture(source: str | Path | bytes, side: int | None = None) -> Any:
    """A picture, upright and in color, as an image of Pillow.

    Parameters
    ----------
    source : path, or the bytes of a file
    side : int or None
        Where the shorter side need not be longer than this, a large JPEG is decoded at a fraction of its size, which
        is many times faster.

    Raises
    ------
    FileProblem
        One line: no picture, a damaged one, or one of more than ``MAX_PIXELS`` pixels.
    """
    transpose = require("PIL.ImageOps", "images").exif_transpose
    with opened_picture(source) as image, reading(_name_of(source), "image"):
        if side is not None:
            scale = side / min(image.size)
            image.draft("RGB", (round(image.width * scale), round(image.height * scale)))
        return transpose(image).convert("RGB")


@contextmanager
def opened_picture(source: str | Path | bytes) -> Iterator[Any]:
    """The image in a file, of which only the header has been read, once it is known to be small enough."""
    pillow = require("PIL.Image", "images")
    name = _name_of(source)
    with reading(name, "image"):
        try:
            image = pillow.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)
        except pillow.UnidentifiedImageError:
            raise FileProblem(name, f"not a readable image file; these are read: {', '.join(FORMATS)}") from None
        except pillow.DecompressionBombError:
            raise FileProblem(name, f"too many pixels, at most {MAX_PIXELS:,} are read") from None
    with image:
        if image.width * image.height > MAX_PIXELS:
            raise FileProblem(name, f"{image.width} x {image.height} pixels, at most {MAX_PIXELS:,} are read")
        yield image


def square(picture: Any, side: int) -> NDArray[np.uint8]:
    """The square in the middle, its shorter side scaled to ``side``; shape (side, side, 3)."""
    scale = side / min(picture.size)
    if scale != 1:
        bilinear = require("PIL.Image", "images").Resampling.BILINEAR
        picture = picture.resize([max(side, round(length * scale)) for length in picture.size], bilinear)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return np.asarray(picture.crop((left, top, left + side, top + side)))


def thumbnail(picture: Any, side: int = THUMBNAIL_SIDE) -> bytes:
    """A picture made small, as a JPEG file without the data of the camera; one that is small keeps its pixels (PNG)."""
    file = io.BytesIO()
    if max(picture.size) <= side // 2:
        picture.save(file, "PNG")
    else:
        small = picture.copy()
        small.thumbnail((side, side))
        small.save(file, "JPEG", quality=85)
    return file.getvalue()


def _name_of(source: str | Path | bytes) -> Path:
    return Path("image") if isinstance(source, bytes) else Path(source)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
