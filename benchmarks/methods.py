"""Every method of the registry: seconds of a fit and of encoding, against ITQ's, in one process on one thread.

    python benchmarks/methods.py             # a few minutes
    python benchmarks/methods.py --quick     # half a minute, fewer rows

Default parameters, the data clusters of Gaussians, the process's own time. A run adds one line to
``results/methods.jsonl``.
"""

import os

from machine import one_thread

os.environ.update(one_thread())

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from runs import add_out_option, append_run
from training import clusters

from hashlearn.hashers import METHODS

N_BITS = 64
BASE = "itq"


def main() -> None:
    options = parse()
    rows, features = (2_000, 64) if options.quick else (20_000, 128)
    X = clusters(rows, features)
    fits = {name: seconds_of(name, X, options.repeat) for name in METHODS}
    found = []
    for name, (fit, encode) in fits.items():
        line = {"method": name, "fit_seconds": fit, "encode_seconds": encode}
        line |= {"fit": fit / fits[BASE][0], "encode": encode / fits[BASE][1]}
        found.append(line)
        print(f"{name:8} fit {line['fit']:9.2f} x ITQ   encode {line['encode']:9.2f} x ITQ")
    run = {"quick": options.quick, "rows": rows, "features": features, "n_bits": N_BITS, "methods": found}
    print(append_run(options.out, "methods", run))


def seconds_of(name: str, X: np.ndarray, repeat: int) -> tuple[float, float]:
    """The least seconds of a fit and of encoding the rows, of the process's own time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = METHODS[name]
        make(n_bits=8, random_state=0).fit(X[:500]).transform(X[:500])  # compiles
        hasher = make(n_bits=N_BITS, random_state=0)
        return least(lambda: hasher.fit(X), repeat), least(lambda: hasher.transform(X), repeat)


def least(work: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows, half a minute")
    parser.add_argument("--repeat", type=int, default=2)
    add_out_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
