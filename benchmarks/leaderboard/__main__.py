"""Recall and meaning against bytes: learned codes beside quantizers, on any file of vectors.

    python benchmarks/leaderboard ag-news-minilm glove.npy --cosine glove --seeds 5

Every run adds a line to ``results.jsonl`` of the output folder; a run that is there is not made again. The raw results
are in its folder ``raw``, and ``leaderboard.html`` shows the Pareto fronts.
"""

import argparse
import os
import sys
from pathlib import Path

# One thread for every library; before numpy is imported.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np
from board_data import board_data
from board_method import all_methods, installed
from board_page import write_page
from board_runs import Run, make, measured_again, results_of


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    try:
        if options.measure_again:
            measured_again(options.out)
        run_all(options)
        lines = results_of(options.out)
        if not lines:
            raise ValueError(f"{options.out} has no results: name a data set")
        print(write_page(lines, options.out / "leaderboard.html"))
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"leaderboard: {error}")
    except KeyboardInterrupt:
        sys.exit("leaderboard: interrupted; the same command goes on")


def run_all(options: argparse.Namespace) -> None:
    """Make the runs that are missing: every method on all data sets before the next one."""
    done = set() if options.again else {line["key"] for line in results_of(options.out)}
    wanted = None if options.methods is None else {name.lower() for name in options.methods.split(",")}
    methods = list(installed(all_methods(options.method)))
    unknown = (wanted or set()) - {method.name.lower() for method in methods}
    if unknown:
        raise ValueError(f"--methods must be among {', '.join(m.name for m in methods)}; got {', '.join(unknown)}")
    cosine = set(options.cosine.split(","))
    sets = [board_data(name, options.rows, options.queries, Path(name).stem in cosine) for name in options.data]
    for seed in range(options.seeds):
        for method in methods:
            if (wanted is None or method.name.lower() in wanted) and (seed == 0 or method.seeded):
                runs = [Run(data, method, setting, seed) for data in sets for setting in method.settings]
                for run in runs:
                    features, metric = run.data.rows.shape[1], run.data.metric
                    if run.key not in done and method.suits(run.setting, features, metric):
                        attempt(run, options.out)


def attempt(run: Run, folder: Path) -> None:
    """Make a run; one that fails says so, and the others go on."""
    try:
        line = make(run, folder)
        print(run.key, f"{line['bytes']:g} bytes", line["measures"], flush=True)
    except (ValueError, TypeError, RuntimeError, MemoryError, np.linalg.LinAlgError) as error:
        print(f"{run.key} failed: {' '.join(str(error).split())[:300]}", flush=True)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="leaderboard", description=__doc__.partition("\n")[0])
    parser.add_argument("data", nargs="*", metavar="FILE_OR_NAME", help="as hashlearn.datasets.load reads it")
    parser.add_argument("--methods", help="names with commas between; by default all")
    parser.add_argument("--method", action="append", default=[], metavar="PATH:CLASS", help="a method of your own")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="of the database, at most; default %(default)s")
    parser.add_argument("--queries", type=int, default=500, help="at most; default %(default)s")
    parser.add_argument("--cosine", default="", help="data sets to compare by cosine; rows of unit length always are")
    parser.add_argument("--out", type=Path, default=Path("leaderboard"), help="default %(default)s")
    parser.add_argument("--again", action="store_true", help="make runs that are there again")
    parser.add_argument("--measure-again", action="store_true", help="compute the measures from the stored raw results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
