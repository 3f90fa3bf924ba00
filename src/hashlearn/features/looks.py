"""The look of a picture in words for filters: its brightness, its main color and its shape."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.features.pictures import read_picture
from hashlearn.progress import track

_SIDE = 48
_GRAY = 0.18
"""Below this mean saturation a picture has no main color."""
_DARK, _BRIGHT = 0.3, 0.62
_HUES = ("red", "orange", "yellow", "green", "green", "cyan", "cyan", "blue", "blue", "purple", "pink", "red")
"""Names of the twelve parts of the color wheel; 0 is red, 4 is green, 8 is blue."""


def looks_of(folder: str | Path, names: list[str]) -> list[dict[str, str]]:
    """Brightness, color and shape of pictures, and their folders if there are several. Reports its progress.

    Parameters
    ----------
    folder : str or Path
    names : list of str
        Of files that can be read, relative to the folder.
    """
    folders = {name.rpartition("/")[0] for name in names}
    found = []
    for name in track(names, "looks of the pictures"):
        picture = read_picture(Path(folder) / name, _SIDE)
        shape = _shape(*picture.size)
        picture.thumbnail((_SIDE, _SIDE))
        looks = {
            "brightness": brightness(np.asarray(picture)),
            "color": main_color(np.asarray(picture)),
            "shape": shape,
        }
        found.append({"folder": name.rpartition("/")[0] or ".", **looks} if len(folders) > 1 else looks)
    return found


def brightness(pixels: NDArray[np.uint8]) -> str:
    """Dark, medium or bright.

    >>> brightness(np.zeros((2, 2, 3), np.uint8)), brightness(np.full((2, 2, 3), 255, np.uint8))
    ('dark', 'bright')
    """
    luma = float((pixels.reshape(-1, 3) @ np.array([0.299, 0.587, 0.114])).mean()) / 255
    return "dark" if luma < _DARK else "bright" if luma > _BRIGHT else "medium"


def main_color(pixels: NDArray[np.uint8]) -> str:
    """The main color among the saturated parts of a picture, or gray.

    >>> main_color(np.array([[[200, 20, 20]]], np.uint8)), main_color(np.full((2, 2, 3), 90, np.uint8))
    ('red', 'gray')
    """
    rgb = pixels.reshape(-1, 3).astype(np.float64) / 255
    high, low = rgb.max(axis=1), rgb.min(axis=1)
    chroma = high - low
    if chroma.mean() < _GRAY * max(0.25, high.mean()):
        return "gray"
    r, g, b = rgb.T
    safe = np.where(chroma > 0, chroma, 1)
    sector = np.where(high == r, (g - b) / safe % 6, np.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4))
    twelfth = np.round(sector * 2).astype(int) % 12
    weights: dict[str, float] = {}
    for place, weight in enumerate(np.bincount(twelfth, chroma, minlength=12)):
        weights[_HUES[place]] = weights.get(_HUES[place], 0.0) + float(weight)
    return max(weights, key=lambda name: weights[name])


def _shape(width: int, height: int) -> str:
    return "wide" if width > 1.15 * height else "tall" if height > 1.15 * width else "square"
