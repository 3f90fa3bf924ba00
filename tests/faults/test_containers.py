"""Where nothing can be written: a read-only root, and no home."""

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


def test_a_user_without_a_home(tmp_path, monkeypatch):
    """As in a container that is started with any number for its user: no one knows where ``~`` is."""
    for name in ("HASHLEARN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", str)
    assert len(load("digits")) == 1797
    assert os.listdir(tmp_path) == []
