"""``POST /v1/search``: the neighbors of vectors, a row, codes, a text or an image."""

from typing import Any

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray

from hashlearn.server.arrays import base64_bytes, code_matrix
from hashlearn.server.batching import Cut, QueryBatch, Wanted, search_alone, search_asked
from hashlearn.server.errors import Problem, unprocessable
from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import ERRORS, SearchRequest, SearchResponse
from hashlearn.server.service import Served, Service

router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["search"])

_FEW_NEIGHBORS = 2000
"""Requests for at most this many neighbors are searched together; one for more is searched alone."""
_CANDIDATES = 50
"""Reranking this many candidates takes as long as reading and writing the payload of one neighbor."""
_MANY_NEIGHBORS = 20_000
"""An answer with more neighbors is long; only a few long answers are made at a time."""
_LARGEST_SUBSET = 100_000
_QUERIES = ("vector", "vectors", "id", "code", "codes", "text", "image", "like")


@router.post("/v1/search", response_model=SearchResponse)
async def search(service: Served, body: SearchRequest) -> Any:
    """The nearest rows of each query."""
    service.guard.check()
    service.check_most("k", body.k, service.settings.max_k)
    if body.subset is not None:
        service.check_most("subset", len(body.subset), _LARGEST_SUBSET)
    if body.candidates is not None:
        service.check_most("candidates", body.candidates, service.settings.max_candidates)
    _check_beside(body)
    if body.text is not None and (answer := await _found_by_text(service, body)) is not None:
        return answer
    if body.like is not None:
        service.check_batch("like", body.like)
        service.check_most("unlike", len(body.unlike or ()), service.settings.max_batch)
        return await _asked(service, body, None, {"like": body.like, "unlike": body.unlike})
    by, rows = await _queries(service, body)
    if body.diversity:
        if by == "codes":
            raise unprocessable("diversity", "is for vectors, got codes")
        return await _asked(service, body, rows, {})
    if by == "codes" and service.search.query != "code":
        raise Problem(422, "this search compares vectors with codes: send vectors", "code")
    if by == "codes" and body.recall is not None:
        raise unprocessable("recall", "is for vectors, got codes")
    wanted = Wanted(by, body.k, body.rerank, body.candidates, body.recall)
    query = QueryBatch(rows, Cut(body.radius, body.payloads))
    n_neighbors = body.k * len(rows)
    is_plain = body.filter is None and body.subset is None and body.recall != 1
    if is_plain and max(n_neighbors, len(rows) * (body.candidates or 0) // _CANDIDATES) <= _FEW_NEIGHBORS:
        if by == "vectors":
            service.watch.asked(rows[0], body.k, wanted.options())
        return await service.searches.submit(wanted, query)
    if n_neighbors > _MANY_NEIGHBORS:
        await service.workers.place_for_large_answer()
    among = {"filter": body.filter, "subset": body.subset}
    return await service.run(search_alone, service.search, wanted, query, among, service.settings.max_answer_bytes)


async def _found_by_text(service: Service, body: SearchRequest) -> bytes | None:
    """The answer to a text if the search has texts; None if only the vector of the text can be searched for."""
    has_words = await service.run(lambda: service.search.text_field is not None)
    if not has_words and body.by is None:
        return None
    vectors = None
    if body.by != "words" and (body.by is not None or service.features is not None):
        vectors = await service.vectors_of_texts("text", [str(body.text)])
    asked = {"text": [body.text], "by": body.by, "weights": body.weights, "operators": body.operators}
    return await _asked(service, body, vectors, asked)


async def _asked(service: Service, body: SearchRequest, vectors: NDArray | None, asked: dict[str, Any]) -> bytes:
    """The answer of a search of its own."""
    asked |= {"diversity": body.diversity, "filter": body.filter, "subset": body.subset}
    wanted = Wanted("vectors", body.k, body.rerank, body.candidates, body.recall)
    cut, most = Cut(body.radius, body.payloads), service.settings.max_answer_bytes
    return await service.run(search_asked, service.search, wanted, vectors, asked, cut, most)


def _check_beside(body: SearchRequest) -> None:
    """One kind of query is there, and what others take is not."""
    _check_one_query(body)
    if body.text is None:
        for name in ("by", "weights", "operators"):
            if getattr(body, name):
                raise unprocessable(name, "is for a text, got a query without one")
    if body.unlike is not None and body.like is None:
        raise unprocessable("unlike", "is for a query by like, got another one")


def _check_one_query(body: SearchRequest) -> None:
    given = [name for name in _QUERIES if getattr(body, name) is not None]
    if len(given) != 1:
        raise Problem(422, f"one of {', '.join(_QUERIES)} is wanted, got {' and '.join(given) or 'none'}", "vector")


async def _queries(service: Service, body: SearchRequest) -> tuple[str, NDArray]:
    """ "vectors" or "codes", and the matrix of them."""
    if body.vector is not None:
        return "vectors", await service.vectors("vector", [body.vector])
    if body.vectors is not None:
        service.check_batch("vectors", body.vectors)
        return "vectors", await service.vectors("vectors.{}", body.vectors)
    if body.code is not None:
        return "codes", code_matrix("code", [body.code], service.search.n_bits, body.code_encoding)
    if body.codes is not None:
        service.check_batch("codes", body.codes)
        return "codes", code_matrix("codes.{}", body.codes, service.search.n_bits, body.code_encoding)
    if body.text is not None:
        return "vectors", await service.vectors_of_texts("text", [body.text])
    if body.image is not None:
        return "vectors", await service.vectors_of_images("image", [base64_bytes("image", body.image)])
    return await service.run(_of_row, service, body.id)


def _of_row(service: Service, id: int | str) -> tuple[str, NDArray]:
    """The vector of a row, or its code where the search keeps no vectors."""
    record = service.record(id)
    if record is None:
        raise unprocessable("id", f"must be in the search, got {id!r}, which is not")
    if record.vector is not None:
        return "vectors", np.asarray(record.vector, np.float32)[None]
    return "codes", record.code[None]
