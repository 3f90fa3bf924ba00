"""Checks of arguments: one line that names the argument, what it got and what is wanted."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


def plain_array(value: ArrayLike, name: str) -> NDArray:
    """``value`` as an array. A masked array is refused, because numpy would drop its mask without a warning."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array or a list, got a masked array; pass {name}.compressed()")
    return np.asarray(value)


def check_integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """``value`` as an int within [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    _check_range(name, int(value), low, high)
    return int(value)


def check_count(name: str, value: Any, *, auto: int, low: int = 1, high: int) -> int:
    """A number of things, at most ``high``; "auto" stands for ``auto``, or for ``high`` if that is less."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"])
        return min(auto, high)
    return check_integer(name, value, low=low, high=high)


def check_number(name: str, value: Any, *, low: float | None = None, high: float | None = None) -> float:
    """``value`` as a finite float within [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not np.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    _check_range(name, float(value), low, high)
    return float(value)


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """``value`` if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_matrix(name: str, value: Any, shape: tuple[int | None, int | None]) -> NDArray[np.float64]:
    """``value`` as a finite float64 matrix; where ``shape`` has None, any length is allowed."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}") from None
    if array.ndim != 2 or any(side is not None and side != got for side, got in zip(shape, array.shape)):
        wanted = f"({', '.join('any' if side is None else str(side) for side in shape)})"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def check_vectors(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse shapes and types that vectors cannot have; the error does not print the values."""
    if dtype.kind == "V":
        raise ValueError(f"{name} must be numbers, got records; numpy's structured_to_unstructured converts them")
    if shape == (0,):
        raise ValueError(f"{name} must have shape (n, n_features), got no vectors, and so no number of features")
    if len(shape) == 1:
        raise ValueError(
            f"{name} must be 2-D, got one vector of length {shape[0]}. "
            "Reshape your data: pass X[None] or [X]"  # the words that scikit-learn's checks look for
        )
    if len(shape) != 2:
        raise ValueError(f"{name} must have shape (n, n_features), got {shape}")
    reason = why_no_numbers(dtype)
    if reason is not None:
        raise ValueError(f"{name} must be {reason}")


def why_no_numbers(dtype: np.dtype) -> str | None:
    """The kind of values that an array should have instead of its own; None if its values are numbers."""
    if dtype.kind == "c":
        return f"real numbers, got {dtype}. Complex data not supported"  # scikit-learn's words again
    if dtype.kind == "f" and dtype.itemsize > 8:
        return f"float64 or smaller, got {dtype}; convert with X.astype(np.float64)"
    if dtype.kind in "SUT":
        return f"numbers, got {dtype}; convert with X.astype(float)"
    if dtype.kind not in "buif":
        return f"numbers, got {dtype}"
    return None


def check_rows(name: str, value: Any, n: int) -> NDArray[np.intp]:
    """``value`` as the numbers of at least two of n rows."""
    rows = np.asarray(value)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise TypeError(f"{name} must be a list of row numbers, got shape {rows.shape} of {rows.dtype}")
    if len(rows) < 2:
        raise ValueError(f"{name} must hold at least 2 row numbers, got {len(rows)}")
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"{name} must hold row numbers from 0 to {n - 1}, got {rows.min()} to {rows.max()}")
    return rows.astype(np.intp)


class Range(NamedTuple):
    """The values that a parameter may have: a number within limits, one of a few words, None, or an array.

    ``entries`` are the ranges of the entries of a parameter that is a dict.
    """

    kind: Any = None
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    none: bool = False
    array: bool = False
    entries: Mapping[str, "Range"] | None = None


def check_parameters(parameters: Mapping[str, Any], ranges: Mapping[str, Range]) -> None:
    """Refuse a parameter outside its range."""
    for name, allowed in ranges.items():
        value = parameters[name]
        if allowed.entries is not None and value is not None:
            _check_entries(name, value, allowed.entries)
        elif (value is None and allowed.none) or (allowed.array and not isinstance(value, str)):
            continue
        elif allowed.kind is bool:
            check_flag(name, value)
        elif allowed.kind is None or (isinstance(value, str) and allowed.words):
            check_choice(name, value, allowed.words)
        elif allowed.kind is int:
            check_integer(name, value, low=allowed.low, high=allowed.high)  # type: ignore[arg-type]
        else:
            check_number(name, value, low=allowed.low, high=allowed.high)


def _check_entries(name: str, value: Any, ranges: Mapping[str, Range]) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict or None, got {value!r}")
    for unknown in value.keys() - ranges.keys():
        raise ValueError(f"{name} has no entry {unknown!r}; it has {', '.join(ranges)}")
    given = {f"{name}[{key!r}]": value[key] for key in ranges if key in value}
    check_parameters(given, {f"{name}[{key!r}]": ranges[key] for key in ranges if key in value})


def check_flag(name: str, value: Any) -> bool:
    """``value`` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _check_range(name: str, value: float, low: float | None, high: float | None) -> None:
    if low is not None and value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    if high is not None and value > high:
        raise ValueError(f"{name} must be at most {high}, got {value}")
