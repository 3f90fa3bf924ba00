"""Install the wheel and the source of a folder into empty environments and use them: ``python tests/smoke.py dist``.

pytest does not run this file; ``make dist`` does.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROGRAM = """
import numpy as np
import hashlearn
from hashlearn import ITQ, HammingIndex

X = np.random.default_rng(0).normal(size=(500, 32)).astype(np.float32)
np.save("vectors.npy", X)
hasher = ITQ(n_bits=16, random_state=0).fit(X)
hasher.save("model")
codes = hashlearn.load("model").transform(X)
distances, ids = HammingIndex(16).add(codes).search(codes[:5], k=1)
assert (distances == 0).all(), distances
assert "site-packages" in hashlearn.__file__, hashlearn.__file__
"""


def main(dist: str) -> None:
    (wheel,), (source,) = Path(dist).glob("*.whl"), Path(dist).glob("*.tar.gz")
    for package in (wheel, source):
        with tempfile.TemporaryDirectory() as folder:
            use(package.resolve(), Path(folder))
        print(f"{package.name}: installed and used")


def use(package: Path, folder: Path) -> None:
    """Install a package into an environment of its own, and run a program and a few commands there."""
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program: str, *arguments: str) -> str:
        command = [str(scripts / program), *arguments]
        return subprocess.run(
            command, check=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        ).stdout

    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package))
    run("python", "-c", PROGRAM)
    run("hashlearn", "--version")
    run("hashlearn", "fit", "vectors.npy", "--method", "lsh", "--bits", "16", "--out", "another")
    run("hashlearn", "encode", "another", "vectors.npy", "--out", "codes.npy")
    assert "JPSH, paper's settings" in run("hashlearn", "paper", "show", "table-1")


if __name__ == "__main__":
    main(*sys.argv[1:])
