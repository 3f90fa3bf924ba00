"""Where nothing can be written: a read-only root, and no home."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hashlearn
from hashlearn import ITQ, SimilaritySearch
from hashlearn.datasets import load

WORK = """
import sys
import time
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from hashlearn import ITQ, JPSH, SimilaritySearch
    X = np.random.RandomState(0).randn(80, 6)
    JPSH(n_bits=8, random_state=0).fit_transform(X)
    distances, ids = SimilaritySearch(ITQ(n_bits=4, random_state=0), keep_vectors="int8").fit(X).add(X).search(X[:3], 2)
    from fastapi.testclient import TestClient
    from hashlearn.server import create_app
    from hashlearn.server.page import add_page
    app = create_app(SimilaritySearch.open(sys.argv[1]))
    add_page(app, title="read-only")
    with TestClient(app, base_url="http://localhost") as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.1)
        page, found = client.get("/"), client.post("/v1/search", json={"vectors": X[:1].tolist(), "k": 2})
        refused = client.put("/v1/points", json={"points": [{"id": 900, "vector": X[0].tolist()}]})
print(page.status_code, found.json()["results"][0]["ids"][0], refused.status_code, refused.json()["error"]["message"])
from hashlearn.datasets import load
print(distances.shape, len(load("digits")))
print(*{str(warning.message) for warning in said if "hashlearn" in str(warning.filename) or "compiled" in str(warning)})
"""
PROJECT = Path(__file__).parents[2]
READ_ONLY = "mount --make-rprivate / && mount -o remount,bind,ro / && cd / && exec"


def can_remount() -> bool:
    """Whether this user may have a root of its own that is read-only."""
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "--mount", "sh", "-c", f"{READ_ONLY} true"], capture_output=True, check=False)
    return done.returncode == 0


def environment(tmp_path: Path, **settings: str) -> dict[str, str]:
    """Of a process without a home, whose package is a copy that nothing was compiled beside."""
    package = tmp_path / "site" / "hashlearn"
    shutil.copytree(Path(hashlearn.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH", "LANG")}
    return {**kept, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **settings}


@pytest.mark.skipif(not can_remount(), reason="needs the right to mount: run it as root of Linux")
def test_a_read_only_root_and_no_home(tmp_path):
    env = environment(tmp_path, HOME="/nonexistent")
    X = np.random.RandomState(0).randn(80, 6)
    SimilaritySearch(ITQ(n_bits=4, random_state=0), keep_vectors="float32").fit(X).add(X).save(tmp_path / "search")
    place = str(tmp_path / "search")
    command = ["unshare", "--mount", "sh", "-c", f'{READ_ONLY} "$0" -c "$1" "$2"', sys.executable, WORK, place]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    served, shapes, said = [line for line in done.stdout.splitlines() if not line.startswith("{")]
    assert served == "200 0 503 the write could not be saved; nothing was changed"
    assert shapes == "(3, 2) 1797"
    assert said.count("NUMBA_CACHE_DIR") == 1
    assert "set TMPDIR" in said


IMAGE = """
import fcntl, json, os, pathlib, socket, struct, subprocess, sys, time, urllib.request
root, package, search, cache, entry, health = sys.argv[1:]
def mount(*words):
    subprocess.run(["mount", *words], check=True)
mount("--make-rprivate", "/")
mount("-t", "tmpfs", "tmpfs", root)
os.makedirs(root + "/tmp")
mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", root + "/tmp")
shown = {path: path for path in ("/usr", "/bin", "/lib", "/lib64", sys.base_prefix, sys.prefix, "/dev", "/proc")}
shown |= {package: "/opt/hashlearn/site", search: "/data/search", cache: "/cache"}
for source, place in shown.items():
    if os.path.exists(source):
        os.makedirs(root + place, exist_ok=True)
        mount("--rbind", source, root + place)
for folder in (search, cache):
    for path in (folder, *map(str, pathlib.Path(folder).rglob("*"))):
        os.chown(path, 10001, 10001)
mount("-o", "remount,ro", root)
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))  # loopback is up: no other network is there
env = {"PATH": "/usr/sbin:/usr/bin:/bin", "PYTHONPATH": "/opt/hashlearn/site", "NUMBA_CACHE_DIR": "/cache",
       "PYTHONDONTWRITEBYTECODE": "1", "HASHLEARN_API_KEY": "read", "HASHLEARN_WRITE_KEY": "write"}
def inside(words):
    user = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
    return subprocess.Popen(["chroot", root, *user, *words], env=env, stderr=subprocess.PIPE, text=True)
server = inside([sys.executable, "-m", *json.loads(entry)])
check = [sys.executable, *json.loads(health)[1:]]
while inside(check).wait() and server.poll() is None:
    time.sleep(0.2)
def ask(method, path, body):
    headers = {"Authorization": "Bearer write"}
    asked = urllib.request.Request("http://127.0.0.1:8000" + path, json.dumps(body).encode(), headers, method=method)
    return json.load(urllib.request.urlopen(asked, timeout=60))
if server.poll() is None:
    written = ask("PUT", "/v1/points", {"points": [{"id": 900, "vector": [9.0] * 6}]})["written"]
    found = ask("POST", "/v1/search", {"id": 900, "k": 1, "candidates": 81})["results"][0]["ids"]
    uid = next(line.split()[1] for line in open(f"/proc/{server.pid}/status") if line.startswith("Uid"))
    server.terminate()
    print(json.dumps([written, found, int(uid)]))
told = server.communicate()[1]
print(json.dumps([server.returncode, len(os.listdir(cache)) > 0]))
sys.stderr.write(told)
"""


@pytest.mark.skipif(not can_remount(), reason="needs the right to mount: run it as root of Linux")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_the_image_as_far_as_it_goes_without_docker(tmp_path):
    """What ``Dockerfile`` and ``compose.yaml`` start: an empty read-only root, user 10001 without rights, no network.

    The packages are those of this environment; pip does not run.
    """
    package = Path(environment(tmp_path)["PYTHONPATH"])
    X = np.random.RandomState(0).randn(80, 6)
    SimilaritySearch(ITQ(n_bits=4, random_state=0), keep_vectors="float32").fit(X).add(X).save(tmp_path / "search")
    for name in ("root", "cache"):
        (tmp_path / name).mkdir()
    image, compose = (PROJECT / name for name in ("Dockerfile", "compose.yaml"))
    entry = _list_after("ENTRYPOINT ", image) + _list_after("    command: ", compose)
    health = _list_after("    CMD ", image)
    places = [tmp_path / "root", package, tmp_path / "search", tmp_path / "cache"]
    command = [
        "unshare",
        "--mount",
        "--net",
        sys.executable,
        "-c",
        IMAGE,
        *places,
        json.dumps(entry),
        json.dumps(health),
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered, ended = map(json.loads, done.stdout.splitlines())
    assert answered == [1, [900], 10001], done.stderr
    assert ended == [0, True], done.stderr
    assert len(SimilaritySearch.open(tmp_path / "search")) == 81


def _list_after(words: str, path: Path) -> list[str]:
    """The JSON list of the line that begins like this."""
    (line,) = [line for line in path.read_text().splitlines() if line.startswith(words)]
    return json.loads(line.removeprefix(words))


def test_a_user_without_a_home(tmp_path, monkeypatch):
    """As in a container that is started with any number for its user: no one knows where ``~`` is."""
    for name in ("HASHLEARN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", str)
    assert len(load("digits")) == 1797
    assert os.listdir(tmp_path) == []
