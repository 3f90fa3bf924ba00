"""What it costs to add vectors in the forms that people hold, beside the plain array.

    python benchmarks/inputs.py --rows 1000000
    python benchmarks/inputs.py --matrix  # counts the cases of tests/rows/inputs/test_matrix.py instead

The same vectors are added to new searches as an array and in another form, in turn; one thread. Times are those of the
processor, so that other work on the machine does not count. A form that numpy can view costs what the array costs; the
others are converted first, and that is part of their time.
"""

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec

import machine

os.environ.update(machine.one_thread())

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from runs import add_out_option, append_run
from suites import ROOT, outcome_of

from hashlearn import ITQ, SimilaritySearch

N_FEATURES, N_BITS = 128, 64


def fixed_size(X: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


FORMS = {
    "pyarrow FixedSizeList": fixed_size,
    "pyarrow table with a column of them": lambda X: pa.table({"id": np.arange(len(X)), "embedding": fixed_size(X)}),
    "pyarrow List": lambda X: pa.ListArray.from_arrays(
        pa.array(np.arange(0, X.size + 1, X.shape[1], dtype=np.int32)), pa.array(X.ravel())
    ),
    "polars Array": lambda X: pl.Series(X),
    "pandas Series of arrays": lambda X: pd.Series(list(X)),
    "pandas, a column for each feature": pd.DataFrame,
}


def seconds_of(hasher: ITQ, keep_vectors: str | None, vectors: object) -> float:
    """The time of one add to a new search."""
    search = SimilaritySearch(hasher, keep_vectors=keep_vectors, index="flat")
    start = time.process_time()
    search.add(vectors)
    seconds = time.process_time() - start
    search.close()
    return seconds


KINDS = {
    "test_vectors": ("vectors", "VECTORS", "ENTRIES"),
    "test_vectors_by_slices": ("vectors, read in slices", "SLICED", "RARE_ENTRIES"),
    "test_one_vector": ("one vector", "ONE_VECTOR", "ONE_VECTOR_ENTRIES"),
    "test_integers_as_ids": ("integers as ids", "INTEGERS", "ID_ENTRIES"),
    "test_strings_as_ids": ("strings as ids", "STRINGS", "ID_ENTRIES"),
    "test_payloads": ("payloads", "PAYLOADS", "PAYLOAD_ENTRIES"),
}
"""Tests of the matrix: what they pass, and the names of their forms and entry points."""


def matrix() -> dict:
    """How many forms and entry points the tests of the matrix have, and how many cases passed."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/rows/inputs")]
    import test_matrix

    outcome = outcome_of(["tests/rows/inputs/test_matrix.py"])
    cases = Counter(name.partition("[")[0] for name in outcome.names)
    rows = [
        {"what": what, "forms": len(getattr(test_matrix, forms)), "entry points": len(getattr(test_matrix, entries))}
        | {"cases": cases[test]}
        for test, (what, forms, entries) in KINDS.items()
    ]
    torch = version("torch") if find_spec("torch") is not None else None
    return {"matrix": rows, "tests": outcome.n_tests, "passed": outcome.n_passed, "torch": torch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrix", action="store_true", help="count the cases of the matrix, and measure no time")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=[*FORMS])
    parser.add_argument("--keep-vectors", choices=["float32", "float16", "int8"])
    add_out_option(parser)
    options = parser.parse_args()
    if options.matrix:
        print(append_run(options.out, "inputs", matrix()))
        return
    X = np.random.default_rng(0).standard_normal((options.rows, N_FEATURES), dtype=np.float32)
    hasher = ITQ(n_bits=N_BITS, random_state=0, max_iter=5).fit(X[:20_000])
    seconds_of(hasher, options.keep_vectors, X[:1000])  # what is compiled is compiled now
    ratios = {}
    for name in options.forms:
        form = FORMS[name](X)
        pairs = []
        for repeat in range(options.repeats):
            both = [X, form][:: -1 if repeat % 2 else 1]  # each is first as often as the other
            times = [seconds_of(hasher, options.keep_vectors, vectors) for vectors in both]
            pairs.append(tuple(times[:: -1 if repeat % 2 else 1]))
        array, other = (statistics.median(times) for times in zip(*pairs))
        ratios[name] = round(statistics.median(second / first for first, second in pairs), 3)
        print(f"{name:<40} {other:6.2f} s, array {array:6.2f} s: {ratios[name]:.3f} times", flush=True)
    measured = {"rows": options.rows, "features": N_FEATURES, "keep_vectors": options.keep_vectors, "times": ratios}
    print(append_run(options.out, "inputs", measured))


if __name__ == "__main__":
    main()
