"""Pictures of strangers through ``hashlearn serve --encoder gist``: answers, memory, and whether others are served.

    python benchmarks/pictures.py                      # 200 shapes, and bombs of every format; two minutes
    python benchmarks/pictures.py --shapes 20

The shapes are from 1 x 1 to 80,000,000 x 1. Memory is that of the server and of its process for pictures together: the
most that each has had, less what both had before the first picture. A client searches by vectors all the while. A line
for each format is added to ``results/pictures.jsonl``.
"""

import argparse
import base64
import io
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
from PIL import Image
from runs import add_out_option, append_run
from serving import free_port, wait_until_ready

from hashlearn import LSH, SimilaritySearch

WIDTH, MOST_PIXELS = 512, 80_000_000
BOMBS = {
    "PNG": [((5000, 5000), "RGBA"), ((8900, 8900), "L"), ((9000, 9000), "1"), ((4000, 4000), "I;16")],
    "GIF": [((16000, 5000), "P"), ((9000, 9000), "P")],
    "TIFF": [((5000, 5000), "RGB"), ((16000, 5000), "1"), ((4000, 4000), "F"), ((5000, 5000), "CMYK")],
    "WEBP": [((5000, 4900), "RGB"), ((16383, 160), "RGBA")],
    "JPEG": [((9000, 8000), "RGB"), ((65000, 700), "L"), ((8000, 8000), "CMYK")],
    "BMP": [((3900, 3900), "L"), ((9000, 9000), "1")],
    "PPM": [((3900, 3900), "L"), ((2200, 2200), "RGB")],
}


def picture(size: tuple[int, int], mode: str, kind: str) -> bytes:
    file = io.BytesIO()
    options = {"TIFF": {"compression": "tiff_adobe_deflate"}, "WEBP": {"lossless": True}}.get(kind, {})
    Image.new(mode, size).save(file, kind, **options)
    return file.getvalue()


def bombs(kind: str) -> Iterator[bytes]:
    for size, mode in BOMBS[kind]:
        yield picture(size, mode, kind)


def shapes(n: int) -> Iterator[bytes]:
    """PNG files of one color from 1 x 1 to 80,000,000 x 1; the first four are the corners."""
    yield from (picture(size, "L", "PNG") for size in ((1, 1), (MOST_PIXELS, 1), (1, 200_000), (1, 5_000_000)))
    rng = np.random.default_rng(0)
    for _ in range(n - 4):
        width, height = 10 ** rng.uniform(0, np.log10(MOST_PIXELS), 2)
        height = max(1, min(height, MOST_PIXELS / width))
        yield picture((int(width), int(height)), str(rng.choice(["L", "1", "P"])), "PNG")


def make_search(folder: Path) -> None:
    X = np.random.default_rng(0).standard_normal((3000, WIDTH)).astype(np.float32)
    SimilaritySearch(LSH(n_bits=64, random_state=0), keep_vectors="float32").fit(X).add(X).save(folder)


def megabytes(process: subprocess.Popen, of: str) -> float:
    """Memory of a process and of those that it has started: ``VmRSS`` now, ``VmHWM`` at most."""
    own = Path(f"/proc/{process.pid}")
    started = [number for thread in own.glob("task/*/children") for number in thread.read_text().split()]
    kilobytes = 0
    for place in (own, *(Path(f"/proc/{number}") for number in started)):
        lines = (place / "status").read_text().splitlines()
        kilobytes += next(int(line.split()[1]) for line in lines if line.startswith(of))
    return kilobytes / 1024


class PlainClient(threading.Thread):
    """Searches by a vector until it is stopped."""

    def __init__(self, url: str):
        super().__init__(daemon=True)
        self.url, self.stopped = url, threading.Event()
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=600) as client:
            while not self.stopped.wait(0.02):
                self.statuses[client.post("/v1/search", json={"vector": [0.5] * WIDTH}).status_code] += 1


def measured(kind: str, files: Iterator[bytes], folder: Path) -> dict:
    port = free_port()
    command = [sys.executable, "-m", "hashlearn", "serve", str(folder), "--port", str(port), "--encoder", "gist"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(port, process)
        plain = PlainClient(url)
        plain.start()
        statuses: Counter[int] = Counter()
        with httpx.Client(base_url=url, timeout=600) as client:
            client.post("/v1/search", json={"image": base64.b64encode(picture((300, 200), "RGB", "PNG")).decode()})
            idle = megabytes(process, "VmRSS")
            peak = idle
            for content in files:
                answer = client.post("/v1/search", json={"image": base64.b64encode(content).decode()})
                statuses[answer.status_code] += 1
                peak = max(peak, megabytes(process, "VmHWM"))
        plain.stopped.set()
        plain.join()
        return {
            "kind": kind,
            "files": statuses.total(),
            "found": statuses[200],
            "refused": sum(count for status, count in statuses.items() if 400 <= status < 500),
            "other": sum(count for status, count in statuses.items() if status >= 500),
            "megabytes_idle": round(idle),
            "megabytes_above": round(peak - idle),
            "plain": plain.statuses.total(),
            "plain_errors": plain.statuses.total() - plain.statuses[200],
        }
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", type=int, default=200)
    add_out_option(parser)
    options = parser.parse_args()
    Image.MAX_IMAGE_PIXELS = None
    kinds: dict[str, Iterator[bytes]] = {f"{options.shapes} shapes": shapes(options.shapes)}
    kinds |= {kind: bombs(kind) for kind in BOMBS}
    with tempfile.TemporaryDirectory() as temporary:
        make_search(Path(temporary) / "search")
        for kind, files in kinds.items():
            line = measured(kind, files, Path(temporary) / "search")
            print(json.dumps(line), flush=True)
            append_run(options.out, "pictures", line)


if __name__ == "__main__":
    main()
