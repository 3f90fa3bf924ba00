"""How long ``hashlearn recommend`` takes, and whether it names what the experiment "embeddings" shows to be best.

    python benchmarks/recommend.py cifar-10-cnn ag-news-minilm mnist

All rows of a dataset are written to a file, as a user has them, and the command runs on it in a process of its own. A
line for every dataset is added to ``results/recommend.jsonl``; docs/howto/embeddings.md has the table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from runs import add_out_option, append_run

from hashlearn.datasets import load

SCALES = {"mnist": 255}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--bytes", type=int, default=16)
    parser.add_argument("--idle", action="store_true", help="say that nothing else runs: the seconds count")
    add_out_option(parser)
    options = parser.parse_args()
    for name in options.datasets:
        line = measured(name, options.bytes) | {"idle": options.idle}
        append_run(options.out, "recommend", line)
        print(line)


def measured(name: str, n_bytes: int) -> dict[str, Any]:
    """What the command said of a dataset, and how long it took."""
    dataset = load(name)
    with tempfile.TemporaryDirectory() as folder:
        vectors, labels, found = (Path(folder) / name for name in ("vectors.npy", "labels.npy", "found.json"))
        np.save(vectors, np.asarray(dataset.features, np.float32) / np.float32(SCALES.get(name, 1)))
        np.save(labels, dataset.labels)
        command = [sys.executable, "-m", "hashlearn", "recommend", vectors, "--labels", labels, "--json", found]
        start = time.perf_counter()
        subprocess.run([*map(str, command), "--bytes", str(n_bytes)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        said = json.loads(found.read_text())
    n, d = dataset.features.shape
    named = {job: {key: said[job][key] for key in ("title", "n_bits")} for job in ("by_meaning", "by_neighborhood")}
    return {"dataset": name, "rows": n, "features": d, "bytes": n_bytes, "seconds": round(seconds, 1), **named}


if __name__ == "__main__":
    main()
