"""A model as a folder: ``config.json`` for people and tools, ``model.safetensors`` for the arrays.

This module handles only JSON values and arrays; :mod:`hashlearn.hashers.saving` knows their meaning. Both files have
checksums, so a truncated, edited or mixed folder is refused.

A save takes effect with one rename. The whole config is also in the header of ``model.safetensors``. When that file is
replaced, the new model is there; ``config.json`` follows. If the process dies between the two steps, ``config.json`` is
that of the old model, and the header is used.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from hashlearn.durable.files import LEFTOVER, json_digest, parsed_json, read_json, replacing, writing_new
from hashlearn.durable.locks import LOCK, exclusive_folder
from hashlearn.version import __version__

FORMAT = "hashlearn model"
FORMAT_VERSION = 1
CONFIG = "config.json"
TENSORS = "model.safetensors"


class ModelState(NamedTuple):
    """The state of an estimator in a model folder.

    Attributes
    ----------
    model : dict of JSON values; arrays are named in it
    tensors : dict of arrays by name
    n_bits, n_features : int
    """

    model: dict[str, Any]
    tensors: dict[str, NDArray]
    n_bits: int
    n_features: int

    @property
    def digest(self) -> str:
        """A digest that identifies this model. It depends only on parameters and arrays."""
        return json_digest(self.model, _tensors_checksum(self.tensors))


class SavedModel(NamedTuple):
    """The state read from a folder, and its config: method, sizes, versions, checksums."""

    state: ModelState
    config: dict[str, Any]

    @property
    def digest(self) -> str:
        """The digest of the state. The checksum of its arrays was compared when they were read."""
        return json_digest(self.state.model, self.config["tensors_sha256"])


class _Packed(NamedTuple):
    """A model as the contents of its two files, and its digest."""

    tensors: bytes
    config: bytes
    digest: str

    @classmethod
    def of(cls, state: ModelState) -> "_Packed":
        checksum = _tensors_checksum(state.tensors)
        digest = json_digest(state.model, checksum)
        config = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "hashlearn_version": __version__,
            "n_bits": state.n_bits,
            "n_features": state.n_features,
            "model": state.model,
            "tensors": {name: _declaration(array) for name, array in state.tensors.items()},
            "tensors_sha256": checksum,
            "model_sha256": digest,
        }
        config["config_sha256"] = _config_checksum(config)
        text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        return cls(as_safetensors(state.tensors, metadata={"format": FORMAT, "config": text}), text.encode(), digest)


def write_model(state: ModelState, folder: str | Path) -> str:
    """Write a model to a folder, in place of the model that may be there; returns its digest.

    Parameters
    ----------
    state : ModelState
    folder : str or Path
        New, empty or a model already; its parent exists.
    """
    packed, target = _Packed.of(state), check_target(folder)
    is_new = not target.exists()
    try:
        target.mkdir(exist_ok=True)
        with exclusive_folder(target), replacing(target / TENSORS, target / CONFIG) as (tensors_beside, config_beside):
            tensors_beside.write_bytes(packed.tensors)
            config_beside.write_bytes(packed.config)
    except BaseException:
        if is_new:
            with suppress(OSError):  # not empty: the arrays are there already, or another process saves here too
                target.rmdir()
        raise
    return packed.digest


def write_new_model(state: ModelState, folder: Path) -> str:
    """As :func:`write_model`, to a folder that is not there, under a name that nobody else knows."""
    packed = _Packed.of(state)
    folder.mkdir()
    for name, content in ((TENSORS, packed.tensors), (CONFIG, packed.config)):
        with writing_new(folder / name) as file:
            file.write(content)
    return packed.digest


def read_model(folder: str | Path) -> SavedModel:
    """Read what :func:`write_model` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        The folder is no model, or a truncated, edited or newer one.
    """
    with _opened(Path(folder)) as (file, config):
        tensors = _checked_tensors(folder, file, config)
    try:
        state = ModelState(config["model"], tensors, config["n_bits"], config["n_features"])
    except KeyError as error:
        raise ValueError(f"{folder} is not a hashlearn model that this version can read: it has no {error}") from None
    return SavedModel(state, config)


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The file of the arrays and the config that belongs to them."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist; a model is a folder with {CONFIG} and {TENSORS}")
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a hashlearn model: it has no {name}")
    try:
        _parsed(folder, (folder / CONFIG).read_text(encoding="utf-8"), CONFIG)
    except UnicodeDecodeError:
        raise ValueError(f"{folder} is not a hashlearn model: {CONFIG} is not text") from None
    try:
        with safe_open(folder / TENSORS, framework="numpy") as file:
            text = (file.metadata() or {}).get("config")
            if text is None:
                raise ValueError(f"{folder} is not a hashlearn model: {TENSORS} was written by another program")
            yield file, _parsed(folder, text, TENSORS)
    except SafetensorError as error:
        raise ValueError(f"{folder} cannot be loaded: {TENSORS} is truncated or damaged ({error})") from None


def _parsed(folder: Path, text: str, name: str) -> dict[str, Any]:
    """The config in ``text``, after its format, version and checksum were checked."""
    try:
        config = parsed_json(text)
    except ValueError:
        raise ValueError(f"{folder} cannot be loaded: the config in {name} is truncated or no JSON") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{folder} is not a hashlearn model: {name} does not say format {FORMAT!r}")
    version = config.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ValueError(
            f"{folder} has model format {version}, this hashlearn reads up to {FORMAT_VERSION}; update hashlearn"
        )
    if config.get("config_sha256") != _config_checksum(config):
        raise ValueError(f"{folder} cannot be loaded: the config in {name} was edited (its checksum does not fit)")
    return config


def _checked_tensors(folder: str | Path, file: Any, config: Mapping[str, Any]) -> dict[str, NDArray]:
    declared = config.get("tensors")
    if not isinstance(declared, dict) or set(declared) != set(file.keys()):
        raise ValueError(f"{folder} cannot be loaded: {TENSORS} does not hold the arrays its config declares")
    tensors = {name: file.get_tensor(name) for name in declared}
    for name, array in tensors.items():
        if _declaration(array) != declared[name]:
            raise ValueError(
                f"{folder} cannot be loaded: {name} should be {declared[name]}, {TENSORS} has {_declaration(array)}"
            )
    if config.get("tensors_sha256") != _tensors_checksum(tensors):
        raise ValueError(f"{folder} cannot be loaded: {TENSORS} was changed (its checksum does not fit)")
    return tensors


def _declaration(array: NDArray) -> dict[str, Any]:
    return {"dtype": array.dtype.name, "shape": list(array.shape)}


def _tensors_checksum(tensors: Mapping[str, NDArray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}\0{_declaration(tensors[name])}\0".encode())
        digest.update(tensors[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _config_checksum(config: Mapping[str, Any]) -> str:
    """The checksum of everything but the checksum itself; layout and order of the keys do not matter."""
    return json_digest({key: value for key, value in config.items() if key != "config_sha256"})


def check_target(folder: str | Path) -> Path:
    """The folder that a model can be saved to, links followed: new, empty or a model already."""
    target = Path(os.path.realpath(folder))
    if not target.exists():
        if not target.parent.is_dir():
            raise ValueError(f"folder must lie in an existing folder, got {folder}: no folder {target.parent}")
        return target
    if not target.is_dir():
        raise ValueError(f"folder must be a folder, got the file {folder}")
    if not _is_ours(target):
        raise ValueError(f"folder must be new, empty or a hashlearn model, got {folder} with other files in it")
    return target


def _is_ours(folder: Path) -> bool:
    """Whether saving here loses no other files: the folder is empty or holds a model, whole or damaged."""
    with suppress(OSError, ValueError, AttributeError):
        if read_json(folder / CONFIG).get("format") == FORMAT:
            return True
    with suppress(OSError, SafetensorError), safe_open(folder / TENSORS, framework="numpy") as file:
        if (file.metadata() or {}).get("format") == FORMAT:
            return True
    return all(name == LOCK or name.endswith(LEFTOVER) for name in os.listdir(folder))
