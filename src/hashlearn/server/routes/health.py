"""Is the server alive, is it ready, what does it do, and what can it be asked."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from hashlearn.server.api_page import api_page
from hashlearn.server.errors import error_response
from hashlearn.server.models import ERRORS
from hashlearn.server.service import Served

router = APIRouter()


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "alive"}


@router.get("/readyz", tags=["health"], responses=ERRORS)
async def readyz(service: Served) -> Response:
    """The search is warm: the first query is as fast as the next."""
    if not service.ready:
        return error_response(503, "the server is warming up", headers={"Retry-After": "1"})
    return JSONResponse({"status": "ready"})


@router.get("/metrics", tags=["health"], response_class=PlainTextResponse)
async def metrics(service: Served) -> Response:
    """Counts and times in the format of Prometheus."""
    service.metrics.rows.set(len(service.search))
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The endpoints, as a page."""
    return HTMLResponse(api_page(request.app.openapi()))
