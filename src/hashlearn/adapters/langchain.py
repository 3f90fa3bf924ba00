"""A vector store of LangChain over a similarity search."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.adapters.documents import DocumentSearch, FoundDocument
from hashlearn.extras import require
from hashlearn.search import SimilaritySearch

documents: Any = require("langchain_core.documents", "langchain")
vectorstores: Any = require("langchain_core.vectorstores", "langchain")
vectorstore_utils: Any = require("langchain_core.vectorstores.utils", "langchain")

Filter = dict[str, Any] | Callable[[Any], bool] | None


class LangChainVectorStore(vectorstores.VectorStore):
    """Texts and their embeddings, found by learned codes and ordered by the vectors.

    A payload of the search has the metadata of a document and its text, so you can use a search that was made elsewhere
    if its payloads have the text.

    Parameters
    ----------
    embedding : langchain_core.embeddings.Embeddings
        Turns texts into vectors.
    search : SimilaritySearch, str, Path or None
        A search that is fitted, or the folder of one; see :class:`~hashlearn.adapters.documents.DocumentSearch`.
    metric : {"euclidean", "cosine", "dot"}
        The metric, if the search is made here.
    text_field : str
        The field of a payload that has the text.
    candidates : int or None
        How many codes to rerank; None for the default of the search.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = LangChainVectorStore(DeterministicFakeEmbedding(size=8))
    >>> store.add_texts(["a cat", "a dog"], [{"legs": 4}, {"legs": 4}], ids=["1", "2"])
    ['1', '2']
    >>> store.similarity_search("a dog", k=1, filter={"legs": {"$gte": 4}})
    [Document(id='2', metadata={'legs': 4}, page_content='a dog')]
    """

    def __init__(
        self,
        embedding: Any,
        search: SimilaritySearch | str | Path | None = None,
        *,
        metric: str = "cosine",
        text_field: str = "text",
        candidates: int | None = None,
    ):
        self._embedding, self._text_field = embedding, text_field
        self._rows = DocumentSearch(search, metric, candidates)

    @property
    def embeddings(self) -> Any:
        """The embeddings, which turn texts into vectors."""
        return self._embedding

    @property
    def search_by_codes(self) -> SimilaritySearch | None:
        """The search itself, to tune, save or look into; None while the store is empty and has none."""
        return self._rows.search

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Embed texts, add them and return their ids; a text with a known id replaces the old one."""
        listed = list(texts)
        known = [{}] * len(listed) if metadatas is None else list(metadatas)
        names = [None] * len(listed) if ids is None else list(ids)
        if len(known) != len(listed) or len(names) != len(listed):
            raise ValueError(f"metadatas and ids must be as many as the {len(listed)} texts")
        for metadata in known:
            if self._text_field in metadata:
                raise ValueError(f"metadatas must not have the field {self._text_field!r}, which is that of the text")
        chosen = [str(uuid.uuid4()) if name is None else name for name in names]
        payloads = [{**metadata, self._text_field: text} for metadata, text in zip(known, listed)]
        if listed:
            self._rows.put(chosen, self._embedding.embed_documents(listed), payloads)
        return chosen

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Remove documents; without ids, all documents. Unknown ids are ignored."""
        self._rows.remove(self._rows.ids if ids is None else ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Any]:
        """The documents of the known ids among these."""
        return [self._document(id, payload) for id, payload in self._rows.payloads(ids).items()]

    def similarity_search(self, query: str, k: int = 4, filter: Filter = None, **kwargs: Any) -> list[Any]:
        """The k nearest documents of a text."""
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, filter)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter = None, **kwargs: Any
    ) -> list[Any]:
        """The k nearest documents of a vector."""
        return [document for document, _ in self._with_scores(embedding, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter = None, **kwargs: Any
    ) -> list[tuple[Any, float]]:
        """The k nearest documents of a text with their distances: 1 - cosine, Euclidean, or minus the inner product."""
        return self._with_scores(self._embedding.embed_query(query), k, filter)

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
        **kwargs: Any,
    ) -> list[Any]:
        """As :meth:`max_marginal_relevance_search_by_vector`, of a text."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
        **kwargs: Any,
    ) -> list[Any]:
        """K of the ``fetch_k`` nearest documents that are near the query and unlike each other."""
        found = self._found(embedding, fetch_k, filter)
        vectors = self._rows.vectors([each.id for each in found])
        order = vectorstore_utils.maximal_marginal_relevance(
            np.array([embedding], np.float32), [vectors[each.id] for each in found], lambda_mult=lambda_mult, k=k
        )
        return [self._document(found[place].id, found[place].payload) for place in order]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Any,
        metadatas: list[dict] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> "LangChainVectorStore":
        """A store with these texts; other arguments are those of the class."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def save(self, folder: str | Path) -> None:
        """Write the search to a folder, which ``search=`` opens again."""
        if self._rows.search is None:
            raise ValueError("the store has no rows yet, and so no search to save")
        self._rows.search.save(folder)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        scores = {
            "cosine": self._cosine_relevance_score_fn,
            "euclidean": self._euclidean_relevance_score_fn,
            "dot": self._max_inner_product_relevance_score_fn,
        }
        return scores[self._rows.metric]

    def _with_scores(self, vector: list[float], k: int, filter: Filter) -> list[tuple[Any, float]]:
        return [(self._document(each.id, each.payload), each.distance) for each in self._found(vector, k, filter)]

    def _found(self, vector: list[float], k: int, filter: Filter) -> list[FoundDocument]:
        if not callable(filter):
            return self._rows.nearest(vector, k, filter)
        payloads = self._rows.payloads(self._rows.ids)
        subset = [id for id, payload in payloads.items() if filter(self._document(id, payload))]
        return self._rows.nearest(vector, k, subset=subset)

    def _document(self, id: str, payload: dict[str, Any]) -> Any:
        metadata = {name: value for name, value in payload.items() if name != self._text_field}
        return documents.Document(id=id, page_content=payload.get(self._text_field) or "", metadata=metadata)
