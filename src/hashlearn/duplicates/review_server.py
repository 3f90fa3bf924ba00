"""The review page on this computer: pages are made on request, and decisions are saved at once.

It listens on the loopback address only. Its address has a secret part, so that other users and other sites in the
browser cannot read pages or save decisions.
"""

import mimetypes
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from hashlearn.duplicates.decisions import DECISIONS, Decision, read_decisions, write_decisions
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.review import RowDisplay, entries, group_parts, page_script, pages_of, review_page
from hashlearn.durable.files import parsed_json

_LARGEST_BODY = 1 << 20


class ReviewServer:
    """Serves the review of duplicates, and keeps decisions in a table.

    Parameters
    ----------
    duplicates : Duplicates
    decisions : Path
        The table of decisions; decisions in it are shown.
    shown : RowDisplay
        The functions that show a row; pictures are made when the browser requests them.
    title : str
    original : function or None
        From the number of a row to the file of its picture.
    port : int
        0 takes a free one.

    Attributes
    ----------
    address : str
        The address to open in a browser.
    n_decided : int
        Rows with a decision in the table.
    """

    def __init__(
        self,
        duplicates: Duplicates,
        decisions: Path,
        shown: RowDisplay,
        title: str,
        original: Callable[[int], Path] | None = None,
        port: int = 0,
    ):
        self.duplicates, self.table, self.title, self.original = duplicates, decisions, title, original
        self.picture = shown.picture
        self.shown = shown._replace(
            picture=None if shown.picture is None else lambda row: f"picture/{row}",
            file=None if original is None else lambda row: f"file/{row}",
        )
        self.pages = list(pages_of(group_parts(duplicates)))
        self.ids = set(duplicates.ids.tolist())
        known = read_decisions(decisions, duplicates.ids) if decisions.exists() else []
        self.decided: dict[Any, Decision] = {decision[0]: decision for decision in known}
        self.token = secrets.token_urlsafe(16)
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}/{self.token}/"

    @property
    def n_decided(self) -> int:
        return sum(bool(decision) for _, decision, _ in self.decided.values())

    def serve(self) -> None:
        """Answer until :meth:`close` is called, or the process is interrupted."""
        with self._server:
            self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        self._server.shutdown()

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """The type and the content at a path after the secret part; None if there is nothing."""
        name, _, number = path.partition("/")
        if path == "":
            first = self._groups(0) if self.pages else []
            page = review_page(self.duplicates, first, len(self.pages), self.title, self.token, "groups/", server=True)
            return "text/html; charset=utf-8", page.encode()
        row = int(number.removesuffix(".js")) if number.removesuffix(".js").isdecimal() else -1
        if name == "groups" and 0 < row < len(self.pages):
            return "text/javascript; charset=utf-8", page_script(row, self._groups(row))
        if name == "picture" and self.picture is not None and 0 <= row < len(self.duplicates):
            content = self.picture(row)
            return ("image/png" if content.startswith(b"\x89PNG") else "image/jpeg"), content
        if name == "file" and self.original is not None and 0 <= row < len(self.duplicates):
            file = self.original(row)
            kind = mimetypes.guess_type(file.name)[0] or ""
            return kind if kind.startswith("image/") else "application/octet-stream", file.read_bytes()
        return None

    def decide(self, body: bytes) -> None:
        """Save decisions, a JSON list of [id, decision, id of the kept row]; ValueError if it is not such a list."""
        try:
            given = parsed_json(body)
            new = [(name, decision, of) for name, decision, of in given if isinstance(given, list)]
            is_known = all(d in DECISIONS and name in self.ids and of in self.ids for name, d, of in new)
        except (ValueError, TypeError):
            new, is_known = [], False
        if not new or not is_known:
            raise ValueError("decisions must be a list of [id, decision, id] of known rows")
        with self._lock:
            decided = self.decided | {decision[0]: decision for decision in new}
            write_decisions(self.table, decided.values())
            self.decided = decided

    def _groups(self, number: int) -> list[dict]:
        groups = entries(self.duplicates, self.pages[number], self.shown)
        for row in (row for group in groups for row in group["rows"] if row["id"] in self.decided):
            row["decided"] = self.decided[row["id"]][1]
        return groups

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        review = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not self._is_ours():
                    return
                try:
                    found = review.answer(self.path.removeprefix(f"/{review.token}/"))
                except (OSError, ValueError) as error:  # a picture that is missing or damaged
                    self.send_error(HTTPStatus.NOT_FOUND, type(error).__name__)
                    return
                if found is None:
                    self.send_error(HTTPStatus.NOT_FOUND)
                else:
                    self._send(HTTPStatus.OK, *found)

            def do_POST(self) -> None:
                if not self._is_ours():
                    return
                length = self.headers.get("Content-Length", "")
                is_json = self.headers.get("Content-Type", "").partition(";")[0] == "application/json"
                if self.path != f"/{review.token}/decisions" or not is_json or not length.isdecimal():
                    self.send_error(HTTPStatus.BAD_REQUEST)
                    return
                if int(length) > _LARGEST_BODY:
                    self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                    return
                try:
                    review.decide(self.rfile.read(int(length)))
                except (ValueError, OSError) as error:
                    self._send(HTTPStatus.BAD_REQUEST, "text/plain; charset=utf-8", str(error).encode())
                    return
                self._send(HTTPStatus.OK, "text/plain; charset=utf-8", b"saved")

            def _is_ours(self) -> bool:
                """Refuse requests without the secret, and requests of other sites whose name leads to this computer."""
                hosts = {f"127.0.0.1:{review.port}", f"localhost:{review.port}"}
                ours = self.path.startswith(f"/{review.token}/") and self.headers.get("Host") in hosts
                if not ours:
                    self.send_error(HTTPStatus.NOT_FOUND)
                return ours

            def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None:
                """Nothing is printed for each request."""

        return Handler
