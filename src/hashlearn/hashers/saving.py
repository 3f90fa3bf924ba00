"""Write a hasher, or a pipeline that ends in one, to a model folder, and read it back.

An array becomes ``{"$tensor": name}``, and its numbers are kept in a separate table. Other values that JSON cannot
express get a tag too. A random generator is not a value and becomes null. Reading runs no code from the file: a class
must be in the registry or in :data:`OTHER_CLASSES`, and its parameters and learned attributes are plain values and
arrays.
"""

import math
import sys
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from hashlearn.durable.model_folder import ModelState, read_model, write_model, write_new_model
from hashlearn.hashers.registry import METHODS

TENSOR_KINDS = "biuf"

OTHER_CLASSES = {
    "HasherUnion": "hashlearn.hashers.union",
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "Pipeline": "sklearn.pipeline",
    "StandardScaler": "sklearn.preprocessing",
    "TruncatedSVD": "sklearn.decomposition",
}
"""Class -> module of what can be saved beside the methods; all state of these is plain values and arrays."""


def is_pipeline(value: Any) -> bool:
    """Whether a value is a pipeline of scikit-learn.

    A caller with a pipeline has imported scikit-learn's module already. The import is slow, and most searches do not
    need it.
    """
    module = sys.modules.get("sklearn.pipeline")
    return module is not None and isinstance(value, module.Pipeline)


def last_step(hasher: Any) -> Any:
    """The hasher that a pipeline ends in; a hasher itself."""
    return hasher[-1] if is_pipeline(hasher) and len(hasher) else hasher


def save_hasher(hasher: Any, folder: str | Path) -> str:
    """Write a fitted hasher, or a pipeline that ends in one, to a folder, in place of the model that may be there.

    Parameters
    ----------
    hasher : Hasher or sklearn.pipeline.Pipeline
        Fitted. A pipeline is made of the transformers of :data:`OTHER_CLASSES` and a hasher.
    folder : str or Path
        New, empty or a model already; its parent exists.

    Returns
    -------
    str
        The digest of the model, as :func:`digest_of` gives it.
    """
    return write_model(state_of(hasher), folder)


def save_new_hasher(hasher: Any, folder: Path) -> str:
    """As :func:`save_hasher`, to a new folder that no other process writes to."""
    return write_new_model(state_of(hasher), folder)


def load_hasher(folder: str | Path) -> Any:
    """Read what :func:`save_hasher` wrote to a folder.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        The folder holds no model, or the model is truncated, edited or from a newer version.
    """
    return load_with_digest(folder)[0]


def load_with_digest(folder: str | Path) -> tuple[Any, str]:
    """As :func:`load_hasher`, with the digest of the model: :func:`digest_of` the hasher that was saved."""
    saved = read_model(folder)
    state = saved.state
    try:
        hasher = decode_estimator(state.model, state.tensors)
        fits = n_bits_of(hasher) == state.n_bits and hasher.n_features_in_ == state.n_features
    except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{folder} is not a hashlearn model that this version can read: {error}") from None
    if not fits:
        raise ValueError(f"{folder} is not a hashlearn model: n_bits or n_features is not the model's")
    return hasher, saved.digest


def state_of(hasher: Any) -> ModelState:
    """The saved parts of a fitted hasher or pipeline."""
    tensors: dict[str, NDArray] = {}
    model = encode_estimator(hasher, tensors)
    if not tensors or not all(hasattr(part, "n_features_in_") for part in (hasher, last_step(hasher))):
        raise NotFittedError(f"{hasher!r:.80} is not fitted yet: it must be fitted as a whole before it is saved")
    return ModelState(model, tensors, n_bits_of(hasher), int(hasher.n_features_in_))


def digest_of(hasher: Any) -> str:
    """A digest that is different for every fitted hasher.

    Codes of hashers with different digests cannot be compared.
    """
    return state_of(hasher).digest


def n_bits_of(hasher: Any) -> int:
    """Bits of a code of a hasher, or of the hasher a pipeline ends in."""
    return int(last_step(hasher).n_bits)


def encode(value: Any, path: str, tensors: MutableMapping[str, NDArray]) -> Any:
    """``value`` as JSON; its arrays are added to ``tensors`` under names that start with ``path``.

    Raises a TypeError that names the path of a value that cannot be kept.
    """
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
    if isinstance(value, BaseEstimator):
        return {"$hasher": encode_estimator(value, tensors, path)}
    raise TypeError(f"{path.lstrip('.')} cannot be saved: {type(value).__name__} is neither a plain value nor an array")


def decode(value: Any, tensors: Mapping[str, NDArray]) -> Any:
    """The inverse of :func:`encode`."""
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
        return decode_estimator(content, tensors)
    raise ValueError(f"unknown kind of value {tag}")


def encode_estimator(estimator: Any, tensors: MutableMapping[str, NDArray], path: str = "") -> dict[str, Any]:
    """Name, parameters and learned attributes of an estimator; the arrays are added to ``tensors``."""
    learned = {name: value for name, value in vars(estimator).items() if _is_learned(name, type(estimator))}
    parts = {"params": estimator.get_params(deep=False), "attributes": learned}
    return {"method": _name_of(type(estimator))} | {
        part: {name: encode(value, f"{path}.{name}", tensors) for name, value in values.items()}
        for part, values in parts.items()
    }


def decode_estimator(content: Mapping[str, Any], tensors: Mapping[str, NDArray]) -> Any:
    """The estimator that :func:`encode_estimator` was given."""
    cls = _class_named(content["method"])
    params = {name: decode(value, tensors) for name, value in content["params"].items()}
    if unknown := sorted(set(params) - set(cls._get_param_names())):
        raise ValueError(f"{cls.__name__} has no parameter {', '.join(unknown)}")
    estimator = cls(**params)
    for name, value in content["attributes"].items():
        if not _is_learned(name, cls):
            raise ValueError(f"{name} is no learned attribute of {cls.__name__}")
        setattr(estimator, name, decode(value, tensors))
    return estimator


def _name_of(cls: type) -> str:
    own = cls.__module__.rpartition(".")[2]  # a method of ours has the name of its module
    name = own if METHODS.get(own) is cls else next((name for name in METHODS if METHODS[name] is cls), None)
    if name is not None:
        return name
    name = cls.__name__
    if name in OTHER_CLASSES and _class_named(name) is cls:
        return name
    if cls.__module__.startswith("sklearn."):
        raise TypeError(f"{name} cannot be saved: beside the methods only {', '.join(OTHER_CLASSES)} can")
    raise TypeError(f"{name} cannot be saved: it is not in hashlearn.METHODS, so nothing loads it")


def _class_named(name: Any) -> Any:
    if name in METHODS:
        return METHODS[name]
    if name in OTHER_CLASSES:
        return getattr(import_module(OTHER_CLASSES[name]), name)
    raise ValueError(f"it knows no method {name!r}")


def _encode_array(array: NDArray, path: str, tensors: MutableMapping[str, NDArray]) -> dict[str, Any]:
    name = path.lstrip(".")
    if array.dtype.kind in TENSOR_KINDS and array.dtype.itemsize <= 8:
        tensors[name] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"$tensor": name}
    if array.ndim == 1 and all(isinstance(item, str) for item in array):
        return {"$strings": [str(item) for item in array]}
    raise TypeError(f"{name} cannot be saved: it is an array of dtype {array.dtype}")


def _is_learned(name: str, cls: Any) -> bool:
    """Learned attributes: names that end in one underscore and are not defined by the class itself."""
    is_public = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    return is_public and name not in getattr(cls, "_not_saved", ()) and not callable(getattr(cls, name, None))
