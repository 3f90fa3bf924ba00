"""Pictures from files: read upright and within limits, cut to squares, made small."""

import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.features.picture_gate import OWN_FILES, PictureRefusal, decoded, middle, opened
from hashlearn.rows.formats.problems import FileProblem, reading

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
UNREAD_SUFFIXES = (".heic", ".heif", ".avif", ".cr2", ".nef", ".arw", ".dng", ".psd", ".svg")
"""Endings of pictures that cannot be read: these files are listed as skipped, other files are ignored."""

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
    names: list[str] = []
    skipped: list[Skipped] = []

    def unread(error: OSError) -> None:
        folder = Path(error.filename).relative_to(top).as_posix()
        skipped.append(Skipped(folder.encode("utf-8", "replace").decode(), f"a folder: {error.strerror}"))

    for path in (Path(parent, name) for parent, _, files in os.walk(top, onerror=unread) for name in files):
        name = path.relative_to(top).as_posix()
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES + UNREAD_SUFFIXES or name.startswith(".") or "/." in name:
            continue
        try:
            if not path.is_file():
                continue
        except OSError as error:  # its path is too long
            skipped.append(Skipped(name.encode("utf-8", "replace").decode(), error.strerror or str(error)))
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
        A trusted picture. For untrusted ones see :class:`~hashlearn.features.decoder.PictureDecoder`.
    side : int or None
        A picture whose shorter side is at least twice this long is made smaller.

    Raises
    ------
    FileProblem
        One line: no picture, a damaged one, or one beyond the limits of :mod:`~hashlearn.features.picture_gate`.
    """
    with opened_picture(source) as image, _refusing(source):
        return decoded(image, side, OWN_FILES)


def as_pictures(images: Any, side: int | None = None) -> list[Any]:
    """Pictures in any form as images of Pillow.

    Parameters
    ----------
    images : list of paths, bytes of files, images of Pillow, or arrays of shape (height, width) or (height, width, 3)
    side : int or None
        As for :func:`read_picture`, for paths and bytes.

    Examples
    --------
    >>> [picture.size for picture in as_pictures(np.zeros((2, 30, 40, 3), np.uint8))]
    [(40, 30), (40, 30)]
    """
    if isinstance(images, (str, bytes, Path)) or not hasattr(images, "__iter__"):
        raise TypeError(f"images must be a list of pictures or of paths, got {type(images).__name__}")
    library = require("PIL.Image", "images")
    return [_as_picture(library, image, side) for image in images]


def _as_picture(library: Any, image: Any, side: int | None) -> Any:
    if isinstance(image, (str, bytes, Path)):
        return read_picture(image, side)
    if isinstance(image, library.Image):
        return image.convert("RGB")
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise TypeError(
            "images must be paths, images of Pillow, or arrays of uint8 of shape (height, width, 3), got "
            f"{type(image).__name__}"
        )
    return library.fromarray(pixels).convert("RGB")


@contextmanager
def opened_picture(source: str | Path | bytes) -> Iterator[Any]:
    """The image in a file, of which only the header has been read, once it is known to be small enough."""
    require("PIL.Image", "images")
    with ExitStack() as stack:
        with _refusing(source):
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            image = stack.enter_context(opened(file, OWN_FILES))
        yield image


def square(picture: Any, side: int) -> NDArray[np.uint8]:
    """The square in the middle, scaled to ``side``; shape (side, side, 3)."""
    box = middle(picture)
    if box[2] - box[0] == side:
        return np.asarray(picture.crop(box))
    bilinear = require("PIL.Image", "images").Resampling.BILINEAR
    return np.asarray(picture.crop(box).resize((side, side), bilinear))


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


@contextmanager
def _refusing(source: str | Path | bytes) -> Iterator[None]:
    """Turn every problem of a picture into an error of one line that names its file."""
    name = Path("image") if isinstance(source, bytes) else Path(source)
    with reading(name, "image"):
        try:
            yield
        except PictureRefusal as refusal:
            raise FileProblem(name, str(refusal)) from None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
