"""Haystack's own suites for document stores, and the retriever in a pipeline."""

import numpy as np
import pytest
from haystack import Document, Pipeline
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing.document_store import DocumentStoreBaseExtendedTests
from haystack.testing.document_store_async import (
    CountDocumentsAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    WriteDocumentsAsyncTest,
)

from hashlearn.adapters.haystack import HaystackDocumentStore, HaystackEmbeddingRetriever

POINTS = np.random.default_rng(0).normal(size=(30, 8))
DOCUMENTS = [
    Document(id=f"d{row}", content=f"text {row}", embedding=point.tolist(), meta={"row": row, "even": row % 2 == 0})
    for row, point in enumerate(POINTS)
]


class TestStandard(DocumentStoreBaseExtendedTests):
    @pytest.fixture
    def document_store(self):
        return HaystackDocumentStore(embedding_dim=768)

    @staticmethod
    def assert_documents_are_equal(received, expected):
        """In any order, and with the precision of float32: so the suite lets a store be that says so."""
        received, expected = (sorted(documents, key=lambda each: each.id) for documents in (received, expected))
        assert [each.to_dict() | {"embedding": None} for each in received] == [
            each.to_dict() | {"embedding": None} for each in expected
        ]
        for left, right in zip(received, expected):
            assert (left.embedding is None) == (right.embedding is None)
            if right.embedding is not None:
                np.testing.assert_allclose(left.embedding, right.embedding, rtol=1e-6)

    def test_write_documents(self, document_store):
        """What a store does without a policy is its own choice: here an id that is there is refused."""
        assert document_store.write_documents([Document(content="test doc")]) == 1
        with pytest.raises(DuplicateDocumentError, match="already exists"):
            document_store.write_documents([Document(content="test doc")])


class TestStandardInAsyncCode(
    CountDocumentsAsyncTest, WriteDocumentsAsyncTest, DeleteDocumentsAsyncTest, FilterDocumentsAsyncTest
):
    @pytest.fixture
    def document_store(self):
        return HaystackDocumentStore(embedding_dim=768)

    assert_documents_are_equal = staticmethod(TestStandard.assert_documents_are_equal)

    async def test_write_documents_async(self, document_store):
        assert await document_store.write_documents_async([Document(content="test doc")]) == 1
        with pytest.raises(DuplicateDocumentError, match="already exists"):
            await document_store.write_documents_async([Document(content="test doc")])


@pytest.fixture
def store():
    store = HaystackDocumentStore(embedding_dim=8)
    store.write_documents([*DOCUMENTS, Document(id="none", content="without an embedding", meta={"even": True})])
    return store


def test_the_nearest_embeddings(store):
    unit = POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)
    wanted = np.argsort(-(unit @ unit[4]))
    found = store.embedding_retrieval(POINTS[4].tolist(), top_k=31)
    assert [document.id for document in found] == [f"d{row}" for row in wanted]
    assert found[0].score == pytest.approx(1, abs=1e-5)
    assert found[-1].score == pytest.approx(float((unit @ unit[4]).min()), abs=1e-4)
    filters = {"field": "meta.even", "operator": "==", "value": True}
    found = store.embedding_retrieval(POINTS[4].tolist(), filters, top_k=5)
    assert [document.id for document in found] == [f"d{row}" for row in wanted if row % 2 == 0][:5]


def test_a_pipeline_that_is_saved_and_loaded(store, tmp_path):
    store.search_by_codes.save(tmp_path / "search")
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackEmbeddingRetriever(HaystackDocumentStore(tmp_path / "search"), top_k=3))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["hashlearn.adapters.haystack"])
    for each in (pipeline, again):
        found = each.run({"retriever": {"query_embedding": POINTS[9].tolist()}})["retriever"]["documents"]
        assert found[0].id == "d9"
        assert len(found) == 3


async def test_in_async_code(store):
    assert await store.count_documents_async() == 31
    await store.delete_documents_async(["d0", "nobody"])
    assert await store.write_documents_async(DOCUMENTS[:2], DuplicatePolicy.SKIP) == 1
    filters = {"field": "id", "operator": "==", "value": "d0"}
    assert [each.content for each in await store.filter_documents_async(filters)] == ["text 0"]
