"""How the values of vectors are kept in a file: as floats, or as bytes whose meaning was learned from training data."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice
from hashlearn.rows import as_rows, fold

DTYPES = ("float32", "float16", "int8")

_LARGEST_BYTE = 127


class Calibration(NamedTuple):
    """What the bytes of int8 vectors mean: a value is ``offset + scale * byte``, the byte from -127 to 127.

    Attributes
    ----------
    offset, scale : ndarray of shape (n_features,), float32
    """

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, X: Any) -> "Calibration":
        """Of training vectors: the bytes of a feature reach from its least to its largest value.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows (:func:`hashlearn.rows.as_rows`)

        Examples
        --------
        >>> calibration = Calibration.of([[0.0, -1.0], [2.54, 1.0]])
        >>> calibration.offset.round(2), calibration.scale.round(4)
        (array([1.27, 0.  ], dtype=float32), array([0.01  , 0.0079], dtype=float32))
        """
        rows = as_rows(X)
        if not len(rows):
            raise ValueError("X must have at least one row to calibrate by, got 0")
        low, high = fold(rows, _range_of_block, _wider)
        tiny = np.finfo(np.float32).tiny
        scale = np.where(high > low, np.maximum((high - low) / (2 * _LARGEST_BYTE), tiny), 1.0)
        return cls(((low + high) / 2).astype(np.float32), scale.astype(np.float32))


class Values(NamedTuple):
    """The type of the numbers in a file and, for int8, what they mean.

    Attributes
    ----------
    dtype : one of DTYPES
    calibration : Calibration or None
    """

    dtype: str
    calibration: Calibration | None

    @classmethod
    def checked(cls, n_features: int, dtype: Any, calibration: Any) -> "Values":
        """Raise unless int8 has a calibration of ``n_features`` features, and the others have none."""
        if check_choice("dtype", dtype, DTYPES) == "int8":
            return cls(dtype, _checked_calibration(calibration, n_features))
        if calibration is not None:
            raise ValueError(f"calibration must be None with dtype={dtype!r}: only int8 has one")
        return cls(dtype, None)

    @property
    def stored_dtype(self) -> np.dtype:
        return np.dtype(self.dtype).newbyteorder("<")

    def stored(self, block: NDArray) -> tuple[NDArray, int]:
        """The values as they are kept, and how many of them were out of range and are clipped."""
        if self.calibration is None:
            values, limit = block, float(np.finfo(self.dtype).max)
        else:
            values, limit = np.rint((block - self.calibration.offset) / self.calibration.scale), float(_LARGEST_BYTE)
        n_clipped = int(np.count_nonzero(np.abs(values) > limit))
        return np.clip(values, -limit, limit).astype(self.stored_dtype), n_clipped

    def floats(self, stored: NDArray) -> NDArray[np.float32]:
        """The values that are meant."""
        if self.calibration is None:
            return stored.astype(np.float32, copy=False)
        values = stored.astype(np.float32)
        values *= self.calibration.scale
        values += self.calibration.offset
        return values


def _checked_calibration(calibration: Any, n_features: int) -> Calibration:
    if not isinstance(calibration, Calibration):
        raise ValueError(f"int8 vectors need a calibration, Calibration.of(training vectors), got {calibration!r}")
    offset, scale = (np.asarray(values, np.float32) for values in calibration)
    if offset.shape != (n_features,) or scale.shape != (n_features,):
        raise ValueError(
            f"calibration must have an offset and a scale for each of {n_features} features, "
            f"got shapes {offset.shape} and {scale.shape}"
        )
    if not np.isfinite(offset).all() or not np.isfinite(scale).all() or scale.min() <= 0:
        raise ValueError("calibration must be finite, with scales above zero")
    return Calibration(offset, scale)


def _range_of_block(block: NDArray, first: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)


def _wider(
    left: tuple[NDArray[np.float64], NDArray[np.float64]], right: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.minimum(left[0], right[0]), np.maximum(left[1], right[1])
