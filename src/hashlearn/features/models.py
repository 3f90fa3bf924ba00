"""Text models that a user passes, as an object or by name: sentence-transformers, model2vec, fastembed, or any
function.

A model is saved by its name, and a search or a server loads it by that name. A function has no such name and must be
passed again.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.features.embed import FastEmbedEncoder
from hashlearn.rows.inputs import as_matrix

_LOADERS: dict[str, tuple[str, str, str]] = {
    "sentence-transformers": ("sentence_transformers", "SentenceTransformer", ""),
    "model2vec": ("model2vec", "StaticModel", "from_pretrained"),
}
"""By library: the module, the class, and the method that loads a model by name or folder."""
LIBRARIES = tuple(_LOADERS)


class ModelEncoder:
    """A model with ``encode``, or a function from a list of texts (or of images) to an array of vectors.

    Parameters
    ----------
    library : "sentence-transformers", "model2vec" or None
        The library that loads the model; None if no library can.
    model_name : str or None
        A name or a folder that the library loads the model by.
    description : str
        What an error calls the model.
    model : object or None
        The model; None loads it when it is first needed.
    """

    kind = "text"
    name = "model"
    metric = "cosine"

    def __init__(self, library: str | None, model_name: str | None, description: str, model: Any = None):
        self.library, self.model_name, self.description, self._model = library, model_name, description, model

    def fit(self, items: Sequence[str]) -> Self:
        return self

    def encode(self, items: Sequence[str]) -> NDArray[np.float32]:
        listed = list(items)
        call = self._call()
        if not listed:
            return np.empty((0, self.encode(["a"]).shape[1]), np.float32)
        vectors = as_matrix(call(listed), name="what encoder returns")
        if len(vectors) != len(listed):
            raise ValueError(
                f"encoder must return a vector for each text, got shape {vectors.shape} for {len(listed)} texts"
            )
        return vectors.astype(np.float32, copy=False)

    def config(self) -> dict[str, Any]:
        return {"library": self.library, "model_name": self.model_name, "description": self.description}

    def tensors(self) -> dict[str, NDArray]:
        return {}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        return cls(**parameters)

    def _call(self) -> Callable[[list[str]], Any]:
        if self._model is None:
            self._model = self._load()
        return getattr(self._model, "encode", self._model)

    def _load(self) -> Any:
        again = "pass the model: SimilaritySearch.open(folder, encoder=model)"
        if self.library is None or self.model_name is None:
            raise ValueError(f"the encoder {self.description} cannot be loaded by a name; {again}")
        module, kind, method = _LOADERS[self.library]
        try:
            made = getattr(import_module(module), kind)
            return (getattr(made, method) if method else made)(self.model_name)
        except ImportError:
            raise ValueError(f"the encoder {self.description} needs: pip install {self.library}; or {again}") from None
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"the encoder {self.description} cannot be loaded: {reason}; {again}") from None


def named_model(name: str) -> ModelEncoder | None:
    """The model of ``library:name``; None where the name is another one."""
    library, colon, model_name = name.partition(":")
    if not colon or library not in _LOADERS or not model_name:
        return None
    return ModelEncoder(library, model_name, name)


def held_model(model: Any) -> Any:
    """A model that a user holds, as an encoder.

    Examples
    --------
    >>> lengths = held_model(lambda texts: [[len(text), 1] for text in texts])
    >>> lengths.encode(["one", "three"]).tolist()
    [[3.0, 1.0], [5.0, 1.0]]
    """
    if all(hasattr(model, part) for part in ("kind", "config", "tensors", "encode", "metric")):
        return model
    package = type(model).__module__.partition(".")[0]
    if package == "fastembed":
        encoder = FastEmbedEncoder(model.model_name, "image" if "Image" in type(model).__name__ else "text")
        encoder._model = model
        return encoder
    if not callable(getattr(model, "encode", model)):
        raise TypeError(
            f"encoder must be a name, a model with encode, or a function of a list of texts, got {type(model).__name__}"
        )
    library = package.replace("_", "-")
    library_or_none = library if library in _LOADERS else None
    name = _name_of(model) if library_or_none else None
    what = getattr(model, "__qualname__", None) or type(model).__qualname__
    described = f"{library}:{name}" if name else f"{getattr(model, '__module__', package)}.{what}"
    return ModelEncoder(library_or_none, name, described, model)


def _name_of(model: Any) -> str | None:
    """The name or folder from which a model was loaded, if the model tells it."""
    for path in (("model_card_data", "base_model"), ("base_model_name",)):
        found = model
        for part in path:
            found = getattr(found, part, None)
        if isinstance(found, str) and found:
            return found
    try:
        return model[0].auto_model.config._name_or_path or None
    except (AttributeError, TypeError, IndexError, KeyError):
        return None
