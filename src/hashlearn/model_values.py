"""A hasher as JSON values and named arrays, and back.

Arrays become ``{"$tensor": name}`` and lie in a table of their own; the few other things JSON has no word for get a tag
too. A random generator is not a value: it becomes null.
"""

import math
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

TENSOR_KINDS = "biuf"


def encode(value: Any, path: str, tensors: MutableMapping[str, NDArray]) -> Any:
    """``value`` as JSON; its arrays are added to ``tensors`` under names that start with ``path``.

    Raises TypeError naming the path where a value is none that can be kept.
    """
    from hashlearn.hashers.base import Hasher

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, path, tensors)
    if isinstance(value, (list, tuple)):
        items = [encode(item, f"{path}.{i}", tensors) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, dict) and all(isinstance(key, str) and key.isidentifier() for key in value):
        return {key: encode(item, f"{path}.{key}", tensors) for key, item in value.items()}
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None
    if isinstance(value, Hasher):
        return {"$hasher": encode_hasher(value, tensors, path)}
    raise TypeError(f"{path.lstrip('.')} cannot be saved: {type(value).__name__} is neither a plain value nor an array")


def decode(value: Any, tensors: Mapping[str, NDArray]) -> Any:
    """What :func:`encode` was given."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: decode(item, tensors) for key, item in value.items()}
    content = value[tag]
    if tag == "$tensor":
        return tensors[content]
    if tag == "$float":
        return float(content)
    if tag == "$tuple":
        return tuple(decode(item, tensors) for item in content)
    if tag == "$strings":
        return np.array(content, dtype=object)
    if tag == "$hasher":
        return decode_hasher(content, tensors)
    raise ValueError(f"unknown kind of value {tag}")


def saveable_classes() -> dict[str, Any]:
    """Name -> class of everything that can be a model: the registry, and the other hashers beside it."""
    from hashlearn import hashers

    public = [getattr(hashers, name) for name in hashers.__all__]
    others = {cls.__name__: cls for cls in public if isinstance(cls, type) and issubclass(cls, hashers.Hasher)}
    return dict(hashers.METHODS) | {
        name: cls for name, cls in others.items() if cls not in (hashers.Hasher, *hashers.METHODS.values())
    }


def _encode_array(array: NDArray, path: str, tensors: MutableMapping[str, NDArray]) -> dict[str, Any]:
    name = path.lstrip(".")
    if array.dtype.kind in TENSOR_KINDS and array.dtype.itemsize <= 8:
        tensors[name] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"$tensor": name}
    if array.ndim == 1 and all(isinstance(item, str) for item in array):
        return {"$strings": [str(item) for item in array]}
    raise TypeError(f"{name} cannot be saved: it is an array of dtype {array.dtype}")


def encode_hasher(hasher: Any, tensors: MutableMapping[str, NDArray], path: str = "") -> dict[str, Any]:
    """Method, parameters and learned attributes of a hasher; the arrays are added to ``tensors``."""
    names = [name for name, cls in saveable_classes().items() if cls is type(hasher)]
    if not names:
        raise TypeError(f"{type(hasher).__name__} cannot be saved: it is not in hashlearn.METHODS, so nothing loads it")
    learned = {name: value for name, value in vars(hasher).items() if _is_learned(name, type(hasher))}
    parts = {"params": hasher.get_params(deep=False), "attributes": learned}
    return {"method": names[0]} | {
        part: {name: encode(value, f"{path}.{name}", tensors) for name, value in values.items()}
        for part, values in parts.items()
    }


def decode_hasher(content: Mapping[str, Any], tensors: Mapping[str, NDArray]) -> Any:
    """The hasher that :func:`encode_hasher` was given."""
    cls = saveable_classes().get(content["method"])
    if cls is None:
        raise ValueError(f"it knows no method {content['method']!r}")
    params = {name: decode(value, tensors) for name, value in content["params"].items()}
    if unknown := sorted(set(params) - set(cls().get_params(deep=False))):
        raise ValueError(f"{cls.__name__} has no parameter {', '.join(unknown)}")
    hasher = cls(**params)
    for name, value in content["attributes"].items():
        if not _is_learned(name, cls):
            raise ValueError(f"{name} is no learned attribute of {cls.__name__}")
        setattr(hasher, name, decode(value, tensors))
    return hasher


def _is_learned(name: str, cls: Any) -> bool:
    """Learned attributes end in one underscore; what the class itself defines is not data."""
    is_public = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    return is_public and name not in cls._not_saved and not callable(getattr(cls, name, None))
