"""``/v1/points``: rows by id. A write is on disk before it is answered."""

from functools import partial
from typing import Any

from fastapi import APIRouter

from hashlearn.server.arrays import base64_text, vector_matrix
from hashlearn.server.errors import Problem, unprocessable
from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import ERRORS, PointResponse, PointsRequest, PointsResponse
from hashlearn.server.service import Served, Service

router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["points"])


@router.put("/v1/points", response_model=PointsResponse)
async def put_points(service: Served, body: PointsRequest) -> Any:
    """Write rows: new ones, or in place of those with their ids. All of them, or none."""
    service.check_batch("points", body.points)
    ids = [point.id for point in body.points]
    _check_ids(ids)
    X = vector_matrix("points.{}.vector", [point.vector for point in body.points], service.n_features)
    payloads = [point.payload or {} for point in body.points]
    await service.write(partial(service.search.upsert, X, ids, payloads))
    return {"written": len(ids)}


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
    """On the thread that writes: nobody removes the row between the look and the removal."""
    record = service.record_of_path(id)
    if record is None:
        raise _no_such(id)
    try:
        service.search.remove([record.id])
    except ValueError:  # removed by a request that is answered together with this one
        raise _no_such(id) from None


def _no_such(id: str) -> Problem:
    return Problem(404, f"there is no row with the id {id[:100]!r}", "id")


def _check_ids(ids: list[int | str]) -> None:
    """One kind of ids, and none twice."""
    seen = set()
    for number, id in enumerate(ids):
        if type(id) is not type(ids[0]):
            raise unprocessable(f"points.{number}.id", "must be a number or a string, as the other ids are")
        if id in seen:
            raise unprocessable(f"points.{number}.id", f"must be there once, got {id!r} again")
        seen.add(id)
