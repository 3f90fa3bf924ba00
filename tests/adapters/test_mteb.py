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


def test_a_task_of_mteb(model):
    """Pairs of texts with a score each: codes of texts that share a word are nearer."""
    mteb = pytest.importorskip("mteb")
    datasets = pytest.importorskip("datasets")
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import EncoderProtocol

    class Colors(AbsTaskSTS):
        metadata = TaskMetadata(
            name="Colors",
            description="Colors and things.",
            dataset={"path": "me/colors", "revision": "1"},
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
        )

        def load_data(self, *arguments, **settings):
            pairs = [(left, right) for left in TEXTS for right in TEXTS]
            columns = {"sentence1": [left for left, _ in pairs], "sentence2": [right for _, right in pairs]}
            scores = [5.0 * len(set(left.split()) & set(right.split())) / 2 for left, right in pairs]
            self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict({**columns, "score": scores})})
            self.data_loaded = True

    assert isinstance(model, EncoderProtocol)
    results = mteb.evaluate(model, [Colors()], cache=None, co2_tracker=False)
    assert results.model_name == "me/words-lsh-20"
    (scores,) = results.task_results[0].scores["test"]
    assert scores["cosine_spearman"] > 0.5
    # The same order but for ties, which the rounding of cosines breaks.
    assert scores["spearman"] == pytest.approx(scores["cosine_spearman"], abs=0.01)
