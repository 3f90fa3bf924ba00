"""A model folder for the commands: the hasher, and the facts that identify it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load_model(folder: str) -> tuple[Any, dict[str, Any]]:
    """The hasher in a folder and its facts for a sidecar: path, method, checksum, and queries if these are real."""
    from hashlearn.hashers.pipelines import as_hasher
    from hashlearn.hashers.saving import last_step, load_with_digest

    hasher, digest = load_with_digest(folder)
    identity = {"path": folder, "method": type(hasher).__name__.lower(), "checksum": digest}
    if hasattr(last_step(hasher), "query_weights"):
        identity["queries"] = "real"
    return as_hasher(hasher), identity


def files_of_model(folder: str) -> list[Path]:
    """The files of a model."""
    from hashlearn.durable.model_folder import CONFIG, TENSORS

    return [Path(folder) / CONFIG, Path(folder) / TENSORS]


def check_features(hasher: Any, vectors: Any, place: str) -> None:
    """Refuse vectors of another length than the model's."""
    if vectors.shape[1] != hasher.n_features_in_:
        raise ValueError(
            f"{place} has {vectors.shape[1]} features, the model was fitted to n_features={hasher.n_features_in_}"
        )


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Put the name of the file into errors where scikit-learn says "Input X"."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        if message.startswith("Input X"):
            raise ValueError(message.replace("Input X", place, 1)) from error
        if message.startswith("Found array"):
            raise ValueError(f"{place}: {message}") from error
        raise
