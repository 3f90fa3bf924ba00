"""A Hub on this machine: the part of its HTTP interface that pushing and pulling a folder uses."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HubHandler(BaseHTTPRequestHandler):
    """Repositories of the server's dict: name -> path -> bytes."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            name = json.loads(body)
            repo = f"{name.get('organization') or 'me'}/{name['name']}"
            self.server.repos.setdefault(repo, {})
            self._json({"url": f"{self.server.address}/{repo}"})
        elif parts[:2] == ["api", "validate-yaml"]:
            self._json({"errors": [], "warnings": []})
        elif parts[4] == "preupload":
            files = [each["path"] for each in json.loads(body)["files"]]
            said = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in files]
            self._json({"files": said})
        elif parts[4] == "commit":
            repo = "/".join(parts[2:4])
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.server.repos[repo][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self._json({"commitUrl": f"{self.server.address}/{repo}/commit/1", "commitOid": self._commit(repo)})
        else:
            self._missing()

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"] and "/".join(parts[2:4]) in self.server.repos:
            repo = "/".join(parts[2:4])
            if "tree" in parts:
                files = self.server.repos[repo].items()
                self._json([{"type": "file", "path": path, "size": len(data), "oid": "0"} for path, data in files])
                return
            siblings = [{"rfilename": path} for path in self.server.repos[repo]]
            self._json({"id": repo, "sha": self._commit(repo), "siblings": siblings, "private": False, "tags": []})
        elif len(parts) > 4 and parts[2] == "resolve":
            content = self.server.repos.get("/".join(parts[:2]), {}).get("/".join(parts[4:]))
            if content is None:
                self._missing()
                return
            etag = hashlib.sha1(content).hexdigest()
            headers = {"ETag": f'"{etag}"', "X-Repo-Commit": self._commit("/".join(parts[:2]))}
            self._send(200, content, "application/octet-stream", headers)
        else:
            self._missing()

    do_HEAD = do_GET

    def log_message(self, *arguments: Any) -> None:
        pass

    def _commit(self, repo: str) -> str:
        state = json.dumps({path: hashlib.sha1(data).hexdigest() for path, data in self.server.repos[repo].items()})
        return hashlib.sha1(state.encode()).hexdigest()

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), "application/json", {})

    def _missing(self) -> None:
        self._send(404, b"{}", "application/json", {"X-Error-Code": "RepoNotFound"})

    def _send(self, status: int, content: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def hub_here() -> Iterator[Any]:
    """The server, with ``address`` and ``repos``."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), HubHandler)
    server.address, server.repos = f"http://127.0.0.1:{server.server_port}", {}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
