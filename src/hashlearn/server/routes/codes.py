"""``POST /v1/codes`` and ``POST /v1/embeddings``: the codes of vectors, texts or images."""

from typing import Any

from fastapi import APIRouter
from numpy.typing import NDArray

from hashlearn.codes import bytes_per_code
from hashlearn.server.arrays import base64_bytes, base64_text, written_codes
from hashlearn.server.errors import Problem, unprocessable
from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import (
    ERRORS,
    CodesRequest,
    CodesResponse,
    EmbeddingsRequest,
    EmbeddingsResponse,
)
from hashlearn.server.service import Served, Service

router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["codes"])

_INPUTS = ("vectors", "texts", "images")


@router.post("/v1/codes", response_model=CodesResponse)
async def codes(service: Served, body: CodesRequest) -> Any:
    """Codes, first bit most significant: base64, hex, or lists of bytes ("ubinary")."""
    vectors = await _vectors(service, body)
    encoded = await service.encode(vectors)
    return {
        "codes": written_codes(encoded, body.encoding),
        "encoding": body.encoding,
        "n_bits": service.search.n_bits,
    }


@router.post("/v1/embeddings", response_model=EmbeddingsResponse)
async def embeddings(service: Served, body: EmbeddingsRequest) -> Any:
    """Codes for clients of OpenAI's embeddings: an embedding is the bytes of a code, as numbers from 0 to 255."""
    width = bytes_per_code(service.search.n_bits)
    if body.dimensions not in (None, width):
        raise unprocessable("dimensions", f"must be the {width} bytes of a code, got {body.dimensions}")
    numbers = (await service.encode(await _vectors_of_input(service, body.input))).astype("<f4")
    written = [base64_text(row) for row in numbers] if body.encoding_format == "base64" else numbers.tolist()
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(written)],
        "model": body.model,
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }


async def _vectors(service: Service, body: CodesRequest) -> NDArray:
    given = [name for name in _INPUTS if getattr(body, name) is not None]
    if len(given) != 1:
        raise Problem(422, f"one of {', '.join(_INPUTS)} is wanted, got {' and '.join(given) or 'none'}", "vectors")
    service.check_batch(given[0], getattr(body, given[0]))
    if body.vectors is not None:
        return await service.vectors("vectors.{}", body.vectors)
    if body.texts is not None:
        return await service.vectors_of_texts("texts", body.texts)
    images = [base64_bytes(f"images.{number}", image) for number, image in enumerate(body.images or [])]
    return await service.vectors_of_images("images", images)


async def _vectors_of_input(service: Service, given: str | list) -> NDArray:
    """Texts, or vectors, one or many."""
    many: list = given if isinstance(given, list) and given and isinstance(given[0], (str, list)) else [given]
    service.check_batch("input", many)
    if isinstance(many[0], str):
        return await service.vectors_of_texts("input", many)
    return await service.vectors("input.{}" if many is given else "input", many)
