"""A real browser on the real command: ``hashlearn app`` serves a folder of pictures, Chromium looks at it."""

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from urllib.request import urlopen

import numpy as np
import pytest
from forked import ForkedPython


def wait_until_ready(address):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(OSError), urlopen(f"{address}/readyz"):
            return
        time.sleep(0.05)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Pieces of the two photographs that come with scikit-learn, and a file that is no picture."""
    Image = pytest.importorskip("PIL.Image")
    from sklearn.datasets import load_sample_image

    folder = tmp_path_factory.mktemp("data") / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("china", "flower"):
        pixels = load_sample_image(f"{name}.jpg")
        for number in range(60):
            top, left = rng.integers(0, pixels.shape[0] - 200), rng.integers(0, pixels.shape[1] - 200)
            Image.fromarray(pixels[top : top + 200, left : left + 200]).save(folder / f"{name}{number:02}.jpg")
    (folder / "broken.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="session")
def upload(tmp_path_factory, photos):
    """A picture that is nearly one of the collection."""
    Image = pytest.importorskip("PIL.Image")
    path = tmp_path_factory.mktemp("upload") / "mine.png"
    Image.open(photos / "china07.jpg").resize((150, 150)).save(path)
    return path


@contextmanager
def served(cache, *arguments):
    """The address of ``hashlearn app`` with these arguments."""
    command = [sys.executable, "-m", "hashlearn", "app", *arguments, "--port", "0", "--bits", "32"]
    log = (cache / "log").open("w")
    environment = {**os.environ, "HASHLEARN_CACHE": str(cache), "PYTHONUNBUFFERED": "1"}
    with ForkedPython(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as server:
        try:
            line = server.stdout.readline()
            found = re.search(r"Open (http://\S+)", line)
            assert found, (line, (cache / "log").read_text())
            wait_until_ready(found[1])
            yield found[1]
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="session")
def address(tmp_path_factory, photos):
    """Where ``hashlearn app`` serves the photos."""
    with served(tmp_path_factory.mktemp("cache"), str(photos)) as address:
        yield address


@pytest.fixture(scope="session")
def texts_address(tmp_path_factory):
    """Where ``hashlearn app`` serves some texts."""
    folder = tmp_path_factory.mktemp("texts")
    about = ["bread", "playing chess online", "a fox in the snow", "rates of a bank", "chess for children", "soup"]
    (folder / "texts.csv").write_text("text\n" + "\n".join(f"{each} and {each}s" for each in about) + "\n")
    with served(folder, str(folder / "texts.csv"), "--text", "text") as address:
        yield address


@pytest.fixture
def browse(chromium, address):
    """Open a page; at the end nothing may have gone wrong in it, and no other host may have been asked."""
    contexts, faults = [], []

    def note(request):
        if not request.url.startswith((address, "blob:", "data:")):
            faults.append(f"asked another host: {request.url}")

    def browse(path="/", width=1280, **options):
        context = chromium.new_context(viewport={"width": width, "height": 800}, base_url=address, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", note)
        page.goto(path)
        return page

    yield browse
    for context in contexts:
        context.close()
    assert not faults
