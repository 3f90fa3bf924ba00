"""Pictures to GIST descriptors: the encoder that needs no download."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.features.gist import gist
from hashlearn.features.pictures import square

SIDE = 64
"""The side, in pixels, to which a picture is scaled. GIST looks at coarse structure; 256 pixels take ten times as
long."""


class GistEncoder:
    """GIST of the square in the middle of a picture, 512 numbers.

    Parameters
    ----------
    side : int
        The side of the square, at least 4.
    """

    kind = "image"
    name = "gist"
    metric = "euclidean"

    def __init__(self, side: int = SIDE):
        self.side = check_integer("side", side, low=4)

    def fit(self, items: Sequence[Any]) -> Self:
        return self

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        squares = [square(picture, self.side) for picture in items]
        return gist(np.stack(squares)) if squares else np.empty((0, 512), np.float32)

    def config(self) -> dict[str, Any]:
        return {"side": self.side}

    def tensors(self) -> dict[str, NDArray]:
        return {}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        return cls(**parameters)
