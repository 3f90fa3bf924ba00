"""MTEB takes a model whose embeddings are codes, and ranks by their Hamming distance."""

import numpy as np
import pytest

from hashlearn import LSH, SimilaritySearch
from hashlearn.adapters.mteb import MTEBCodes
from hashlearn.codes import hamming_distances

TEXTS = [f"{color} {thing}" for color in ("red", "green", "blue") for thing in ("fox", "dog", "sky", "sea")]


@pytest.fixture(scope="module")
def model():
    search = SimilaritySearch(LSH(20, random_state=0), metric="cosine", encoder="tfidf").fit(texts=TEXTS)
    return MTEBCodes(search, "me/words-lsh-20")


def test_the_cosine_of_embeddings_is_the_distance_of_codes(model):
    embeddings = model.encode([{"text": TEXTS[:5]}, {"text": TEXTS[5:]}], task_metadata=None, hf_split="test")
    assert embeddings.shape == (12, 20)
    assert set(np.unique(embeddings)) == {-1, 1}
    codes = model.search.encode(model.search.encoder.encode(TEXTS))
    wanted = 1 - hamming_distances(codes, codes, 20) / 10
    np.testing.assert_allclose(model.similarity(embeddings, embeddings), wanted, atol=1e-6)
    np.testing.assert_allclose(
        model.similarity_pairwise(embeddings, embeddings[::-1]), np.diag(wanted[:, ::-1]), atol=1e-6
    )


def test_a_search_without_an_encoder():
    with pytest.raises(ValueError, match="search must have an encoder of texts"):
        MTEBCodes(SimilaritySearch(LSH(8, random_state=0)).fit(np.eye(4)))
