"""Pictures: retrieved images, codes as strips of bits, weights as signs."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.extras import require
from hashlearn.html import render

# Pictures of signs have fixed colors: for plus, for minus, and for features without weight.
_PLUS, _MINUS, _ZERO = (36, 71, 107), (214, 224, 236), (46, 160, 67)


class Picture(NamedTuple):
    """An image, gray of shape (h, w) or color of shape (h, w, 3), and a word for readers who cannot see it."""

    image: NDArray
    word: str = ""
    is_match: bool = True

    @property
    def uri(self) -> str:
        return png_uri(self.image)


class Retrieval(NamedTuple):
    """A query and what was found for it, nearest first."""

    query: Picture
    found: Sequence[Picture]


def retrieval_grid(retrievals: Sequence[Retrieval]) -> str:
    """Queries at the left of each row, then their results, with a frame that tells whether a result is right."""
    width = max((len(retrieval.found) for retrieval in retrievals), default=0)
    return render("report/retrieval.html", retrievals=retrievals, width=width)


def bit_strips(groups: Mapping[str, NDArray]) -> str:
    """Codes drawn as rows of bits, group by group. A column of one color in a group is a bit that is the same in all
    its codes.

    Parameters
    ----------
    groups : name -> 0/1 matrix of shape (n, n_bits)
    """
    strips = {name: np.asarray(bits, bool) for name, bits in groups.items()}
    return render("report/strips.html", strips=[(name, *bits.shape, _path(bits)) for name, bits in strips.items()])


def sign_picture(signs: NDArray[np.int8], words: str) -> str:
    """Signs of weights, shape (bits, features): a pixel for each, three high."""
    n_bits, n_features = signs.shape
    pixels = np.array([_ZERO, _PLUS, _MINUS], np.uint8)[signs]  # 0, 1 and, from the end, -1
    height = 3 * n_bits
    return (
        f'<svg class="signs" viewBox="0 0 {n_features} {height}" role="img" aria-label="{html.escape(words)}">'
        f'<image href="{png_uri(pixels)}" width="{n_features}" height="{height}" preserveAspectRatio="none" '
        'style="image-rendering: pixelated"/></svg>'
    )


def png_uri(image: ArrayLike) -> str:
    """An image as a data URI: gray (h, w) from 0 (dark) to its maximum, or color (h, w, 3) as uint8 or in [0, 1]."""
    images: Any = require("matplotlib.image", "report")
    buffer = io.BytesIO()
    images.imsave(buffer, np.asarray(image), format="png", cmap="gray", vmin=0)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _path(bits: NDArray[np.bool_]) -> str:
    """One SVG path for all ones: a rectangle for every run of them."""
    steps = np.diff(np.pad(bits.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(steps == 1)
    stops = np.nonzero(steps == -1)[1]
    return "".join(f"M{a} {y}h{b - a}v1h{a - b}z" for y, a, b in zip(rows, starts, stops))
