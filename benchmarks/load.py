"""A client that asks as fast as answers come, and costs little: prepared bytes out, as few lines as possible in.

    python benchmarks/load.py requests.hex --port 8000 --clients 8 --seconds 5

``requests.hex`` holds whole HTTP requests, one a line in hex. Each client has a connection of its own and sends the
next request when its answer is there. Prints one JSON object: requests a second, and latencies in milliseconds.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path

WARM_UP = 0.2
"""Share of the time whose requests are not counted."""


def prepared(path: str, bodies: list[bytes]) -> list[bytes]:
    """HTTP requests that post these bodies."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]


class Client(asyncio.Protocol):
    """One connection that always has one request under way."""

    def __init__(self, requests: list[bytes], first: int, step: int, until: float, latencies: list):
        self.requests, self.next, self.step = requests, first, step
        self.until = until
        self.latencies = latencies
        self.received = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        self.ask()

    def ask(self):
        self.start = time.perf_counter()
        self.transport.write(self.requests[self.next % len(self.requests)])
        self.next += self.step

    def data_received(self, data):
        self.received += data
        head = self.received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = self.received.find(b"content-length: ")
        n_bytes = int(self.received[length + 16 : self.received.index(b"\r", length)])
        if len(self.received) < head + 4 + n_bytes:
            return
        now = time.perf_counter()
        self.latencies.append((now, now - self.start, self.received[9:12] == b"200"))
        self.received = b""
        if now < self.until:
            self.ask()
        else:
            self.transport.close()
            self.ended.set_result(None)

    def connection_lost(self, error):
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionResetError("the server closed the connection"))


async def measure(requests: list[bytes], port: int, n_clients: int, seconds: float) -> dict:
    """Requests a second and latencies, after a warm-up."""
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    latencies: list = []
    clients = []
    for number in range(n_clients):
        make = lambda number=number: Client(requests, number, n_clients, start + seconds, latencies)  # noqa: E731
        clients.append((await loop.create_connection(make, "127.0.0.1", port))[1])
    await asyncio.gather(*(client.ended for client in clients))
    counted = [line for line in latencies if line[0] > start + WARM_UP * seconds]
    taken = sorted(latency for _, latency, _ in counted)
    span = max(end for end, _, _ in counted) - (start + WARM_UP * seconds)
    return {
        "clients": n_clients,
        "requests": len(counted),
        "per_second": len(counted) / span,
        "p50_ms": 1000 * taken[len(taken) // 2],
        "p99_ms": 1000 * taken[min(len(taken) - 1, int(0.99 * len(taken)))],
        "errors": sum(not ok for _, _, ok in counted),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("requests", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    requests = [bytes.fromhex(line) for line in options.requests.read_text().split()]
    print(json.dumps(asyncio.run(measure(requests, options.port, options.clients, options.seconds))))


if __name__ == "__main__":
    main()
