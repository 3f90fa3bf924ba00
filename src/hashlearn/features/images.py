"""A folder of image files, read a slice at a time."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.extras import require
from hashlearn.features.pictures import SUFFIXES, opened_picture, read_picture, square
from hashlearn.names import natural_key

MIXED_SIZE = 256
"""The side to which images of different sizes are scaled, as in LMgist's demonstration."""


class ImageFolder:
    """The images below a folder, in the order of their names (im2 before im10), as one array that is read on demand.

    Slicing gives ``uint8`` images of shape (n, size, size, 3), so that a folder of any length can be passed to
    :func:`~hashlearn.features.gist.gist`. An image is scaled so that its shorter side is ``size``, then cut to the
    square in its middle.

    Parameters
    ----------
    folder : str or Path
        Searched with its subfolders.
    size : int or None, default=None
        The side of the squares. None takes the images as they are if they all have one size (cut to a square), and
        256 pixels otherwise.

    Attributes
    ----------
    paths : list of Path
    shape : (n, size, size, 3)
    """

    def __init__(self, folder: str | Path, size: int | None = None):
        require("PIL.Image", "images")
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ValueError(f"folder must be a folder of images, got {folder}")
        files = (path for path in self.folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
        self.paths = sorted(files, key=lambda path: natural_key(path.relative_to(self.folder).as_posix()))
        if not self.paths:
            raise ValueError(f"no images in {folder}: looked for {' '.join(SUFFIXES)}")
        self.size = self._common_size() if size is None else check_integer("size", size, low=1)
        self.shape = (len(self.paths), self.size, self.size, 3)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        """The images of a slice, shape (n, size, size, 3)."""
        squares = [square(read_picture(path), self.size) for path in self.paths[rows]]
        return np.stack(squares) if squares else np.empty((0, *self.shape[1:]), np.uint8)

    def _common_size(self) -> int:
        sizes = set()
        for path in self.paths:
            with opened_picture(path) as image:
                sizes.add(image.size)
        return min(sizes.pop()) if len(sizes) == 1 else MIXED_SIZE
