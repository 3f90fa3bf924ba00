"""Pictures to vectors that are nearly equal for copies of a picture, for near-duplicates.

A copy may be of another size, paler, noisy, compressed, or moved by a little. The whole picture is scaled to 32 x 32
pixels, its mean is subtracted, and its contrast is scaled to one. Its vector has four parts:

1. the magnitudes of the 190 lowest frequencies, as logarithms, of length one. A move changes only phases (the borders,
   where new pixels come in, are faded out); noise changes mostly higher frequencies;
2. 4 x 4 means, with little weight: the same thing at another place is another picture;
3. the mean brightness: a negative has the same magnitudes;
4. the mean color: the same shirt in another color is another picture.

Nothing is learned: a picture's vector depends on that picture alone.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require

SIDE = 32
N_FREQUENCIES = 10
N_FEATURES = (2 * N_FREQUENCIES - 1) * N_FREQUENCIES + 16 + 1 + 2
PLACE, BRIGHTNESS, COLOR = 0.2, 0.5, 2.0
"""Weights of the parts against the frequencies, whose length is one."""

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_FLAT = 1e-3  # standard deviation below which a picture has no contrast: a quarter of one of 256 levels


def _fading() -> NDArray[np.float64]:
    """A Tukey window without its zeros: a quarter at each border follows a cosine (importing scipy.signal is slow)."""
    places = np.arange(1, SIDE + 1)
    from_border = np.minimum(places, SIDE + 1 - places) / ((SIDE + 1) / 4)
    return 0.5 - 0.5 * np.cos(np.pi * np.minimum(from_border, 1))


FADED = _fading()[:, None] * _fading()


class SpectrumEncoder:
    """Low frequencies of a picture, without their phases, and its coarse brightness and color.

    Examples
    --------
    >>> from PIL import Image
    >>> pixels = np.zeros((40, 40, 3), np.uint8)
    >>> pixels[8:20, 10:30] = 200
    >>> moved = np.roll(pixels, 1, axis=0)
    >>> first, second, negative = SpectrumEncoder().encode([Image.fromarray(p) for p in (pixels, moved, 255 - pixels)])
    >>> bool(np.linalg.norm(first - second) < 0.1 < np.linalg.norm(first - negative))
    True
    """

    kind = "image"
    name = "spectrum"
    metric = "euclidean"

    def fit(self, items: Sequence[Any]) -> Self:
        return self

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        if not len(items):
            return np.empty((0, N_FEATURES), np.float32)
        bilinear = require("PIL.Image", "images").Resampling.BILINEAR
        return encoded(np.stack([np.asarray(picture.resize((SIDE, SIDE), bilinear)) for picture in items]))

    def config(self) -> dict[str, Any]:
        return {}

    def tensors(self) -> dict[str, NDArray]:
        return {}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        return cls(**parameters)


def encoded(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The vectors of pictures of shape (n, 32, 32, 3)."""
    colors = pixels.astype(np.float32) / 255
    luma = colors @ _LUMA
    brightness = luma.mean(axis=(1, 2))
    contrast = np.maximum(luma.std(axis=(1, 2)), _FLAT)
    normal = (luma - brightness[:, None, None]) / contrast[:, None, None]

    magnitudes = np.abs(np.fft.rfft2(normal * FADED)) / SIDE
    low = np.concatenate([magnitudes[:, :N_FREQUENCIES], magnitudes[:, 1 - N_FREQUENCIES :]], axis=1)
    logarithms = np.log1p(low[:, :, :N_FREQUENCIES]).reshape(len(pixels), -1)
    lengths = np.maximum(np.linalg.norm(logarithms, axis=1, keepdims=True), 1)

    means = normal.reshape(-1, 4, SIDE // 4, 4, SIDE // 4).mean(axis=(2, 4)).reshape(len(pixels), -1) / 4
    blue_and_red = colors.mean(axis=(1, 2))[:, [2, 0]] - brightness[:, None]
    color = blue_and_red * (0.564, 0.713)  # Cb and Cr of ITU-R BT.601
    parts = [logarithms / lengths, PLACE * means, BRIGHTNESS * brightness[:, None], COLOR * color]
    return np.concatenate(parts, axis=1).astype(np.float32)
