"""The pictures of a collection. Only indexed pictures are served: names are looked up and never used as paths."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.features.pictures import opened_picture, read_picture, thumbnail

THUMBNAILS_KEPT = 2048
SHOWN_SIDE = 400
"""Size of a picture in a grid, in pixels. Rows are up to 184 pixels high, and twice that on fine screens."""
LARGE_SIDE = 1800
_LARGE_KEPT = 32
_TURNED = (5, 6, 7, 8)
"""Orientations of a camera that was held upright: width and height are exchanged."""


class Pictures(Protocol):
    """Pictures of items."""

    def __contains__(self, key: Any) -> bool:
        """Whether the item with this id has a picture."""

    def thumbnail(self, key: Any) -> bytes | None:
        """A small PNG or JPEG file; None if the item has no picture or its file cannot be read any more."""

    def large(self, key: Any) -> bytes | None:
        """The same picture, up to the size of a screen."""

    def size(self, key: Any) -> tuple[int, int] | None:
        """Width and height of the upright picture; None if its file cannot be read any more."""


class FolderPictures:
    """Pictures of files below a folder; the id of an item is the name of its file.

    Parameters
    ----------
    folder : str or Path
    names : names relative to the folder
        The indexed pictures.
    """

    def __init__(self, folder: str | Path, names: Iterable[str]):
        self.folder = Path(folder).resolve()
        self.names = frozenset(names)
        self._small, self._large, self._sizes = _Kept(THUMBNAILS_KEPT), _Kept(_LARGE_KEPT), _Kept(1 << 16)

    def __contains__(self, key: Any) -> bool:
        return key in self.names

    def thumbnail(self, key: Any) -> bytes | None:
        return self._small.get(key, lambda name: self._made(name, SHOWN_SIDE)) if key in self else None

    def large(self, key: Any) -> bytes | None:
        return self._large.get(key, lambda name: self._made(name, LARGE_SIDE)) if key in self else None

    def size(self, key: Any) -> tuple[int, int] | None:
        return self._sizes.get(key, self._size) if key in self else None

    def _size(self, name: str) -> tuple[int, int] | None:
        path = self._path(name)
        try:
            if path is None:
                return None
            with opened_picture(path) as image:
                width, height = image.size
                return (height, width) if image.getexif().get(0x0112) in _TURNED else (width, height)
        except (OSError, ValueError):
            return None

    def _made(self, name: str, side: int) -> bytes | None:
        path = self._path(name)
        try:
            return None if path is None else thumbnail(read_picture(path, side), side)
        except (OSError, ValueError):
            return None

    def _path(self, name: str) -> Path | None:
        path = (self.folder / name).resolve()
        return path if path.is_relative_to(self.folder) else None  # a link may have been put there since


class ArrayPictures:
    """Pictures as an array of shape (n, height, width) or (n, height, width, 3), uint8; item i has row i."""

    def __init__(self, images: NDArray[np.uint8]):
        self.images = images
        self._small = _Kept(THUMBNAILS_KEPT)

    @classmethod
    def of_sprite(cls, path: str | Path, n: int) -> "ArrayPictures":
        """The tiles of one picture, row by row: a square grid, as in the Embedding Projector."""
        pixels = np.asarray(read_picture(path))
        tiles = int(np.ceil(np.sqrt(n)))
        height, width = pixels.shape[0] // tiles, pixels.shape[1] // tiles
        if pixels.shape[:2] != (height * tiles, width * tiles) or not height or not width:
            raise ValueError(
                f"images must be a square grid of {tiles} x {tiles} tiles for {n} vectors, got {path} of "
                f"{pixels.shape[1]} x {pixels.shape[0]} pixels"
            )
        grid = pixels.reshape(tiles, height, tiles, width, 3).swapaxes(1, 2)
        return cls(grid.reshape(-1, height, width, 3)[:n])

    def __contains__(self, key: Any) -> bool:
        return isinstance(key, int) and 0 <= key < len(self.images)

    def thumbnail(self, key: Any) -> bytes | None:
        return self._small.get(key, self._made) if key in self else None

    def large(self, key: Any) -> bytes | None:
        return self.thumbnail(key)

    def size(self, key: Any) -> tuple[int, int] | None:
        return (self.images.shape[2], self.images.shape[1]) if key in self else None

    def _made(self, row: int) -> bytes:
        return thumbnail(require("PIL.Image", "images").fromarray(self.images[row]).convert("RGB"))


class _Kept:
    """The values of the latest keys."""

    def __init__(self, most: int):
        self.most = most
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[Any], Any]) -> Any:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make(key)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return made
