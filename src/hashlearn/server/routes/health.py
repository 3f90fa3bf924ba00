"""Is the server alive, is it ready, what does it do, and what does it serve."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from hashlearn.server.errors import error_response
from hashlearn.server.service import Served

router = APIRouter()


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "alive"}


@router.get("/readyz", tags=["health"])
async def readyz(service: Served) -> Response:
    """The search is warm: the first query is as fast as the next."""
    if not service.ready:
        return error_response(503, "the server is warming up", headers={"Retry-After": "1"})
    return JSONResponse({"status": "ready"})


@router.get("/metrics", tags=["health"])
async def metrics(service: Served) -> Response:
    """Counts and times in the format of Prometheus."""
    service.metrics.rows.set(len(service.search))
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
