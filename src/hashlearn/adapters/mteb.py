"""A model of MTEB whose embeddings are codes: what a benchmark of embeddings says of short binary codes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import unpack
from hashlearn.extras import require
from hashlearn.search import SimilaritySearch
from hashlearn.version import __version__


class MTEBCodes:
    """Texts as codes, for ``mteb.evaluate``: an embedding is +1 or -1 for every bit.

    The cosine of two embeddings is 1 - 2 d / n_bits for codes at Hamming distance d, so MTEB ranks by this distance.

    Parameters
    ----------
    search : SimilaritySearch
        With an encoder of texts, and fitted; its rows do not matter.
    name : str
        The name of the model in results, ``organization/model``.

    Examples
    --------
    >>> from hashlearn import LSH
    >>> def lengths(texts):
    ...     return np.array([[len(text), 1.0] for text in texts])
    >>> search = SimilaritySearch(LSH(8, random_state=0), metric="cosine", encoder=lengths).fit(texts=["a", "bcd"])
    >>> MTEBCodes(search, "me/lengths").encode([{"text": ["a", "bcd"]}]).shape
    (2, 8)
    """

    def __init__(self, search: SimilaritySearch, name: str = "hashlearn/codes"):
        if search.encoder is None:
            raise ValueError("search must have an encoder of texts: SimilaritySearch(hasher, encoder=model)")
        self.search, self.name = search, name

    @property
    def mteb_model_meta(self) -> Any:
        """What MTEB writes into its results."""
        hasher = type(self.search.hasher).__name__
        return require("mteb.models", "mteb").ModelMeta.create_empty(
            overwrites={
                "name": self.name,
                "revision": f"hashlearn-{__version__}-{hasher}-{self.search.n_bits}",
                "embed_dim": self.search.n_bits,
            }
        )

    def encode(self, inputs: Any, **settings: Any) -> NDArray[np.float32]:
        """The codes of texts, unpacked.

        Parameters
        ----------
        inputs : iterable of dict
            Batches, with a list of texts as ``"text"`` each.
        **settings : dict
            Settings of the task; ignored, because codes do not depend on them.

        Returns
        -------
        ndarray of shape (n, n_bits), float32
            Of +1 and -1.
        """
        encoder = self.search.encoder
        assert encoder is not None
        blocks = [self.search.encode(encoder.encode(list(batch["text"]))) for batch in inputs]
        bits = unpack(np.concatenate(blocks), self.search.n_bits)
        return 2 * bits.astype(np.float32) - 1

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """The cosine of every pair of embeddings."""
        return np.asarray(embeddings1) @ np.asarray(embeddings2).T / self.search.n_bits

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """The cosine of the embeddings in the same row."""
        return np.sum(np.asarray(embeddings1) * np.asarray(embeddings2), axis=1) / self.search.n_bits
