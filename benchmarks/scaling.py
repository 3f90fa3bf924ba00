"""How long a fit takes and how much memory, against the number of rows, features, anchors and bits, with a prediction.

    python benchmarks/scaling.py     # about three minutes, 2 GB of disk

The prediction of the seconds is arithmetic: the operations of the matrix products a fit needs and the numbers it moves
beside them, over the speeds of a product and of memory measured in the same run. That of the memory counts the blocks
in flight and the sums. A run adds one line to ``results/scaling.jsonl``; ``--plot FILE`` draws it.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import scipy.linalg
from large import file_of_clusters, fit_apart
from runs import add_out_option, append_run

from hashlearn.linalg.anchors.graph import ROTATION_ROWS
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import BLOCK_ELEMENTS
from hashlearn.threads import n_threads

BASE = {"rows": 100_000, "features": 256, "anchors": 400, "bits": 64}
VARIED = {
    "rows": (50_000, 100_000, 200_000, 400_000),
    "features": (128, 256, 512, 1024),
    "anchors": (100, 200, 400, 800, 1600),
    "bits": (16, 64, 128, 256),
}
ROUNDS = 10
ROTATION_ROUNDS = 30
PASSES_OVER_ANCHORS = ROUNDS + 2
"""The rounds of k-means, the distances to the nearest anchors, and the sums."""

MEGABYTE = 1 << 20


def main() -> None:
    options = parse()
    lines = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for name, values in VARIED.items():
            for value in values:
                at = {**BASE, name: value}
                path = file_of_clusters(Path(folder), at["rows"], at["features"])
                fit = fit_apart(path, rows=at["rows"], n_anchors=at["anchors"], n_bits=at["bits"])
                line = {"varied": name, **at, **fit, "predicted": {"seconds": seconds(at), "megabytes": megabytes(at)}}
                lines.append(line)
                print(
                    f"{name:>8} {value:>7}: {line['seconds']:6.1f} s, predicted {line['predicted']['seconds']:6.1f} s; "
                    f"{line['megabytes']:5.0f} MB, predicted {line['predicted']['megabytes']:5.0f} MB"
                )
    print(append_run(options.out, "scaling", {"threads": n_threads(), "fits": lines}))
    if options.plot is not None:
        plot(lines, options.plot)


def seconds(at: dict) -> float:
    """Operations over the speed of a product, numbers moved over the speed of memory, and the decompositions.

    Every pass multiplies the rows with the anchors; the last has a Gram product, too, and the rotation of the start two
    products of bits x bits and a singular value decomposition a round. Beside the products a pass moves a row as it is
    read and summed (2 d numbers; rescaled and weighted as well in the last two passes), and its products as they are
    written and searched (2 m).
    """
    n, d, m, bits = at["rows"], at["features"], at["anchors"], at["bits"]
    rows = np.random.default_rng(0).standard_normal((8192, d), dtype=np.float32)
    anchors = rows[:m].T.copy()
    speed = 2 * rows.shape[0] * d * m / least(lambda: rows @ anchors)
    operations = PASSES_OVER_ANCHORS * 2 * n * d * m + 2 * n * d * d
    operations += ROTATION_ROUNDS * 2 * 2 * min(n, ROTATION_ROWS) * bits**2 * 2  # double precision has half the speed
    moved = 4 * n * ((ROUNDS * 2 + 2 * 4) * d + PASSES_OVER_ANCHORS * 2 * m)
    gram, square = anchors.T.astype(np.float64) @ anchors, np.random.default_rng(1).standard_normal((bits, bits))
    eigenvectors = least(lambda: scipy.linalg.eigh(gram), 1)
    rotations = ROTATION_ROUNDS * least(lambda: scipy.linalg.svd(square))
    return operations / speed + moved / bytes_a_second() + eigenvectors + rotations


@cache
def bytes_a_second() -> float:
    """How fast all threads together read blocks and write them elsewhere."""
    blocks = [np.ones((2, BLOCK_ELEMENTS), np.float32) for _ in range(n_threads())]
    with ThreadPoolExecutor(n_threads()) as pool:
        spent = least(lambda: list(pool.map(lambda block: np.subtract(block[0], 1, out=block[1]), blocks)))
    return sum(block.nbytes for block in blocks) / spent


def megabytes(at: dict) -> float:
    """A block for every thread and one more, each as it is read, rescaled and weighted; products; sums."""
    d, m, threads = at["features"], at["anchors"], n_threads()
    block = 4 * d * RowBlocks(np.empty((1, d), np.float32)).block_rows
    products = 4 * (1 << 21)
    sums = 8 * (d * d + d * m + m * m)
    return ((threads + 1) * block + threads * (2 * block + products) + (threads + 2) * sums) / MEGABYTE


def least(work, repeat: int = 5) -> float:
    """The least seconds of several tries."""
    found = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def plot(lines: list[dict], path: Path) -> None:
    """A column for each of the four, seconds above memory; measured as dots, predicted as a line."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(VARIED), figsize=(11, 5), layout="constrained", sharey="row", sharex="col")
    for column, name in enumerate(VARIED):
        of = [line for line in lines if line["varied"] == name]
        x = [line[name] for line in of]
        for row, what in enumerate(("seconds", "megabytes")):
            axis = axes[row][column]
            axis.plot(x, [line["predicted"][what] for line in of], color="#c44e52", label="predicted")
            axis.plot(x, [line[what] for line in of], "o", color="#4878a8", label="measured")
            axis.set_xscale("log", base=2)
            axis.set_xticks(x, [f"{value:,}" for value in x], fontsize=7)
            axis.grid(alpha=0.3)
        axes[1][column].set_xlabel(name)
    for row in axes:  # when all of a row is drawn: its figures have one scale
        row[0].set_ylim(bottom=0)
    axes[0][0].set_ylabel("seconds")
    axes[1][0].set_ylabel("memory, MB")
    axes[0][0].legend(frameon=False)
    base = ", ".join(f"{value:,} {name}" for name, value in BASE.items())
    figure.suptitle(f"A default JPSH fit; what is not varied: {base}", fontsize=10)
    figure.savefig(path)
    plt.close(figure)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_out_option(parser)
    parser.add_argument("--plot", type=Path, help="draw the fits to this file")
    parser.add_argument("--scratch", type=Path, help="folder for the data; the system's if not given")
    return parser.parse_args()


if __name__ == "__main__":
    main()
