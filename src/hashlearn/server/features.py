"""What turns images and texts into vectors, where a server is given such a thing."""

from typing import Protocol, runtime_checkable

from numpy.typing import NDArray


@runtime_checkable
class Features(Protocol):
    """Makes the vectors that the search was filled with; a ValueError of one line says what it cannot read."""

    def encode_images(self, images: list[bytes]) -> NDArray:
        """A vector for each image file; ValueError where this is not for images."""

    def encode_texts(self, texts: list[str]) -> NDArray:
        """A vector for each text; ValueError where this is not for texts."""
