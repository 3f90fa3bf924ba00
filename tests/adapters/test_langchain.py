"""LangChain's own suite for vector stores, and what it does not ask: filters, scores, variety, saving."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from hashlearn import ITQ, SimilaritySearch
from hashlearn.adapters.langchain import LangChainVectorStore


class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        return LangChainVectorStore(self.get_embeddings())


class TestStandardByALearnedMethod(VectorStoreIntegrationTests):
    """The same of a search that somebody has fitted, and kept in a folder."""

    @pytest.fixture
    def vectorstore(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
        search = SimilaritySearch(ITQ(4, random_state=0), metric="cosine", keep_vectors="float16").fit(rows)
        search.save(tmp_path / "search")
        return LangChainVectorStore(self.get_embeddings(), tmp_path / "search")


class OnACircle(Embeddings):
    """A text is an angle in degrees."""

    def embed_query(self, text):
        return [float(np.cos(np.radians(float(text)))), float(np.sin(np.radians(float(text))))]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def store():
    angles = range(0, 360, 10)
    known = [{"angle": angle, "side": "left" if 90 < angle < 270 else "right"} for angle in angles]
    texts = [str(angle) for angle in angles]
    return LangChainVectorStore.from_texts(texts, OnACircle(), known, ids=texts)


class TestFilters:
    def test_by_a_dict(self, store):
        found = store.similarity_search("12", k=3, filter={"angle": {"$gt": 20, "$lt": 100}})
        assert [document.id for document in found] == ["30", "40", "50"]

    def test_by_a_function(self, store):
        found = store.similarity_search("12", k=2, filter=lambda document: document.metadata["side"] == "left")
        assert [document.id for document in found] == ["100", "110"]

    def test_that_nothing_meets(self, store):
        assert store.similarity_search("12", filter={"side": "above"}) == []
        assert store.similarity_search("12", filter=lambda document: False) == []


class TestScores:
    @pytest.mark.parametrize(("metric", "distance"), [("cosine", 0.0), ("euclidean", 0.0), ("dot", -1.0)])
    def test_distances_and_relevance(self, metric, distance):
        store = LangChainVectorStore.from_texts(["0", "60", "90"], OnACircle(), metric=metric)
        found = store.similarity_search_with_score("0", k=3)
        assert [document.page_content for document, _ in found] == ["0", "60", "90"]
        assert found[0][1] == pytest.approx(distance, abs=1e-6)
        assert found[0][1] < found[1][1] < found[2][1]
        if metric == "cosine":
            assert found[1][1] == pytest.approx(0.5, abs=1e-5)
            relevance = store.similarity_search_with_relevance_scores("0", k=2, score_threshold=0.4)
            assert [round(score, 3) for _, score in relevance] == [1, 0.5]

    async def test_in_async_code(self, store):
        documents = await store.asimilarity_search_with_score("41", k=1)
        assert documents[0][0].id == "40"


def test_results_that_are_unlike_each_other(store):
    near = store.max_marginal_relevance_search("0", k=3, fetch_k=36, lambda_mult=1)
    assert [document.id for document in near] == ["0", "10", "350"]
    varied = store.max_marginal_relevance_search("0", k=2, fetch_k=36, lambda_mult=0)
    assert [document.id for document in varied] == ["0", "180"]


def test_a_saved_store_is_opened_again(store, tmp_path):
    store.save(tmp_path / "saved")
    again = LangChainVectorStore(OnACircle(), str(tmp_path / "saved"))
    assert again.similarity_search("33", k=1) == store.similarity_search("33", k=1)
    assert again.get_by_ids(["10"]) == [Document(id="10", page_content="10", metadata={"angle": 10, "side": "right"})]


def test_a_search_of_somebody_else_with_integers_as_ids():
    rows = np.array(OnACircle().embed_documents(["0", "90", "180", "270"]), np.float32)
    search = SimilaritySearch(ITQ(2, random_state=0), metric="cosine", keep_vectors="float32").fit(rows)
    search.add(rows, payloads=[{"text": text} for text in ("0", "90", "180", "270")])
    store = LangChainVectorStore(OnACircle(), search)
    assert store.similarity_search("80", k=1)[0].id == "1"
    with pytest.raises(ValueError, match="ids must be numbers, such as '17': those of this search are integers"):
        store.add_texts(["45"])
    assert store.add_texts(["45"], ids=["45"]) == ["45"]
    assert store.similarity_search("50", k=1)[0].id == "45"
    store.delete(["1", "45", "x"])
    assert store.similarity_search("80", k=1)[0].page_content == "0"


def test_bad_input_is_one_line(store):
    with pytest.raises(ValueError, match="metadatas must not have the field 'text'"):
        store.add_texts(["1"], [{"text": "2"}])
    with pytest.raises(ValueError, match="as many as the 1 texts"):
        store.add_texts(["1"], ids=["a", "b"])
    with pytest.raises(ValueError, match="no search to save"):
        LangChainVectorStore(DeterministicFakeEmbedding(size=3)).save("nowhere")
    assert len(store.search_by_codes) == 36
