"""Encoders turn pictures or texts into vectors. A saved encoder encodes queries as it encoded the collection.

========================  =======  =========================================================================
name                      takes    what it is
========================  =======  =========================================================================
``gist``                  images   GIST of the square in the middle; nothing is learned or downloaded
``spectrum``              images   low frequencies of the whole: for near-duplicates; nothing is learned
``tfidf``                 texts    weighted words, by topics and one by one; learned from the texts
``shingles``              texts    words and pairs of words, hashed: for near-duplicates; nothing is learned
a model of fastembed      either   a network, downloaded once or read from a folder (extra ``embed``)
``model2vec:NAME``        texts    a static model, by its name or folder (package model2vec)
``sentence-...:NAME``     texts    ``sentence-transformers:NAME``, a network by its name or folder (that package)
========================  =======  =========================================================================

An encoder is saved as one file: its name and parameters as JSON in the header, then its arrays. Nothing is unpickled.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from hashlearn.checks import check_choice
from hashlearn.durable.files import parsed_json, write_bytes
from hashlearn.features.embed import FastEmbedEncoder
from hashlearn.features.gist_encoder import GistEncoder
from hashlearn.features.models import ModelEncoder, held_model, named_model
from hashlearn.features.shingles import ShingleEncoder
from hashlearn.features.spectrum import SpectrumEncoder
from hashlearn.features.tfidf import TfidfEncoder

FORMAT = "hashlearn encoder"
ENCODER_FILE = "encoder.safetensors"
"""In the folder of a search: the encoder of its texts or pictures."""
KINDS = ("image", "text")


class Encoder(Protocol):
    """Turns pictures (images of Pillow) or texts (strings) into vectors.

    Attributes
    ----------
    kind : "image" or "text"
    name : str
    metric : "euclidean" or "cosine"
        The metric for comparing its vectors.
    """

    kind: str
    name: str
    metric: str

    def fit(self, items: Sequence[Any]) -> Self:
        """Learn from the collection; encoders without training do nothing."""

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        """The vectors, shape (n, n_features)."""

    def config(self) -> dict[str, Any]:
        """The parameters, as JSON values."""

    def tensors(self) -> dict[str, NDArray]:
        """The learned arrays, by name."""


BUILT_IN: dict[str, Any] = {
    "gist": GistEncoder,
    "spectrum": SpectrumEncoder,
    "tfidf": TfidfEncoder,
    "shingles": ShingleEncoder,
}
LOADED = {**BUILT_IN, ModelEncoder.name: ModelEncoder}
DEFAULTS = {"image": "gist", "text": "tfidf"}


def encoder_named(name: str | None, kind: str | None, model_folder: str | Path | None = None) -> Encoder:
    """A new encoder.

    Parameters
    ----------
    name : str or None
        ``"gist"``, ``"spectrum"``, ``"tfidf"``, ``"shingles"``, or a model that fastembed knows, such as
        ``"Qdrant/clip-ViT-B-32-vision"``. None is ``"gist"`` or ``"tfidf"``.
    kind : "image", "text" or None
        The kind of input the encoder must take. None allows both kinds, but then the name is required.
    model_folder : str, Path or None
        The folder with the files of a model of fastembed, which is then not downloaded.

    Examples
    --------
    >>> encoder_named("tfidf", "text").fit(["red fox", "red dog", "blue sky"]).encode(["red dog"]).shape
    (1, 450)
    """
    if kind is not None or name is None:
        check_choice("kind", kind, KINDS)
    name = DEFAULTS[str(kind)] if name is None else name
    if name in BUILT_IN:
        if model_folder is not None:
            raise ValueError(f"model_folder is for a model of fastembed, got the encoder {name!r}")
        encoder = BUILT_IN[name]()
    elif (model := named_model(name)) is not None:
        encoder = model
    else:
        encoder = FastEmbedEncoder.named(name, None if model_folder is None else str(model_folder))
    if kind is not None and encoder.kind != kind:
        raise ValueError(f"encoder must take {kind}s, got {name!r}, which takes {encoder.kind}s")
    return encoder


def as_encoder(encoder: Any) -> Encoder:
    """An encoder by its name, or of a model that a user holds.

    Parameters
    ----------
    encoder : str, Encoder, model with ``encode``, or function
        A name as :func:`encoder_named` takes it; a model of sentence-transformers, model2vec or fastembed; any object
        whose ``encode``, or any function, that turns a list of texts or images into an array of shape (n, n_features).

    Returns
    -------
    Encoder
        It is saved by its name if it has one.
    """
    return encoder_named(encoder, None) if isinstance(encoder, str) else held_model(encoder)


def save_encoder(encoder: Encoder, path: str | Path) -> None:
    """Write an encoder to a file, in one step."""
    config = {"format": FORMAT, "format_version": 1, "name": encoder.name, "parameters": encoder.config()}
    tensors = {name: np.ascontiguousarray(array) for name, array in encoder.tensors().items()}
    write_bytes(path, as_safetensors(tensors, metadata={"config": json.dumps(config)}))


def load_encoder(path: str | Path) -> Encoder:
    """Read what :func:`save_encoder` wrote.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "encoder.safetensors"
    >>> save_encoder(encoder_named("gist", "image"), path)
    >>> load_encoder(path).name
    'gist'
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist; an encoder is a file that save_encoder wrote")
    try:
        with safe_open(path, framework="numpy") as file:
            config = parsed_json((file.metadata() or {}).get("config", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is no encoder, or a damaged one ({error})") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT or config.get("format_version") != 1:
        raise ValueError(f"{path} is no encoder that this version can read")
    cls = LOADED.get(config["name"], FastEmbedEncoder)
    try:
        return cls.restored(config["parameters"], tensors)
    except (KeyError, TypeError):
        raise ValueError(f"{path} is no encoder, or a damaged one (a parameter is missing)") from None
