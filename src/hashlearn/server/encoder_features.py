"""An encoder of :mod:`hashlearn.features` as the features of a server."""

from numpy.typing import NDArray

from hashlearn.features import Encoder
from hashlearn.features.own_files import DECODED_SIDE
from hashlearn.features.pictures import read_picture


class EncoderFeatures:
    """Encodes queries as the collection was encoded.

    Attributes
    ----------
    kind : "image" or "text"
        What it takes.
    """

    def __init__(self, encoder: Encoder):
        self.encoder = encoder
        self.kind = encoder.kind

    def encode_images(self, images: list[bytes]) -> NDArray:
        """A vector for each image file."""
        if self.kind != "image":
            raise ValueError("images cannot be searched for here: the collection is of texts")
        return self.encoder.encode([read_picture(image, DECODED_SIDE) for image in images])

    def encode_texts(self, texts: list[str]) -> NDArray:
        """A vector for each text."""
        if self.kind != "text":
            raise ValueError("texts cannot be searched for here: the collection is of images")
        return self.encoder.encode(texts)
