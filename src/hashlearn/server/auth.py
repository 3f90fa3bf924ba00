"""Who may read and who may write: keys, compared in a time that does not depend on where they differ."""

import binascii
from base64 import b64decode
from hmac import compare_digest

from starlette.types import ASGIApp, Receive, Scope, Send

from hashlearn.server.errors import error_response
from hashlearn.server.settings import Settings

ALWAYS_OPEN = frozenset({"/healthz", "/readyz"})
_WRITING = frozenset({"PUT", "DELETE", "PATCH"})


class Auth:
    """ASGI middleware: a request without the key that it needs ends here, before its body is read.

    Programs send ``Authorization: Bearer KEY``. Browsers cannot; for pages they ask for a name and a password, and the
    password is the key.
    """

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app = app
        self.read_key = _as_bytes(settings.api_key)
        self.write_key = _as_bytes(settings.write_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS_OPEN:
            await self.app(scope, receive, send)
            return
        writes = scope["method"] in _WRITING
        if (self.write_key or self.read_key) if writes else self.read_key:
            sent = _key_sent(scope)
            may_write = _equal(sent, self.write_key)
            may_read = _equal(sent, self.read_key) | may_write
            if not (may_write if writes else may_read):
                await _refusal(scope, may_read)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _refusal(scope: Scope, may_read: bool):
    if may_read:
        return error_response(403, "this key allows reading, not writing", "Authorization")
    challenge = "Bearer" if scope["path"].startswith("/v1/") else 'Basic realm="hashlearn", charset="UTF-8"'
    message = "a key is wanted: Authorization: Bearer KEY"
    return error_response(401, message, "Authorization", {"WWW-Authenticate": challenge})


def _key_sent(scope: Scope) -> bytes:
    """The key of a request; empty if there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, credentials = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return credentials.strip()
            if scheme.lower() == b"basic":
                return _password(credentials)
    return b""


def _password(credentials: bytes) -> bytes:
    try:
        return b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _equal(sent: bytes, key: bytes) -> bool:
    return compare_digest(sent, key) and bool(key)


def _as_bytes(key: str | None) -> bytes:
    return b"" if key is None else key.encode()
