"""Text and image models that fastembed runs (extra ``embed``)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require


class FastEmbedEncoder:
    """A model of fastembed, by its name. Its files are downloaded once, or read from your folder.

    Parameters
    ----------
    name : str
        As fastembed lists it.
    kind : "image" or "text"
    model_folder : str or None
        The folder with the model's files; None downloads them.
    """

    metric = "cosine"

    def __init__(self, name: str, kind: str, model_folder: str | None = None):
        self.name, self.kind, self.model_folder = name, kind, model_folder
        self._model: Any = None

    @classmethod
    def named(cls, name: str, model_folder: str | None = None) -> Self:
        """The encoder of that name, of either kind; a ValueError gives examples of names."""
        for kind, family in _families().items():
            if any(name.lower() == model["model"].lower() for model in family.list_supported_models()):
                return cls(name, kind, model_folder)
        raise ValueError(
            "encoder must be 'gist', 'spectrum', 'tfidf', 'shingles' or a model of fastembed, such as "
            f"'BAAI/bge-small-en-v1.5' or 'Qdrant/clip-ViT-B-32-vision', got {name!r}"
        )

    def fit(self, items: Sequence[Any]) -> Self:
        return self

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        model = self._loaded()
        if len(items) == 0:
            return np.empty((0, model.embedding_size), np.float32)
        return np.stack([np.asarray(vector, np.float32) for vector in model.embed(list(items))])

    def config(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "model_folder": self.model_folder}

    def tensors(self) -> dict[str, NDArray]:
        return {}

    @classmethod
    def restored(cls, parameters: dict[str, Any], tensors: dict[str, NDArray]) -> Self:
        return cls(**parameters)

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = self._load()
        return self._model

    def _load(self) -> Any:
        family = _families()[self.kind]
        if self.model_folder is not None and not Path(self.model_folder).is_dir():
            raise ValueError(f"model_folder must be a folder with the files of {self.name}, got {self.model_folder}")
        options = {} if self.model_folder is None else {"specific_model_path": self.model_folder}
        # fastembed logs every attempt on stderr; our error below is one line.
        require("loguru", "embed").logger.disable("fastembed")
        try:
            return family(self.name, **options)
        except Exception as error:
            raise ValueError(self._complaint(error)) from None

    def _complaint(self, error: Exception) -> str:
        reason = " ".join(str(error).split())[:200]
        if self.model_folder is not None:
            return f"the model {self.name} cannot be read from {self.model_folder}: {reason}"
        return (
            f"the model {self.name} cannot be fetched: {reason} Fetch it where there is a network and pass its folder "
            "(--model-folder), or take 'gist' or 'tfidf', which need no download"
        )


def _families() -> dict[str, Any]:
    fastembed = require("fastembed", "embed")
    return {"text": fastembed.TextEmbedding, "image": fastembed.ImageEmbedding}
