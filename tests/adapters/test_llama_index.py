"""LlamaIndex's contract for vector stores; its package of tests is not published, so its operators are tried here."""

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from hashlearn.adapters.llama_index import LlamaIndexVectorStore

RNG = np.random.default_rng(0)
NODES = [
    TextNode(
        id_=f"node-{row:02}",
        text=f"text {row}",
        embedding=RNG.normal(size=12).tolist(),
        metadata={"year": 1990 + row, "color": "red" if row % 3 else "blue", "tags": ["a", "b"][: row % 3]},
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{row % 5}")},
    )
    for row in range(40)
]


@pytest.fixture
def store():
    store = LlamaIndexVectorStore()
    assert store.add(NODES) == [node.node_id for node in NODES]
    return store


@pytest.fixture
def simple():
    """LlamaIndex's own store, which looks at every vector."""
    store = SimpleVectorStore()
    store.add([node.model_copy(deep=True) for node in NODES])
    return store


def test_it_is_a_vector_store():
    assert isinstance(LlamaIndexVectorStore(), VectorStore)
    assert LlamaIndexVectorStore().query(VectorStoreQuery(query_embedding=[1.0, 0.0])).ids == []


FILTERS = {
    "equal": MetadataFilter(key="color", value="blue"),
    "more": MetadataFilter(key="year", value=2010, operator=FilterOperator.GT),
    "less or equal": MetadataFilter(key="year", value=2010, operator=FilterOperator.LTE),
    "in": MetadataFilter(key="year", value=[1991, 1999], operator=FilterOperator.IN),
    "not equal": MetadataFilter(key="color", value="blue", operator=FilterOperator.NE),
    "not in": MetadataFilter(key="year", value=[1991, 1999], operator=FilterOperator.NIN),
    "contains": MetadataFilter(key="tags", value="b", operator=FilterOperator.CONTAINS),
    "text": MetadataFilter(key="color", value="RE", operator=FilterOperator.TEXT_MATCH_INSENSITIVE),
}


class TestQuery:
    def test_the_nearest(self, store, simple):
        for query in RNG.normal(size=(5, 12)):
            asked = VectorStoreQuery(query_embedding=query.tolist(), similarity_top_k=6)
            found, wanted = store.query(asked), simple.query(asked)
            assert found.ids == wanted.ids
            np.testing.assert_allclose(found.similarities, wanted.similarities, atol=1e-5)
            assert found.nodes[0].get_content() == f"text {int(found.ids[0][5:])}"

    @pytest.mark.parametrize("name", FILTERS)
    def test_filters(self, store, simple, name):
        asked = VectorStoreQuery(
            query_embedding=NODES[3].embedding, similarity_top_k=40, filters=MetadataFilters(filters=[FILTERS[name]])
        )
        found = store.query(asked).ids
        assert found == simple.query(asked).ids
        assert 0 < len(found) < 40

    @pytest.mark.parametrize("condition", [FilterCondition.AND, FilterCondition.OR])
    @pytest.mark.parametrize("other", ["more", "contains"])
    def test_filters_together(self, store, simple, condition, other):
        filters = MetadataFilters(filters=[FILTERS["equal"], FILTERS[other]], condition=condition)
        asked = VectorStoreQuery(query_embedding=NODES[3].embedding, similarity_top_k=40, filters=filters)
        assert store.query(asked).ids == simple.query(asked).ids

    @pytest.mark.parametrize("other", ["more", "contains"])
    def test_filters_within_filters(self, store, other):
        """LlamaIndex's own store does not have them."""
        inner = MetadataFilters(filters=[FILTERS["equal"], FILTERS[other]], condition=FilterCondition.OR)
        outer = MetadataFilters(filters=[inner, FILTERS["less or equal"]])
        negated = MetadataFilters(filters=[inner], condition=FilterCondition.NOT)
        met = {"more": lambda node: node.metadata["year"] > 2010, "contains": lambda node: "b" in node.metadata["tags"]}
        either = {node.node_id for node in NODES if node.metadata["color"] == "blue" or met[other](node)}
        early = {node.node_id for node in NODES if node.metadata["year"] <= 2010}
        for filters, wanted in ((outer, either & early), (negated, {node.node_id for node in NODES} - either)):
            asked = VectorStoreQuery(query_embedding=NODES[3].embedding, similarity_top_k=40, filters=filters)
            assert set(store.query(asked).ids) == wanted
            assert {node.node_id for node in store.get_nodes(filters=filters)} == wanted

    def test_some_nodes_or_documents_only(self, store):
        asked = VectorStoreQuery(
            query_embedding=NODES[3].embedding, similarity_top_k=9, node_ids=["node-01", "node-02"]
        )
        assert sorted(store.query(asked).ids) == ["node-01", "node-02"]
        asked = VectorStoreQuery(query_embedding=NODES[3].embedding, similarity_top_k=40, doc_ids=["doc-2"])
        assert sorted(store.query(asked).ids) == [f"node-{row:02}" for row in range(2, 40, 5)]

    def test_results_that_are_unlike_each_other(self, store, simple):
        asked = VectorStoreQuery(
            query_embedding=NODES[3].embedding, similarity_top_k=4, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.3
        )
        wanted = simple.query(asked, mmr_threshold=0.3, mmr_prefetch_factor=10).ids
        assert store.query(asked, mmr_prefetch_k=40).ids == wanted

    def test_a_mode_that_it_lacks(self, store):
        with pytest.raises(ValueError, match="mode must be 'default' or 'mmr', got 'hybrid'"):
            store.query(VectorStoreQuery(query_embedding=[0.0] * 12, mode=VectorStoreQueryMode.HYBRID))

    async def test_in_async_code(self, store):
        asked = VectorStoreQuery(query_embedding=NODES[3].embedding, similarity_top_k=1)
        assert (await store.aquery(asked)).ids == ["node-03"]


class TestNodes:
    def test_get(self, store):
        (node,) = store.get_nodes(["node-07"])
        assert (node.get_content(), node.metadata["year"], node.ref_doc_id) == ("text 7", 1997, "doc-2")
        blue = store.get_nodes(filters=MetadataFilters(filters=[FILTERS["equal"]]))
        assert len(blue) == 14

    def test_delete(self, store):
        store.delete("doc-2")
        assert len(store.client) == 32
        store.delete_nodes(["node-00", "nobody"])
        assert len(store.client) == 31
        store.delete_nodes(filters=MetadataFilters(filters=[FILTERS["equal"]]))
        assert not store.get_nodes(filters=MetadataFilters(filters=[FILTERS["equal"]]))
        store.clear()
        assert store.get_nodes() == []

    def test_a_node_that_is_added_again_takes_its_place(self, store):
        changed = NODES[0].model_copy(deep=True)
        changed.set_content("another text")
        store.add([changed])
        assert len(store.client) == 40
        assert store.get_nodes(["node-00"])[0].get_content() == "another text"

    def test_saved_and_opened(self, store, tmp_path):
        store.persist(str(tmp_path / "search"))
        asked = VectorStoreQuery(query_embedding=NODES[3].embedding, similarity_top_k=5)
        assert LlamaIndexVectorStore(tmp_path / "search").query(asked).ids == store.query(asked).ids


def test_under_an_index():
    context = StorageContext.from_defaults(vector_store=LlamaIndexVectorStore())
    nodes = [node.model_copy(update={"embedding": None}, deep=True) for node in NODES]
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(4))
    assert len(index.as_retriever(similarity_top_k=3).retrieve("anything")) == 3
