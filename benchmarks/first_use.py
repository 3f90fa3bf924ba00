"""How long a first program takes: import, fit ABH with 128 bits on 5,000 x 384, add, search.

    python benchmarks/first_use.py --other ../before/src

Each run is a process of its own. A cold run has an empty cache of kernels, and a warm run has what the cold one left.
With ``--other`` another checkout's ``src`` is measured in turn with this one, and the ratios are printed. Seconds of
the processor are given beside those of the clock: on a machine that others use only they can be compared. Python's
bytecode is there, as after ``pip install``: what was not compiled yet is compiled in a run that does not count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTS = "from hashlearn import ABH, SimilaritySearch; import numba.core.codegen"
OWN = Path(__file__).resolve().parents[1] / "src"
PROGRAM = """
import json, sys, time
start = time.perf_counter()
marks = {}
def mark(step):
    marks[step] = (time.perf_counter() - start, time.process_time())
import numpy as np
from hashlearn import ABH, SimilaritySearch
mark("import")
X = np.random.default_rng(0).standard_normal((5000, 384)).astype(np.float32)
hasher = ABH(128, random_state=0).fit(X)
mark("fit")
search = SimilaritySearch(hasher)
search.add(X)
mark("add")
distances, ids = search.search(X[:10], 10)[:2]
mark("search")
import hashlib
digest = hashlib.sha256(hasher.transform(X).tobytes() + distances.tobytes() + ids.tobytes()).hexdigest()
print(json.dumps({"marks": marks, "digest": digest}))
"""


def environment_of(source: Path, cache: Path | str = "") -> dict[str, str]:
    """The environment of a run of this source."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}


def run(source: Path, cache: Path) -> dict:
    """Seconds of the clock and of the processor until the end of each step, and the digest of the result."""
    environment = environment_of(source, cache)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def help_seconds(source: Path) -> float:
    """Seconds of the processor that ``hashlearn --help`` takes."""
    environment = environment_of(source)
    before = os.times()
    subprocess.run([sys.executable, "-m", "hashlearn", "--help"], env=environment, capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(sources: dict[str, Path], repeats: int) -> dict:
    """For each source and each kind of run, the runs; the sources take turns."""
    runs: dict = {name: {"cold": [], "warm": [], "help": []} for name in sources}
    for source in sources.values():
        help_seconds(source)
        subprocess.run([sys.executable, "-c", IMPORTS], env=environment_of(source), check=True)
    for _ in range(repeats):
        for name, source in sources.items():
            with tempfile.TemporaryDirectory() as cache:
                runs[name]["cold"].append(run(source, Path(cache)))
                runs[name]["warm"].append(run(source, Path(cache)))
            runs[name]["help"].append(help_seconds(source))
    return runs


def print_runs(name: str, runs: dict) -> None:
    for kind in ("cold", "warm"):
        for clock, label in enumerate(("clock", "processor")):
            ends = [{step: times[clock] for step, times in each["marks"].items()} for each in runs[kind]]
            steps = ", ".join(f"{step} {statistics.median(end[step] for end in ends):.2f}" for step in ends[0])
            print(f"{name} {kind}, {label}: seconds until the end of {steps}")
    print(f"{name} --help, processor: {statistics.median(runs['help']):.2f} s")


def last(runs: list[dict], clock: int) -> float:
    return statistics.median(each["marks"]["search"][clock] for each in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--other", type=Path, help="the src folder of another checkout, measured in turn")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    sources = {"this": OWN} if arguments.other is None else {"other": arguments.other.resolve(), "this": OWN}
    runs = measure(sources, arguments.repeats)
    for name in sources:
        print_runs(name, runs[name])
    if arguments.other is not None:
        for kind in ("cold", "warm"):
            ratios = [last(runs["this"][kind], clock) / last(runs["other"][kind], clock) for clock in (0, 1)]
            print(f"{kind}: this / other = {ratios[0]:.2f} by the clock, {ratios[1]:.2f} by the processor")
        digests = {each["digest"] for name in sources for kind in ("cold", "warm") for each in runs[name][kind]}
        print("the results are the same" if len(digests) == 1 else "THE RESULTS DIFFER")


if __name__ == "__main__":
    main()
