"""Forms that a browser posts, read without delaying other requests.

The parser of forms works letter by letter in Python: 16 MB would take it seconds, on the thread that answers everybody.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive

from hashlearn.server.errors import Problem
from hashlearn.server.service import Service

_MOST_BYTES_OF_TEXT = 1 << 21
_BYTES_AT_A_TIME = 1 << 14


@asynccontextmanager
async def posted_form(
    request: Request, service: Service, *, most_files: int, most_fields: int
) -> AsyncIterator[FormData]:
    """The fields of a form. Its files are closed at the end of the block.

    Parameters
    ----------
    request : Request
    service : Service
        Has the threads.
    most_files, most_fields : int
        A form with more is refused.
    """
    body = await request.body()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
        yield await service.run(_fields_of, body, most_fields)
        return
    in_pieces = Request(request.scope, _in_pieces(body))
    limits = {"max_files": most_files, "max_fields": most_fields, "max_part_size": _MOST_BYTES_OF_TEXT}
    async with in_pieces.form(**limits) as form:
        yield form


def _fields_of(body: bytes, most_fields: int) -> FormData:
    if len(body) > _MOST_BYTES_OF_TEXT:
        raise Problem(413, f"a form without files must have at most {_MOST_BYTES_OF_TEXT} bytes")
    try:
        fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=most_fields)
    except ValueError:
        raise Problem(422, f"the form must have at most {most_fields} fields") from None
    listed: list[tuple[str, str | UploadFile]] = list(fields)
    return FormData(listed)


def _in_pieces(body: bytes) -> Receive:
    """Gives the body piece by piece, so that other requests are answered between two pieces."""
    start = 0

    async def receive() -> Message:
        nonlocal start
        await asyncio.sleep(0)
        piece = body[start : start + _BYTES_AT_A_TIME]
        start += len(piece)
        return {"type": "http.request", "body": piece, "more_body": start < len(body)}

    return receive
