"""A document store of Haystack over a similarity search, and the retriever for its pipelines."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.adapters.documents import DocumentSearch, untrained_search
from hashlearn.extras import require
from hashlearn.search import SimilaritySearch

haystack: Any = require("haystack", "haystack")
errors: Any = require("haystack.document_stores.errors", "haystack")
filter_utils: Any = require("haystack.utils.filters", "haystack")
policies: Any = require("haystack.document_stores.types", "haystack")

EMBEDDED = "_embedded"
"""The field of a payload that is false for a document without an embedding."""

ALL_EMBEDDED: dict[str, Any] = {EMBEDDED: {"$ne": False}}


class HaystackDocumentStore:
    """Documents and their embeddings, found by learned codes and ordered by the vectors.

    Embeddings are kept as float32. Filters have Haystack's meaning; they are applied to one document after the other.

    Parameters
    ----------
    search : str, Path, SimilaritySearch or None
        A search that is fitted, or the folder of one. None makes one for ``embedding_dim`` features; see
        :class:`~hashlearn.adapters.documents.DocumentSearch`. To save a pipeline, pass a folder.
    embedding_dim : int
        Length of the embeddings, if the search is made here.
    metric : {"euclidean", "cosine", "dot"}
        The metric, if the search is made here.

    Examples
    --------
    >>> store = HaystackDocumentStore(embedding_dim=2)
    >>> store.write_documents([haystack.Document(content="a cat", embedding=[1, 0], meta={"legs": 4})])
    1
    >>> store.filter_documents({"field": "meta.legs", "operator": ">", "value": 3})[0].content
    'a cat'
    """

    def __init__(
        self,
        search: str | Path | SimilaritySearch | None = None,
        *,
        embedding_dim: int = 768,
        metric: str = "cosine",
    ):
        self._settings = {"search": search, "embedding_dim": embedding_dim, "metric": metric}
        self._rows = DocumentSearch(untrained_search(embedding_dim, metric) if search is None else search)

    @property
    def search_by_codes(self) -> SimilaritySearch:
        """The search itself, to tune, save or look into."""
        assert self._rows.search is not None
        return self._rows.search

    def to_dict(self) -> dict[str, Any]:
        """The settings of the store, for saving a pipeline."""
        search = self._settings["search"]
        if isinstance(search, SimilaritySearch):
            if search.folder is None:
                raise ValueError("a search without a folder cannot be saved with a pipeline; search.save(folder) first")
            search = search.folder
        settings = {**self._settings, "search": None if search is None else str(search)}
        return haystack.default_to_dict(self, **settings)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "HaystackDocumentStore":
        """The store with the settings that :meth:`to_dict` gave."""
        return haystack.default_from_dict(cls, data)

    def count_documents(self) -> int:
        """How many documents there are."""
        return len(self._rows)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Any]:
        """The documents that meet the filters; all documents without filters."""
        ids = self._matching(filters)
        payloads, vectors = self._rows.payloads(ids), self._rows.vectors(ids)
        return [_document(id, payload, vectors[id]) for id, payload in payloads.items()]

    def write_documents(self, documents: list[Any], policy: Any = policies.DuplicatePolicy.NONE) -> int:
        """Write documents and return how many; the policy says what happens to documents with a known id."""
        if not isinstance(documents, Iterable) or not all(isinstance(each, haystack.Document) for each in documents):
            raise ValueError("documents must be a list of haystack.Document")
        chosen = list(documents)
        known = [each.id for each in chosen if each.id in self._rows]
        if known and policy in (policies.DuplicatePolicy.NONE, policies.DuplicatePolicy.FAIL):
            raise errors.DuplicateDocumentError(f"ID '{known[0]}' already exists.")
        if policy == policies.DuplicatePolicy.SKIP:
            chosen = [each for each in chosen if each.id not in set(known)]
        nowhere = np.eye(1, self._rows.n_features)[0]
        vectors = [nowhere if each.embedding is None else each.embedding for each in chosen]
        self._rows.put([each.id for each in chosen], vectors, [_payload(each) for each in chosen])
        return len(chosen)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Remove documents; unknown ids are ignored."""
        self._rows.remove(document_ids)

    def delete_all_documents(self) -> None:
        """Remove all documents."""
        self._rows.remove(self._rows.ids)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Remove the documents that meet the filters; returns how many."""
        return self._rows.remove(self._matching(filters))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of the metadata of the documents that meet the filters; returns how many."""
        found = self.filter_documents(filters)
        changed = [replace(document, meta={**document.meta, **meta}) for document in found]
        self.write_documents(changed, policies.DuplicatePolicy.OVERWRITE)
        return len(found)

    async def count_documents_async(self) -> int:
        """:meth:`count_documents` in a thread."""
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Any]:
        """:meth:`filter_documents` in a thread."""
        return await asyncio.to_thread(self.filter_documents, filters)

    async def write_documents_async(self, documents: list[Any], policy: Any = policies.DuplicatePolicy.NONE) -> int:
        """:meth:`write_documents` in a thread."""
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """:meth:`delete_documents` in a thread."""
        await asyncio.to_thread(self.delete_documents, document_ids)

    def embedding_retrieval(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int = 10
    ) -> list[Any]:
        """The documents with the nearest embeddings, with scores: larger is nearer."""
        subset = self._matching(filters) if filters else None
        found = self._rows.nearest(query_embedding, top_k, ALL_EMBEDDED, subset)
        vectors = self._rows.vectors([each.id for each in found])
        return [
            _document(
                each.id,
                each.payload,
                vectors[each.id],
                score=1 - each.distance if self._rows.metric == "cosine" else -each.distance,
            )
            for each in found
        ]

    def _matching(self, filters: dict[str, Any] | None) -> list[str]:
        if not filters:
            return self._rows.ids
        if "operator" not in filters and "conditions" not in filters:
            raise errors.FilterError(
                "Invalid filter syntax. See https://docs.haystack.deepset.ai/docs/metadata-filtering"
            )
        payloads = self._rows.payloads(self._rows.ids)
        return [
            id
            for id, payload in payloads.items()
            if filter_utils.document_matches_filter(filters, _document(id, payload, None))
        ]


@haystack.component
class HaystackEmbeddingRetriever:
    """The retriever for pipelines: an embedding in, documents out.

    Parameters
    ----------
    document_store : HaystackDocumentStore
    filters : dict or None
        Filters for all queries; filters of a query replace them.
    top_k : int
    """

    def __init__(self, document_store: HaystackDocumentStore, filters: dict[str, Any] | None = None, top_k: int = 10):
        self.document_store, self.filters, self.top_k = document_store, filters, top_k

    def to_dict(self) -> dict[str, Any]:
        """The settings of the retriever, for saving a pipeline."""
        store = self.document_store.to_dict()
        return haystack.default_to_dict(self, document_store=store, filters=self.filters, top_k=self.top_k)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "HaystackEmbeddingRetriever":
        """The retriever with the settings that :meth:`to_dict` gave."""
        settings = data["init_parameters"]
        settings["document_store"] = HaystackDocumentStore.from_dict(settings["document_store"])
        return haystack.default_from_dict(cls, data)

    @haystack.component.output_types(documents=list[haystack.Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """The nearest documents of one embedding."""
        found = self.document_store.embedding_retrieval(
            query_embedding, self.filters if filters is None else filters, self.top_k if top_k is None else top_k
        )
        return {"documents": found}


def _payload(document: Any) -> dict[str, Any]:
    said = document.to_dict(flatten=False)
    said.pop("embedding", None)
    payload = {name: value for name, value in said.items() if value is not None and name not in ("id", "score")}
    return payload if document.embedding is not None else {**payload, EMBEDDED: False}


def _document(id: str, payload: dict[str, Any], vector: Any, score: float | None = None) -> Any:
    said = {name: value for name, value in payload.items() if name != EMBEDDED}
    embedding = vector.tolist() if vector is not None and payload.get(EMBEDDED, True) else None
    return haystack.Document.from_dict({**said, "id": id, "score": score, "embedding": embedding})
