"""One number beside every code, in one byte."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Corrections(NamedTuple):
    """Numbers that are added to the distances of codes from any query: ``offset + scale * values``, one for every code.

    Parameters
    ----------
    values : ndarray of shape (n,), uint8
        One byte for every code.
    scale : float
        Above 0.
    offset : float
        What the byte 0 stands for.

    Examples
    --------
    >>> corrections = Corrections.of([2.0, 2.5, 4.0], scale=0.5, offset=2.0)
    >>> corrections.values
    array([0, 1, 4], dtype=uint8)
    >>> corrections.numbers()
    array([2. , 2.5, 4. ])
    """

    values: NDArray[np.uint8]
    scale: float
    offset: float

    @classmethod
    def of(cls, numbers: ArrayLike, scale: float, offset: float) -> Self:
        """The bytes that stand for numbers; numbers beyond ``offset`` and ``offset + 255 * scale`` are clipped.

        Parameters
        ----------
        numbers : array of shape (n,)
            The numbers that the bytes stand for.
        scale : float
            Above 0.
        offset : float
            What the byte 0 stands for.

        Returns
        -------
        Corrections
            With one byte for every number.
        """
        steps = (np.asarray(numbers, np.float64) - offset) / scale
        return cls(np.clip(np.rint(steps), 0, 255).astype(np.uint8), scale, offset)

    def numbers(self) -> NDArray[np.float64]:
        """The numbers that the bytes stand for.

        Returns
        -------
        ndarray of shape (n,), float64
            One number for every code.
        """
        return self.offset + self.scale * self.values.astype(np.float64)
