"""A vector store of LlamaIndex over a similarity search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hashlearn.adapters.documents import DocumentSearch, FoundDocument
from hashlearn.extras import require
from hashlearn.search import SimilaritySearch

types: Any = require("llama_index.core.vector_stores.types", "llama-index")
store_utils: Any = require("llama_index.core.vector_stores.utils", "llama-index")
embedding_utils: Any = require("llama_index.core.indices.query.embedding_utils", "llama-index")
pydantic: Any = require("llama_index.core.bridge.pydantic", "llama-index")

_DEFAULT_MMR = 0.5
_SIGNS = {"==": "$in", "in": "$in", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


class LlamaIndexVectorStore(types.BasePydanticVectorStore):
    """Nodes and their embeddings, found by learned codes and ordered by the vectors.

    Parameters
    ----------
    search : SimilaritySearch, str, Path or None
        A search that is fitted, or the folder of one; see :class:`~hashlearn.adapters.documents.DocumentSearch`.
    metric : {"euclidean", "cosine", "dot"}
        The metric, if the search is made here.
    candidates : int or None
        How many codes to rerank; None for the default of the search.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> store = LlamaIndexVectorStore()
    >>> nodes = [TextNode(id_="a", embedding=[1, 0]), TextNode(id_="b", embedding=[0, 1])]
    >>> store.add(nodes)
    ['a', 'b']
    >>> store.query(types.VectorStoreQuery(query_embedding=[0.1, 0.9])).ids
    ['b']
    """

    stores_text: bool = True
    flat_metadata: bool = False
    _rows: DocumentSearch = pydantic.PrivateAttr()

    def __init__(
        self,
        search: SimilaritySearch | str | Path | None = None,
        *,
        metric: str = "cosine",
        candidates: int | None = None,
    ):
        super().__init__()
        self._rows = DocumentSearch(search, metric, candidates)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows the store."""
        return "LlamaIndexVectorStore"

    @property
    def client(self) -> SimilaritySearch | None:
        """The search itself; None while the store is empty and has none."""
        return self._rows.search

    def add(self, nodes: Sequence[Any], **kwargs: Any) -> list[str]:
        """Add nodes with embeddings and return their ids; a node with a known id replaces the old one."""
        ids = [node.node_id for node in nodes]
        self._rows.put(ids, [node.get_embedding() for node in nodes], [_payload(node) for node in nodes])
        return ids

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove the nodes of a document."""
        payloads = self._rows.payloads(self._rows.ids)
        self._rows.remove(id for id, payload in payloads.items() if payload["ref_doc_id"] == ref_doc_id)

    def delete_nodes(self, node_ids: list[str] | None = None, filters: Any = None, **delete_kwargs: Any) -> None:
        """Remove the nodes of these ids that meet the filters."""
        self._rows.remove(self._chosen(node_ids, filters))

    def get_nodes(self, node_ids: list[str] | None = None, filters: Any = None) -> list[Any]:
        """The nodes of these ids that meet the filters; of all ids without any."""
        payloads = self._rows.payloads(self._chosen(node_ids, filters))
        return [store_utils.metadata_dict_to_node(payload) for payload in payloads.values()]

    def clear(self) -> None:
        """Remove all nodes."""
        self._rows.remove(self._rows.ids)

    def query(self, query: Any, **kwargs: Any) -> Any:
        """The nearest nodes of a vector (mode "default"), or near ones that are unlike each other (mode "mmr")."""
        mode = types.VectorStoreQueryMode
        if query.mode not in (mode.DEFAULT, mode.MMR):
            raise ValueError(f"mode must be 'default' or 'mmr', got {query.mode.value!r}")
        if query.mode == mode.DEFAULT:
            found = self._found(query, query.similarity_top_k)
            return _result(found, [_similarity(each.distance, self._rows.metric) for each in found])
        found = self._found(query, kwargs.get("mmr_prefetch_k") or 4 * query.similarity_top_k)
        vectors = self._rows.vectors([each.id for each in found])
        similarities, ids = embedding_utils.get_top_k_mmr_embeddings(
            query.query_embedding,
            [vectors[each.id].tolist() for each in found],
            similarity_top_k=query.similarity_top_k,
            embedding_ids=[each.id for each in found],
            mmr_threshold=kwargs.get("mmr_threshold", query.mmr_threshold) or _DEFAULT_MMR,
        )
        by_id = {each.id: each for each in found}
        return _result([by_id[id] for id in ids], similarities)

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Write the search to a folder of this name, which ``search=`` opens again."""
        if fs is not None:
            raise ValueError("fs must be None: a search is saved to a folder of this machine")
        if self._rows.search is not None:
            self._rows.search.save(persist_path)

    def _found(self, query: Any, k: int) -> list[FoundDocument]:
        filter, subset = _as_filter(query.filters), query.node_ids or None  # an empty list means no restriction
        if query.filters is not None and filter is None:
            subset = self._chosen(subset, query.filters)
        if query.doc_ids:
            of_documents = {"ref_doc_id": {"$in": list(query.doc_ids)}}
            filter = of_documents if filter is None else {"$and": [filter, of_documents]}
        return self._rows.nearest(query.query_embedding, k, filter, subset)

    def _chosen(self, node_ids: list[str] | None, filters: Any) -> list[str]:
        """The ids whose nodes meet the filters."""
        payloads = self._rows.payloads(self._rows.ids if node_ids is None else node_ids)
        return [id for id, payload in payloads.items() if filters is None or _meets(payload, filters)]


def _meets(payload: dict[str, Any], filters: Any) -> bool:
    """Whether the metadata of a node meet filters, each as LlamaIndex understands it."""
    each = [
        _meets(payload, part)
        if isinstance(part, types.MetadataFilters)
        else store_utils.build_metadata_filter_fn(lambda _: payload, types.MetadataFilters(filters=[part]))("")
        for part in filters.filters
    ]
    condition = filters.condition or types.FilterCondition.AND
    if condition == types.FilterCondition.NOT:
        return not any(each)
    return any(each) if condition == types.FilterCondition.OR else all(each)


def _payload(node: Any) -> dict[str, Any]:
    return store_utils.node_to_metadata_dict(node, remove_text=False, flat_metadata=False)


def _result(found: list[FoundDocument], similarities: list[float]) -> Any:
    nodes = [store_utils.metadata_dict_to_node(each.payload) for each in found]
    return types.VectorStoreQueryResult(nodes=nodes, similarities=similarities, ids=[each.id for each in found])


def _similarity(distance: float, metric: str) -> float:
    return 1 / (1 + distance) if metric == "euclidean" else 1 - distance if metric == "cosine" else -distance


def _as_filter(filters: Any) -> dict[str, Any] | None:
    """The filters in the form of the search; None if the search has no such filter."""
    if filters is None:
        return None
    condition = (filters.condition or types.FilterCondition.AND).value
    if condition not in ("and", "or"):
        return None
    parts = [
        _as_filter(each) if isinstance(each, types.MetadataFilters) else _as_test(each) for each in filters.filters
    ]
    return {f"${condition}": parts} if parts and None not in parts else None


def _as_test(test: Any) -> dict[str, Any] | None:
    sign, value = _SIGNS.get(test.operator.value), test.value
    if sign is None or value is None or isinstance(value, list) != (test.operator.value == "in"):
        return None
    return {test.key: {sign: [value] if test.operator.value == "==" else value}}
