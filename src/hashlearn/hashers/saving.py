"""A hasher, or a pipeline that ends in one, to a model folder and back."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from hashlearn.durable.model_folder import ModelState, read_model, write_model
from hashlearn.hashers.state import decode_estimator, encode_estimator


def save_hasher(hasher: Any, folder: str | Path) -> None:
    """Write a fitted hasher, or a pipeline that ends in one, to a folder, in place of the model that may be there.

    Parameters
    ----------
    hasher : Hasher or sklearn.pipeline.Pipeline
        Fitted. A pipeline is made of the transformers of :data:`hashlearn.hashers.state.OTHER_CLASSES` and a hasher.
    folder : str or Path
        New, empty or a model already; its parent exists.
    """
    write_model(state_of(hasher), folder)


def load_hasher(folder: str | Path) -> Any:
    """Read what :func:`save_hasher` wrote to a folder.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        The folder is no model, or a truncated, edited or newer one.
    """
    return load_with_digest(folder)[0]


def load_with_digest(folder: str | Path) -> tuple[Any, str]:
    """As :func:`load_hasher`, with the digest of the model: :func:`digest_of` the hasher that was saved."""
    state, _ = read_model(folder)
    try:
        hasher = decode_estimator(state.model, state.tensors)
        fits = n_bits_of(hasher) == state.n_bits and hasher.n_features_in_ == state.n_features
    except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{folder} is not a hashlearn model that this version can read: {error}") from None
    if not fits:
        raise ValueError(f"{folder} is not a hashlearn model: n_bits or n_features is not the model's")
    return hasher, state.digest


def state_of(hasher: Any) -> ModelState:
    """All that is saved of a fitted hasher or pipeline."""
    check_is_fitted(hasher)
    if not hasattr(hasher, "n_features_in_"):
        raise NotFittedError(f"{hasher!r:.80} must be fitted as a whole before it is saved")
    tensors: dict[str, NDArray] = {}
    model = encode_estimator(hasher, tensors)
    return ModelState(model, tensors, n_bits_of(hasher), int(hasher.n_features_in_))


def digest_of(hasher: Any) -> str:
    """What tells a fitted hasher from every other; codes of hashers with different digests cannot be compared."""
    return state_of(hasher).digest


def n_bits_of(hasher: Any) -> int:
    """Bits of a code of a hasher, or of the hasher a pipeline ends in."""
    return int(hasher[-1].n_bits if isinstance(hasher, Pipeline) else hasher.n_bits)
