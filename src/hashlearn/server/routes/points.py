"""``/v1/points``: rows by id. A write is on disk before it is answered."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter

from hashlearn.search import SimilaritySearch
from hashlearn.server.arrays import base64_text
from hashlearn.server.errors import Problem, problem_of, unprocessable, written
from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import (
    ERRORS,
    CountResponse,
    DeleteRequest,
    DeleteResponse,
    FacetsRequest,
    FacetsResponse,
    FilterRequest,
    GetRequest,
    PointList,
    PointResponse,
    PointsRequest,
    PointsResponse,
    ScrollRequest,
    ScrollResponse,
)
from hashlearn.server.service import Served, Service

router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["points"])


@router.put("/v1/points", response_model=PointsResponse, response_model_exclude_none=True)
async def put_points(service: Served, body: PointsRequest) -> Any:
    """Write rows: new ones, or in place of those with their ids. All of them, or none."""
    service.check_batch("points", body.points)
    ids = [point.id for point in body.points]
    _check_ids(ids)
    X = await service.vectors("points.{}.vector", [point.vector for point in body.points])
    payloads = [point.payload or {} for point in body.points]
    if body.duplicates is None and body.max_distance is None:
        await service.write(partial(service.search.upsert, X, ids, payloads))
        service.watch.written(X)
        return {"written": len(ids)}
    near = await service.write(partial(_guarded, service.search, X, ids, payloads, body))
    n_written = len(ids) - (len(near) if body.duplicates == "skip" else 0)
    return {"written": n_written, "near": [each._asdict() for each in near]}


@router.post("/v1/points/get", response_model=PointList)
async def get_points(service: Served, body: GetRequest) -> Any:
    """Rows in the order of the given ids; unknown ids are left out."""
    service.check_batch("ids", body.ids)
    _check_kind(body.ids)
    return await service.run(_rows_of_ids, service, body)


@router.post("/v1/points/scroll", response_model=ScrollResponse)
async def scroll_points(service: Served, body: ScrollRequest) -> Any:
    """Rows in the order in which they were added, a page at a time."""
    service.check_most("limit", body.limit, service.settings.max_batch)
    if body.vectors:
        await service.workers.place_for_large_answer()
    return await service.run(_asked, service, _page_of_rows, body)


@router.post("/v1/points/count", response_model=CountResponse)
async def count_points(service: Served, body: FilterRequest) -> Any:
    """The number of rows, or of rows that meet a filter."""
    return await service.run(_asked, service, lambda search, body: {"count": search.count(body.filter)}, body)


@router.post("/v1/points/facets", response_model=FacetsResponse)
async def facets_of_points(service: Served, body: FacetsRequest) -> Any:
    """The values of a payload field, each with its number of rows."""
    service.check_most("limit", body.limit, service.settings.max_k)
    return await service.run(_asked, service, _facets, body)


@router.post("/v1/points/delete", response_model=DeleteResponse)
async def delete_points(service: Served, body: DeleteRequest) -> Any:
    """Remove rows by their ids. All of them, or none."""
    service.check_batch("ids", body.ids)
    _check_kind(body.ids)
    return await service.write(partial(_remove_all, service, body))


@router.get("/v1/points/{id:path}", response_model=PointResponse)
async def get_point(service: Served, id: str) -> Any:
    """A row."""
    record = await service.run(service.record_of_path, id)
    if record is None:
        raise _no_such(id)
    return {
        "id": record.id,
        "code": base64_text(record.code),
        "payload": record.payload or {},
        "vector": None if record.vector is None else record.vector.tolist(),
    }


@router.delete("/v1/points/{id:path}", status_code=204)
async def delete_point(service: Served, id: str) -> None:
    """Remove a row."""
    await service.write(partial(_remove, service, id))


def _remove(service: Service, id: str) -> None:
    """Runs on the thread that writes, so the row cannot be removed between the check and the removal."""
    record = service.record_of_path(id)
    if record is None:
        raise _no_such(id)
    try:
        service.search.remove([record.id])
    except ValueError:  # removed by another request of the same transaction
        raise _no_such(id) from None


def _no_such(id: str) -> Problem:
    return Problem(404, f"there is no row with the id {id[:100]!r}", "id")


def _check_ids(ids: list[int | str]) -> None:
    """Refuse ids of different kinds, and ids that occur twice."""
    seen = set()
    for number, id in enumerate(ids):
        if type(id) is not type(ids[0]):
            raise unprocessable(f"points.{number}.id", "must be a number or a string, as the other ids are")
        if id in seen:
            raise unprocessable(f"points.{number}.id", f"must be there once, got {id!r} again")
        seen.add(id)


def _check_kind(ids: list[int | str]) -> None:
    for number, id in enumerate(ids):
        if type(id) is not type(ids[0]):
            raise unprocessable(f"ids.{number}", "must be a number or a string, as the other ids are")


def _asked(service: Service, ask: Callable[[SimilaritySearch, Any], Any], body: Any) -> bytes:
    """The result of the search as JSON; an argument that it refuses becomes a 422 that names the field."""
    try:
        return written(ask(service.search, body))
    except (ValueError, TypeError) as error:
        raise problem_of(error, {name: name for name in ("filter", "limit", "after", "field")}) or error from None


def _guarded(search: SimilaritySearch, X: Any, ids: list[Any], payloads: list[dict], body: PointsRequest) -> Any:
    """Write rows, and return the rows that are near others."""
    try:
        search.upsert(X, ids, payloads, duplicates=body.duplicates, max_distance=body.max_distance)
    except ValueError as error:
        raise Problem(422, str(error), "duplicates") from None
    return search.near_rows


def _page_of_rows(search: SimilaritySearch, body: ScrollRequest) -> dict[str, Any]:
    page = search.scroll(body.filter, body.limit, body.after)
    return {"points": [_entry(record, body.vectors) for record in page.records], "after": page.after}


def _rows_of_ids(service: Service, body: GetRequest) -> bytes:
    try:
        records = service.search.get(body.ids)
    except (ValueError, TypeError) as error:
        raise problem_of(error, {"ids": "ids"}) or error from None
    return written({"points": [_entry(record, body.vectors) for record in records]})


def _facets(search: SimilaritySearch, body: FacetsRequest) -> dict[str, Any]:
    return {"facets": [facet._asdict() for facet in search.facets(body.field, body.filter, body.limit)]}


def _entry(record: Any, with_vector: bool) -> dict[str, Any]:
    vector = base64_text(np.asarray(record.vector, "<f4")) if with_vector and record.vector is not None else None
    return {"id": record.id, "code": base64_text(record.code), "payload": record.payload or {}, "vector": vector}


def _remove_all(service: Service, body: DeleteRequest) -> dict[str, int]:
    """On the thread that writes. A request that is answered together with this one may remove some rows first."""
    there = [id for id in dict.fromkeys(body.ids) if id in service.search]
    if body.must_exist and len(there) < len(set(body.ids)):
        missing = next(id for id in body.ids if id not in there)
        raise unprocessable("ids", f"must be in the search, got {missing!r:.60}, which is not")
    try:
        if there:
            service.search.remove(there)
    except ValueError as error:
        if body.must_exist:
            raise problem_of(error, {"ids": "ids"}) or error from None
        there = [id for id in there if _is_removed(service.search, id)]
    return {"removed": len(there)}


def _is_removed(search: SimilaritySearch, id: int | str) -> bool:
    """Remove a row; False where it is gone."""
    try:
        search.remove([id])
    except ValueError:
        return False
    return True
