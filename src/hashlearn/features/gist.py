"""GIST: the spatial envelope of an image (Oliva and Torralba, IJCV 2001).

An image is described by the energy of oriented band-pass filters in the cells of a coarse grid. With the parameters of
the authors' LMgist, which the hashing literature uses, these are 4 scales x 8 orientations in 4 x 4 cells: 512 numbers.

1. Grey: the mean of the color channels, stretched to 0..255.
2. Prefilter: local contrast of the logarithm. With L = log(1 + I) and G a Gaussian low-pass of 4 cycles per image,
   H = L - G * L and the result is H / (0.2 + sqrt(G * H^2)).
3. Filter k of scale s and orientation t, in the Fourier plane, f being the radius in cycles per pixel::

       exp(-3.5 (f / f_s - 1)^2 - 2 pi w (theta - theta_t)^2)     f_s = 0.3 / 1.85^s,  w = 16 n_orientations^2 / 32^2

   The image is reflected by 32 pixels on every side first, so that the border of the image is not an edge.
4. The mean of the filter's magnitude in every cell; the cells of a filter are stored column by column, as MATLAB does.

The image is square. A rectangular one is cut to the square in its middle, as LMgist does; when images have to be
scaled as well, :class:`~hashlearn.features.images.ImageFolder` scales the shorter side first.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.progress import track

BORDER = 32
"""Pixels of reflection around the prefiltered image."""

PREFILTER_BORDER = 5
CYCLES_PER_IMAGE = 4
BATCH_PIXELS = 1 << 17
"""Padded pixels that are filtered at a time, for images of any size: their spectra fit into the cache of a
processor."""

NEGLIGIBLE = 1e-8
"""Frequencies where the gain of a filter is below this are not transformed back (the peak of the gain is 1)."""


def gist(
    images: Any, *, n_scales: int = 4, n_orientations: int = 8, n_blocks: int = 4, task: str = "GIST"
) -> NDArray[np.float32]:
    """GIST descriptors of images.

    Parameters
    ----------
    images : array-like of shape (n, height, width) or (n, height, width, channels)
        Grey or color images of one size, or any object with this ``shape`` that can be sliced, such as a memmap or an
        :class:`~hashlearn.features.images.ImageFolder`. Only a batch is held in memory.
    n_scales, n_orientations, n_blocks : int
        4, 8 and 4 are the 512 numbers of the literature.
    task : str
        The name of the task for the progress callback.

    Returns
    -------
    ndarray of shape (n, n_scales * n_orientations * n_blocks**2), float32

    Examples
    --------
    >>> import numpy as np
    >>> gist(np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3))).shape
    (2, 512)
    """
    side = _side(images, n_blocks)
    filters = _filters(
        side + 2 * BORDER,
        check_integer("n_scales", n_scales, low=1),
        check_integer("n_orientations", n_orientations, low=1),
    )
    descriptors = np.empty((len(images), len(filters), n_blocks * n_blocks), np.float32)
    batch = max(1, BATCH_PIXELS // (side + 2 * BORDER) ** 2)
    for start in track(range(0, len(images), batch), task):
        rows = slice(start, min(start + batch, len(images)))
        grey = _grey_squares(np.asarray(images[rows]), side)
        descriptors[rows] = _energies(_prefiltered(grey), filters, n_blocks)
    return descriptors.reshape(len(images), -1)


def _side(images: Any, n_blocks: int) -> int:
    shape = tuple(images.shape)
    if len(shape) not in (3, 4):
        raise ValueError(f"images must have shape (n, height, width) or (n, height, width, channels), got {shape}")
    side = int(min(shape[1:3]))
    if side < check_integer("n_blocks", n_blocks, low=1):
        raise ValueError(f"images must be at least n_blocks={n_blocks} pixels wide and high, got {shape}")
    return side


def _grey_squares(images: NDArray, side: int) -> NDArray[np.float32]:
    """The square in the middle of every image, grey and stretched to 0..255."""
    top, left = (images.shape[1] - side) // 2, (images.shape[2] - side) // 2
    grey = images[:, top : top + side, left : left + side].astype(np.float32)
    if grey.ndim == 4:
        grey = grey.mean(axis=-1)
    if not np.isfinite(grey).all():
        raise ValueError("images must be finite, got NaN or infinity")
    grey -= grey.min(axis=(1, 2), keepdims=True)
    grey *= 255 / np.maximum(grey.max(axis=(1, 2), keepdims=True), 1e-6)
    return grey


def _prefiltered(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Local contrast of the logarithm: step 2."""
    side = grey.shape[1]
    odd = side % 2  # in LMgist the length of the transform is even: an odd side gets one more reflected row and column
    border = (PREFILTER_BORDER, PREFILTER_BORDER + odd)
    logarithm = np.pad(np.log1p(grey), ((0, 0), border, border), mode="symmetric")
    low_pass = _gaussian(logarithm.shape[1])
    highs = logarithm - scipy.fft.ifft2(scipy.fft.fft2(logarithm) * low_pass).real
    contrast = np.sqrt(np.abs(scipy.fft.ifft2(scipy.fft.fft2(highs**2) * low_pass)))
    inner = slice(PREFILTER_BORDER, PREFILTER_BORDER + side)
    return (highs / (0.2 + contrast))[:, inner, inner].astype(np.float32)


def _energies(images: NDArray[np.float32], filters: NDArray[np.float32], n_blocks: int) -> NDArray[np.float32]:
    """Mean magnitude per filter and cell, shape (n, n_filters, n_blocks**2): steps 3 and 4.

    Only the columns that a filter passes are transformed back, and only the rows of the image without its reflection.
    This takes a third of the work of whole inverse transforms.
    """
    n, side = images.shape[:2]
    padded = np.pad(images, ((0, 0), (BORDER, BORDER), (BORDER, BORDER)), mode="symmetric")
    spectrum = scipy.fft.fft2(padded.astype(np.complex64), overwrite_x=True)
    inner = slice(BORDER, BORDER + side)
    energies = np.empty((n, len(filters), n_blocks * n_blocks), np.float32)
    for k, gain in enumerate(filters):
        columns = np.flatnonzero(gain.max(axis=0) > NEGLIGIBLE)
        half = np.zeros((n, side, padded.shape[2]), np.complex64)
        half[:, :, columns] = scipy.fft.ifft(spectrum[:, :, columns] * gain[:, columns], axis=1)[:, inner]
        magnitude = np.abs(scipy.fft.ifft(half, axis=2, overwrite_x=True)[:, :, inner])
        energies[:, k] = _cell_means(magnitude, n_blocks).transpose(0, 2, 1).reshape(n, -1)
    return energies


def _cell_means(planes: NDArray[np.float32], n_blocks: int) -> NDArray[np.float32]:
    """Means over an n_blocks x n_blocks grid; if the side is not a multiple of n_blocks, cells differ by one pixel."""
    edges = np.linspace(0, planes.shape[1], n_blocks + 1).astype(int)
    sums = np.add.reduceat(np.add.reduceat(planes, edges[:-1], axis=1), edges[:-1], axis=2)
    sizes = np.diff(edges)
    return (sums / np.outer(sizes, sizes)).astype(np.float32)


@lru_cache(maxsize=8)
def _filters(side: int, n_scales: int, n_orientations: int) -> NDArray[np.float32]:
    """The transfer functions, shape (n_scales * n_orientations, side, side), in the order of an FFT."""
    fx, fy = _frequencies(side)
    radius, angle = np.hypot(fx, fy) / side, np.angle(fx + 1j * fy)
    width = 16 * n_orientations**2 / 32**2
    filters = []
    for scale in range(n_scales):
        for orientation in range(n_orientations):
            turned = angle + np.pi * orientation / n_orientations
            turned += 2 * np.pi * (turned < -np.pi) - 2 * np.pi * (turned > np.pi)
            center = 0.3 / 1.85**scale
            filters.append(np.exp(-3.5 * (radius / center - 1) ** 2 - 2 * np.pi * width * turned**2))
    return np.asarray(filters, np.float32)


@lru_cache(maxsize=8)
def _gaussian(side: int) -> NDArray[np.float32]:
    fx, fy = _frequencies(side)
    return np.exp(-(fx**2 + fy**2) * np.log(2) / CYCLES_PER_IMAGE**2).astype(np.float32)


def _frequencies(side: int) -> tuple[NDArray, NDArray]:
    """Cycles per image along x and y at every position of an FFT."""
    line = np.fft.ifftshift(np.arange(side) - side // 2)
    fx, fy = np.meshgrid(line, line)
    return fx, fy
