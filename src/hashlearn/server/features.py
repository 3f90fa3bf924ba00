"""Encoders of a server: they turn the images and texts of requests into vectors."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hashlearn.features import ENCODER_FILE, Encoder, encoder_named, load_encoder
from hashlearn.features.decoder import shared_decoder
from hashlearn.features.own_files import DECODED_SIDE

_DECODED_AT_A_TIME = 8
"""The number of pictures in memory at a time; a picture takes up to 6 MB."""


@runtime_checkable
class Features(Protocol):
    """Makes vectors of the same kind as those in the search; input that it cannot read is a ValueError of one line."""

    def encode_images(self, images: list[bytes]) -> NDArray:
        """A vector for each image file; ValueError if the encoder is not for images."""

    def encode_texts(self, texts: list[str]) -> NDArray:
        """A vector for each text; ValueError if the encoder is not for texts."""


class EncoderFeatures:
    """Encodes queries with the encoder of the collection.

    Attributes
    ----------
    kind : "image" or "text"
        The kind of input.
    """

    def __init__(self, encoder: Encoder):
        self.encoder = encoder
        self.kind = encoder.kind

    def encode_images(self, images: list[bytes]) -> NDArray:
        """A vector for each image file."""
        if self.kind != "image":
            raise ValueError("images cannot be searched for here: the collection is of texts")
        starts = range(0, len(images), _DECODED_AT_A_TIME)
        return np.concatenate([self._encoded(images[start : start + _DECODED_AT_A_TIME]) for start in starts])

    def _encoded(self, images: list[bytes]) -> NDArray:
        return self.encoder.encode([shared_decoder().decode(image, DECODED_SIDE) for image in images])

    def encode_texts(self, texts: list[str]) -> NDArray:
        """A vector for each text."""
        if self.kind != "text":
            raise ValueError("texts cannot be searched for here: the collection is of images")
        return self.encoder.encode(texts)


def configured_features(
    search: str, n_features: int, encoder: str | None, model_folder: str | None
) -> EncoderFeatures | None:
    """The features of a search that is served.

    Parameters
    ----------
    search : str
        The folder of the search, or the URI of a store. The encoder in the folder is used if ``encoder`` is None.
    n_features : int
        Length of the vectors in the search.
    encoder : str or None
        A file of :func:`~hashlearn.features.save_encoder`, or the name of an encoder that learns nothing.
    model_folder : str or None
        The folder with the files of a model of fastembed.

    Returns
    -------
    EncoderFeatures or None
        None if nothing is configured.
    """
    if encoder is None:
        if model_folder is not None:
            raise ValueError("model_folder needs --encoder NAME, the model of fastembed whose files it has")
        beside = Path(search) / ENCODER_FILE
        if not beside.is_file():
            return None
        chosen, name = load_encoder(beside), str(beside)
    elif Path(encoder).is_file():
        chosen, name = load_encoder(encoder), encoder
    else:
        if encoder == "tfidf":
            raise ValueError("encoder must be a file of save_encoder where it learns from texts, got 'tfidf'")
        chosen, name = encoder_named(encoder, None, model_folder), encoder
    width = chosen.encode([]).shape[1]
    if width != n_features:
        raise ValueError(
            f"encoder must make the vectors of the search, which have {n_features} numbers, got {name} with {width}"
        )
    return EncoderFeatures(chosen)
