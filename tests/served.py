"""A real server on loopback, in a process of its own, for the tests to talk to."""

import json
import subprocess
import sys
import threading
import time

import httpx
from forked import ForkedPython

SECONDS_TO_START = 120


class Server:
    """``hashlearn serve`` with arguments, on a port that was free."""

    def __init__(self, *arguments):
        self.begin([sys.executable, "-m", "hashlearn", "serve", *arguments])

    def begin(self, command, port=0):
        """Start the command of a server."""
        command = [*map(str, command), "--port", str(port)]
        self.process = ForkedPython(command, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = self.wait_for("listening")["url"]
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.client.close()
        self.kill()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_for(self, event):
        """The first line of the log with this event."""
        for _ in range(SECONDS_TO_START * 20):
            for line in self.events():
                if line["event"] == event:
                    return line
            if self.process.poll() is not None and not self.reader.is_alive():
                raise RuntimeError(f"the server ended: {''.join(self.lines)}")
            time.sleep(0.05)
        raise RuntimeError(f"the server did not say {event!r}: {''.join(self.lines)}")

    def ready(self):
        """Wait until it serves."""
        self.wait_for("ready")
        return self

    def events(self):
        """The lines of the log."""
        return [json.loads(line) for line in list(self.lines)]

    def post(self, path, body, **options):
        return self.client.post(path, json=body, **options)

    def put(self, *points):
        return self.client.put("/v1/points", json={"points": list(points)})

    def kill(self):
        """kill -9, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()

    def end(self, how):
        """Send a signal; the exit status."""
        self.process.send_signal(how)
        status = self.process.wait(60)
        self.reader.join()
        return status


def error_of(response):
    """Field and message of an answer that is an error; its shape is checked."""
    body = response.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"field", "message"}, body
    message = body["error"]["message"]
    assert "\n" not in message
    for secret in ("Traceback", "site-packages", ".py", "/tmp", "/home", "pydantic", "numpy", "starlette"):
        assert secret not in message
    return body["error"]["field"], message
