"""``GET /v1/info``: what is served."""

from typing import Any

from fastapi import APIRouter

from hashlearn.server.json_route import JsonRoute
from hashlearn.server.models import ERRORS, Info, Limits
from hashlearn.server.service import Served

router = APIRouter(route_class=JsonRoute, responses=ERRORS, tags=["info"])


@router.get("/v1/info", response_model=Info)
async def info(service: Served) -> Any:
    """The rows, the codes and the limits."""
    search, settings = service.search, service.settings
    return {
        "rows": len(search),
        "n_bits": search.n_bits,
        "n_features": service.n_features,
        "method": type(search.hasher).__name__,
        "metric": search.metric,
        "features": service.features is not None,
        "limits": {name: getattr(settings, name) for name in Limits.model_fields},
    }
