"""Picture files: read upright and within limits, cut to squares, made small.

A picture file may be damaged, may be another kind of file, and a small file may have very many pixels. Only the header
is read before the size is known, and only formats that hold no programs are opened.
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
"""Endings of pictures that cannot be read: these files are listed as skipped, other files are ignored."""

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MAX_PIXELS = 80_000_000
"""The most pixels of a picture that is decoded. Pillow warns above 89 million."""

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
    """The names of the pictures below a folder, subfolders included; hidden files are ignored.

    Links that lead out of the folder are not followed: such a picture is skipped.
    """
    top = Path(folder)
    if not top.is_dir():
        raise ValueError(f"folder must be a folder of images, got {folder}")
    inside = top.resolve()
    resolved = cache(Path.resolve)  # resolving a folder takes longer than everything else here
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
        The shorter side that is needed: a larger JPEG is decoded at a fraction of its size, which is many times faster.

    Raises
    ------
    FileProblem
        If it is no picture, is damaged, or has more than ``MAX_PIXELS`` pixels; one line.
    """
    transpose = require("PIL.ImageOps", "images").exif_transpose
    with opened_picture(source) as image, reading(_name_of(source), "image"):
        if side is not None:
            scale = side / min(image.size)
            image.draft("RGB", (round(image.width * scale), round(image.height * scale)))
        return transpose(image).convert("RGB")


@contextmanager
def opened_picture(source: str | Path | bytes) -> Iterator[Any]:
    """The image in a file, of which only the header has been read; it has at most ``MAX_PIXELS`` pixels."""
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
    """A small copy of a picture, as a JPEG file without camera data; a picture that is small already keeps its pixels
    (PNG)."""
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
