"""``/v1/snapshots``: copies of the state of a search, in a folder that the operator has named."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter

from hashlearn.deadline import DeadlineExceeded
from hashlearn.server.errors import SOON, Problem, unprocessable
from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import ERRORS, SnapshotEntry, SnapshotList, SnapshotRequest
from hashlearn.server.service import Served, Service
from hashlearn.server.telemetry import LOGGER
from hashlearn.upkeep import take_snapshot

router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["snapshots"])


@router.post("/v1/snapshots", response_model=SnapshotEntry, status_code=201)
async def make_snapshot(service: Served, body: SnapshotRequest) -> Any:
    """Copy the search and check the copy; others may write meanwhile. Needs the key to write."""
    target = _folder(service) / body.name
    if target.exists():
        raise unprocessable("name", f"must be new, got {body.name!r}")
    workers = service.workers
    if workers.copying.locked():
        raise Problem(503, "another snapshot is being made", headers=SOON)
    async with workers.copying:
        try:
            report = await workers.run(take_snapshot, service.search, target, pool=workers.writing, keeps_late=True)
        except DeadlineExceeded:
            raise
        except (OSError, ValueError) as error:
            LOGGER.error("a snapshot could not be made", exc_info=error)
            raise Problem(503, "the snapshot could not be made; the log of the server has more", headers=SOON) from None
    return {"name": body.name, "rows": report.rows}


@router.get("/v1/snapshots", response_model=SnapshotList)
async def list_snapshots(service: Served) -> Any:
    """The names of all snapshots."""
    folder = _folder(service)
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    return {"snapshots": sorted(name for name in names if not name.startswith("."))}


def _folder(service: Service) -> Path:
    if service.settings.snapshots is None:
        raise Problem(404, "this server makes no snapshots; start it with --snapshots FOLDER")
    if service.search.store is not None:
        raise Problem(404, "the rows live in a store: its database makes copies")
    return Path(service.settings.snapshots) / service.name
