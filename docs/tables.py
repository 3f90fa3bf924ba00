"""Write the measured tables into README.md and the pages of docs/, from the files that commands have written.

    python docs/tables.py            # write them
    python docs/tables.py --check    # say which are not what the files say, and change nothing

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; the names are the keys of TABLES. The files are
``results/*.jsonl`` (``hashlearn paper run``), ``results/embeddings/*.jsonl`` (``hashlearn experiment run``) and
``benchmarks/results/*.jsonl`` (the scripts of ``benchmarks/``).
"""

import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.experiments import Experiment, ResultFolder, Results, paper_experiment, read_experiment
from hashlearn.experiments.define.measures import MEASURES
from hashlearn.experiments.define.tasks import REFERENCE
from hashlearn.experiments.results import Comparison, MeasureTable, distances, measure_tables
from hashlearn.experiments.show.text_tables import as_markdown

ROOT = Path(__file__).resolve().parents[1]
MARKED = re.compile(r"(<!-- table: (?P<name>.+?) -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL)
ENGINE_RECALLS = ("0.9", "0.95", "0.99")
ENGINE_CALLS = ("single", "batch")
ENGINE_SETS = ("glove", "sift", "sift-200k", "cifar-10-cnn")
OUR_INDEX = "hashlearn, 128 bits"
LENGTHS = (64, 128, 256)
BOARD_SETS = {
    "ag-news-minilm": "AG News, MiniLM",
    "glove": "GloVe",
    "cifar-10-cnn": "CIFAR-10, EfficientNet",
    "cifar-10": "CIFAR-10, GIST",
    "mnist": "MNIST",
}
RATE_SETS = {**BOARD_SETS, "sift": "SIFT of photos"}
BOARD_BYTES = (10, 20, 40, 80, 160, 320, 640)
BOARD_MEANING_BYTES = 17


def main(arguments: list[str]) -> int:
    stale = [page for page in pages() if page.read_text(encoding="utf-8") != written(page)]
    if "--check" in arguments:
        for page in stale:
            print(f"{page.relative_to(ROOT)} has a table that is not what the files say: python docs/tables.py")
        return len(stale)
    for page in stale:
        page.write_text(written(page), encoding="utf-8")
        print(f"{page.relative_to(ROOT)} written")
    return 0


def pages() -> list[Path]:
    """The documents that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def written(page: Path) -> str:
    """The page with its tables as the files say."""
    return with_tables(page.read_text(encoding="utf-8"))


def with_tables(text: str) -> str:
    """The text with its tables as the files say."""
    return MARKED.sub(lambda found: f"{found[1]}\n{table_named(found['name'])}\n\n{found[4]}", text)


def table_named(name: str) -> str:
    """A table as Markdown."""
    if name not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {name!r}")
    return TABLES[name]().strip()


def markdown(rows: Iterable[Iterable[str]]) -> str:
    """Rows as a table; the first is its head."""
    head, *others = [list(row) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *others])


def span(values: Iterable[float], digits: int) -> str:
    """The least and the most of some numbers, or the one there is."""
    texts = list(dict.fromkeys(f"{value:.{digits}f}" for value in sorted(values)))
    return "-".join(dict.fromkeys((texts[0], texts[-1]))) if texts else ""


@cache
def paper_results() -> Results:
    datasets = [dataset.name for dataset in paper_experiment("table-2").datasets]
    return Results(ResultFolder(ROOT / "results").lines(datasets))


def paper_tables(name: str, dataset: str) -> str:
    """An experiment of the paper on one dataset: a table for each measure, the published numbers in brackets."""
    return as_markdown(paper_experiment(name).restricted([dataset]), paper_results())


MEASURED_ROWS = {
    "lsh": "LSH",
    "itq": "ITQ",
    "rssh": "RSSH",
    "jsh": "JSH",
    "jpsh-paper": "JPSH, the paper's settings",
    "jpsh": "**JPSH, our defaults (spectral start, one round)**",
    "sah": "**SAH**",
}


def measured() -> str:
    """mAP / precision@100 / 10@10 of a few methods, the published mAP in brackets, and the number of runs."""
    experiment = paper_experiment("table-2").restricted(["mnist", "cifar-10"], list(MEASURED_ROWS), [16, 64])
    by_place = _cells(experiment)
    columns = [(dataset, bits) for dataset in ("mnist", "cifar-10") for bits in (16, 64)]
    titles = {dataset.name: dataset.title for dataset in experiment.datasets}
    rows = [["", *(f"{titles[dataset]}, {bits} bits" for dataset, bits in columns), "runs"]]
    rows.append(["float vectors", *(by_place["float", dataset, bits] for dataset, bits in columns), ""])
    for name, title in MEASURED_ROWS.items():
        runs = span((by_place["runs", name, dataset, bits] for dataset, bits in columns), 0)
        rows.append([title, *(by_place[name, dataset, bits] for dataset, bits in columns), runs])
    return markdown(rows)


def _cells(experiment: Experiment) -> dict[tuple, Any]:
    shown = ("mAP_stable", "precision_at_100", "recall_at_10")
    found: dict[tuple, list[str]] = {}
    published: dict[tuple, str] = {}
    runs: dict[tuple, Any] = {}
    for table in measure_tables(experiment, paper_results()):
        if table.measure.name not in shown:
            continue
        for column, bits in enumerate(table.bits):
            found.setdefault(("float", table.dataset.name, bits), []).append(f"{table.reference:.3f}")
            for row in table.rows:
                cell, place = row.cells[column], (row.method.name, table.dataset.name, bits)
                found.setdefault(place, []).append(f"{cell.ours.mean:.3f}" if cell.ours else "-")
                runs["runs", *place] = cell.ours.n if cell.ours else 0
                if cell.published is not None and not row.method.is_variant:
                    published[place] = f" ({cell.published:.3f})"
    return {place: " / ".join(texts) + published.get(place, "") for place, texts in found.items()} | runs


def distance_to_paper() -> str:
    """How far our mAP is from the published, over the methods that have the paper's settings."""
    rows = [["", "numbers", "mean distance", "largest"]]
    for table in _compared("table-2"):
        apart = distances(table)
        furthest = max(_places(table), key=lambda place: abs(place[1].difference or 0))
        where = f"{furthest[0]} ({furthest[1].difference:+.3f})"
        rows.append([table.dataset.title, str(len(apart)), f"{statistics.fmean(apart):.3f}", where])
    return markdown(rows)


@cache
def _compared(name: str) -> list[MeasureTable]:
    tables = measure_tables(paper_experiment(name), paper_results())
    return [table for table in tables if table.is_compared and table.measure.name == "mAP_stable"]


def _places(table: MeasureTable) -> list[tuple[str, Comparison]]:
    return [
        (f"{row.title} at {bits} bits", cell)
        for row in table.rows
        if not row.method.is_variant
        for bits, cell in zip(table.bits, row.cells)
        if cell.difference is not None
    ]


def paper_cells(dataset: str) -> str:
    """Every mAP with the paper's settings beside the published one: above, below, or within a standard error."""
    (table,) = [table for table in _compared("table-2") if table.dataset.name == dataset]
    rows = [["", *(f"{bits} bits" for bits in table.bits)]]
    for row in table.rows:
        if not row.method.is_variant and any(cell.difference is not None for cell in row.cells):
            rows.append([row.title, *map(_verdict, row.cells)])
    return markdown(rows)


def paper_verdicts() -> str:
    """How many cells are above the published number, within a standard error of ours, and below it."""
    rows = [["", "cells", "above", "same", "below", "JPSH: above", "JPSH: same", "JPSH: below"]]
    for table in _compared("table-2"):
        every = [_verdict(cell) for _, cell in _places(table)]
        of_jpsh = [_verdict(cell) for place, cell in _places(table) if place.startswith("JPSH")]
        rows.append([table.dataset.title, str(len(every)), *_counted(every), *_counted(of_jpsh)])
    return markdown(rows)


def _counted(verdicts: list[str]) -> list[str]:
    signs = Counter(verdict[0] for verdict in verdicts)
    return [str(signs[sign]) for sign in "+s-"]


def _verdict(cell: Comparison) -> str:
    if cell.difference is None or cell.ours is None:
        return ""
    error = cell.ours.std / cell.ours.n**0.5
    return "same" if abs(cell.difference) <= error else f"{cell.difference:+.3f}"


def range_over_runs() -> str:
    """Least and most mAP over the runs of JPSH, which differ by their anchors and starting codes."""
    experiment = paper_experiment("table-2").restricted(methods=["jpsh-paper", "jpsh"])
    rows = []
    for table in measure_tables(experiment, paper_results()):
        if table.measure.name != "mAP_stable":
            continue
        rows = rows or [["", "", *(f"{bits} bits" for bits in table.bits)]]
        for row in table.rows:
            spans = [span((cell.ours.least, cell.ours.most), 3) if cell.ours else "" for cell in row.cells]
            rows.append([table.dataset.title, row.title, *spans])
    return markdown(rows)


def stored_tables(name: str) -> list[MeasureTable]:
    """The tables of an experiment of the folder experiments/, whose results are in results/NAME."""
    experiment = read_experiment(ROOT / "experiments" / f"{name}.toml")
    datasets = [dataset.name for dataset in experiment.datasets]
    return measure_tables(experiment, Results(ResultFolder(ROOT / "results" / name).lines(datasets)))


def ablation() -> str:
    """mAP / precision@100 of JPSH with one part changed at a time."""
    tables = stored_tables("ablation")
    titles = list(dict.fromkeys(table.dataset.title for table in tables))
    cells: dict[tuple[str, str], list[str]] = {}
    for table in tables:
        cells.setdefault((REFERENCE, table.dataset.title), []).append(f"{table.reference:.3f}")
        for row in table.rows:
            ours = row.cells[0].ours
            cells.setdefault((row.title, table.dataset.title), []).append(f"{ours.mean:.3f}" if ours else "")
    rows = dict.fromkeys(row for row, _ in cells)
    body = [[row, *(" / ".join(cells[row, title]) for title in titles)] for row in rows]
    return markdown([["", *titles], *body])


def kinds() -> str:
    """mAP / precision@100 of the float vectors and of codes by length, on sets of many kinds."""
    tables = stored_tables("kinds")
    columns = dict.fromkeys((row.title, bits) for table in tables for row in table.rows for bits in table.bits)
    rows = [["", REFERENCE, *(f"{title}, {bits} bits" for title, bits in columns)]]
    by_set: dict[str, list[list[str]]] = {}
    for table in tables:
        found = {(row.title, bits): cell.ours for row in table.rows for bits, cell in zip(table.bits, row.cells)}
        means = [f"{stat.mean:.3f}" if (stat := found.get(column)) else "" for column in columns]
        by_set.setdefault(table.dataset.title, []).append([f"{table.reference:.3f}", *means])
    for title, (of_map, of_precision) in by_set.items():
        rows.append([title, *(f"{first} / {second}" if first else "" for first, second in zip(of_map, of_precision))])
    return markdown(rows)


def kinds_felt() -> str:
    """What neighborhoods of a set look like without labels; the last run of a dataset counts."""
    newest = {run["dataset"]: run for run in benchmark_runs("kinds_felt")}
    names = ("closed", "mutual", "decay")
    return markdown([["", *names], *([name, *(f"{run[key]:.3f}" for key in names)] for name, run in newest.items())])


def expand() -> str:
    """mAP / precision@100 of 64-bit JPSH for several ways to ask; the last run of a dataset counts."""
    newest = {run["dataset"]: run["ways"] for run in benchmark_runs("expand")}
    ways = list(dict.fromkeys(way for found in newest.values() for way in found))
    body = [[name, *(_two_measures(found.get(way)) for way in ways)] for name, found in newest.items()]
    return markdown([["", *ways], *body])


def _two_measures(values: list[float] | None) -> str:
    return "" if values is None else " / ".join(f"{value:.3f}" for value in values)


EMBEDDINGS_BITS = 64
EMBEDDING_SETS = ("cifar-10-cnn", "ag-news-minilm", "mnist")
UNIT_SETS = {"cifar-10-cnn": "cifar-10-cnn-unit", "mnist": "mnist-unit"}
"""The same rows of unit length, whose Euclidean order is that of the cosine; AG News' have it already."""

SIGN_BITS = "sign bits"


class EmbeddingRow(NamedTuple):
    """What a method measured on a set of embeddings: the number of runs, and measure -> mean."""

    n_runs: int
    means: dict[str, float]


@cache
def embedding_rows(dataset: str) -> tuple[dict[str, float | None], dict[tuple[str, int], EmbeddingRow]]:
    """The measures of the float vectors, and what is stored for every method and length."""
    experiment = read_experiment(ROOT / "experiments" / "embeddings.toml")
    results = Results(ResultFolder(ROOT / "results" / "embeddings").lines([dataset]))
    tables = [table for table in measure_tables(experiment, results) if table.dataset.name == dataset]
    rows: dict[tuple[str, int], EmbeddingRow] = {}
    for table in tables:
        for row in table.rows:
            for bits, cell in zip(table.bits, row.cells):
                if cell.ours:
                    found = rows.setdefault((row.title, bits), EmbeddingRow(cell.ours.n, {}))
                    found.means[table.measure.name] = cell.ours.mean
    return {table.measure.name: table.reference for table in tables}, rows


def float_rows(dataset: str) -> dict[str, dict[str, float]]:
    """What the float vectors measure, by Euclidean distance and by cosine.

    The cosine has neighbors of its own, so it is not judged by the Euclidean ones.
    """
    euclidean = _known(embedding_rows(dataset)[0])
    if dataset not in UNIT_SETS:
        return {f"{REFERENCE}, Euclidean or cosine": euclidean}
    cosine = _known(embedding_rows(UNIT_SETS[dataset])[0])
    by_meaning = {name: value for name, value in cosine.items() if not name.startswith("recall")}
    return {f"{REFERENCE}, Euclidean": euclidean, f"{REFERENCE}, cosine": by_meaning}


def _known(measures: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in measures.items() if value is not None}


BYTES_BESIDE_BITS = {"ABH": 1}
"""What a row keeps beside its bits: ABH's correction."""


def embeddings(dataset: str) -> str:
    """Every method at 64 bits, sign bits and RaBitQ on one set of embeddings."""
    floats, found = embedding_rows(dataset)
    first = next(ResultFolder(ROOT / "results" / "embeddings").lines([dataset]))
    n_features = first["data"]["n_features"]
    rows = [["", "bits", "bytes", *(MEASURES[name].title for name in floats), "runs"]]
    for title, measured in float_rows(dataset).items():
        means = [f"{measured[name]:.3f}" if name in measured else "" for name in floats]
        rows.append([title, "", f"{4 * n_features:,}", *means, ""])
    for (title, bits), row in found.items():
        if bits == EMBEDDINGS_BITS or title == SIGN_BITS:
            size = bits // 8 + BYTES_BESIDE_BITS.get(title, 0)
            means = [f"{row.means[name]:.3f}" for name in floats]
            rows.append([title, str(bits), str(size), *means, str(row.n_runs)])
    for case in rabitq_cases(dataset):
        means = [f"{case[name]:.3f}" if name in case else "" for name in floats]
        rows.append(["RaBitQ (faiss)", str(case["bits"]), f"{case['bytes']:.0f}", *means, "1"])
    return markdown(rows)


def rabitq_cases(dataset: str) -> list[dict]:
    """What RaBitQ measured with 64 principal components and with all features; the last run counts."""
    runs = [run for run in benchmark_runs("rabitq") if run["dataset"] == dataset]
    cases = runs[-1]["cases"] if runs else []
    return [case for case in cases if case["bits"] == EMBEDDINGS_BITS or case is cases[-1]]


def embeddings_by_bits(dataset: str) -> str:
    """mAP / 10@10 of the methods that have been run at several lengths, and the number of runs."""
    _, found = embedding_rows(dataset)
    lengths = sorted({bits for title, bits in found if title != SIGN_BITS})
    titles = [title for title, n in Counter(title for title, _ in found).items() if n > 1]
    rows = [["", *(f"{bits} bits" for bits in lengths), "runs"]]
    for title in titles:
        cells = [found.get((title, bits)) for bits in lengths]
        runs = span((cell.n_runs for cell in cells if cell), 0)
        rows.append([title, *(_both(cell.means) if cell else "" for cell in cells), runs])
    return markdown(rows)


BOTH_JOBS_SETS = {"ag-news-minilm": "AG News", "cifar-10-cnn": "CIFAR-10, EfficientNet", "mnist": "MNIST"}


def both_jobs() -> str:
    """What every code of one size measured, as far as all sets have it; the last run of a set counts."""
    runs = {run["dataset"]: run for run in benchmark_runs("both_jobs")}
    shown = [name for name in BOTH_JOBS_SETS if name in runs]
    measured = [{(case["name"], case["weight"]): case for case in runs[name]["cases"]} for name in shown]
    rows = [["", "weight of meaning", *(BOTH_JOBS_SETS[name] for name in shown)]]
    families = list(dict.fromkeys(name for name, _ in measured[0]))
    for place in sorted(measured[0], key=lambda place: families.index(place[0])):
        if all(place in cases for cases in measured):
            name, weight = place
            rows.append([name, "" if weight is None else f"{weight:g}", *(_four(cases[place]) for cases in measured)])
    return markdown(rows)


def _four(case: dict) -> str:
    return " / ".join(f"{case[name]:.3f}" for name in ("mAP", "precision_at_100", "recall_at_10", "recall_at_100"))


def _both(means: dict[str, float]) -> str:
    return f"{means['mAP']:.3f} / {means['recall_at_10']:.3f}"


SHORT_ROWS = ("ITQ", "SAH", "half ITQ, half JPSH", "JPSH", "ABH")


def embeddings_short() -> str:
    """mAP / precision@100 / 10@10 of a few methods on the two sets of embeddings."""
    shown = ("mAP", "precision_at_100", "recall_at_10")
    sets = {"CIFAR-10, EfficientNet": "cifar-10-cnn", "AG News, MiniLM": "ag-news-minilm"}
    measured = [embedding_rows(name) for name in sets.values()]
    rows = [["", *sets, "runs"]]
    for order in ("Euclidean", "cosine"):
        rows.append([f"{REFERENCE}, {order}", *(_of_floats(name, order, shown) for name in sets.values()), ""])
    for title in SHORT_ROWS:
        cells = [found.get((title, EMBEDDINGS_BITS)) for _, found in measured]
        if any(cells):
            texts = [" / ".join(f"{cell.means[name]:.3f}" for name in shown) if cell else "" for cell in cells]
            name = f"**{title}**" if title == "JPSH" else title
            rows.append([name, *texts, span((cell.n_runs for cell in cells if cell), 0)])
    return markdown(rows)


def _of_floats(dataset: str, order: str, shown: Iterable[str]) -> str:
    measured = next(means for title, means in float_rows(dataset).items() if order in title)
    return " / ".join(f"{measured[name]:.3f}" if name in measured else "-" for name in shown)


def recommended() -> str:
    """What ``hashlearn recommend`` named on every set, and its time where nothing else ran; the last run counts."""
    runs = {run["dataset"]: run for run in benchmark_runs("recommend")}
    rows = [["", "rows", "features", "bytes", "by meaning", "by neighborhood", "seconds"]]
    for name, run in runs.items():
        named = [f"{run[job]['title']}, {run[job]['n_bits']} bits" for job in ("by_meaning", "by_neighborhood")]
        seconds = f"{run['seconds']:.0f}" if run["idle"] else ""
        rows.append([name, f"{run['rows']:,}", f"{run['features']:,}", str(run["bytes"]), *named, seconds])
    return markdown(rows)


def starts() -> str:
    """What both starts of JPSH reach on every set, what is known without labels, and what the default takes."""
    by_dataset: dict[str, dict[int, dict]] = {}
    for run in benchmark_runs("starts"):
        by_dataset.setdefault(run["dataset"], {})[run["seed"]] = run  # the last run of a seed counts
    rows = [["", "rows", "features", "local", "directions", "explained", "spectral start", "ITQ start", "taken"]]
    for dataset, seeds in sorted(by_dataset.items(), key=lambda item: -_mean(item[1].values(), "local")):
        runs = list(seeds.values())
        numbers = [
            f"{_mean(runs, 'local'):.1f}",
            f"{_mean(runs, 'directions'):.0f}",
            f"{_mean(runs, 'explained'):.2f}",
        ]
        reached = [
            " / ".join(f"{_mean([run[start] for run in runs], name):.3f}" for name in ("mAP", "precision_at_100"))
            for start in ("spectral", "itq")
        ]
        taken = ", ".join(sorted({"ITQ" if run["chosen"] == "itq" else run["chosen"] for run in runs}))
        rows.append([dataset, f"{runs[0]['rows']:,}", f"{runs[0]['features']:,}", *numbers, *reached, taken])
    return markdown(rows)


def _mean(runs: Iterable[dict], name: str) -> float:
    return statistics.fmean(run[name] for run in runs)


def benchmark_runs(name: str) -> list[dict]:
    """The runs of a benchmark, oldest first."""
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


class BoardPoint(NamedTuple):
    """A method of the leaderboard with one setting: means over its seeds."""

    method: str
    setting: dict[str, int]
    bytes: float
    seeds: int
    measures: dict[str, float]


def board_points(dataset: str) -> list[BoardPoint]:
    """What the leaderboard has of a data set; of two runs with the same key the later one counts."""
    settings: dict[str, list[dict]] = {}
    for run in {run["key"]: run for run in benchmark_runs("leaderboard") if run["data"]["name"] == dataset}.values():
        settings.setdefault(run["key"].rpartition("-")[0], []).append(run)
    return [_board_point(runs) for runs in settings.values()]


def _board_point(runs: list[dict]) -> BoardPoint:
    config = runs[0]["config"]
    named = config["family"] in ("plain", "hashlearn") or config["family"] == config["method"]
    title = config["method"] if named else f"{config['method']} ({config['family']})"
    known = {name: [run["measures"][name] for run in runs] for name in runs[0]["measures"]}
    means = {name: statistics.mean(values) for name, values in known.items() if None not in values}
    return BoardPoint(title, config["setting"], runs[0]["bytes"], len(runs), means)


def board_by_bytes(dataset: str) -> str:
    """The best 10@10 of every method with codes of some bytes; the best of a column is bold."""
    points = board_points(dataset)
    best = {
        method: [_best_recall([p for p in points if p.method == method], most) for most in BOARD_BYTES]
        for method in dict.fromkeys(point.method for point in points if point.method != "float32")
    }
    leaders = [max(column) for column in zip(*best.values())]
    rows = [["10@10 with", *(f"{most // 2 + 1}-{most} bytes" for most in BOARD_BYTES), "seeds"]]
    for method, values in sorted(best.items()):
        cells = ["" if v < 0 else f"**{v:.3f}**" if v == top else f"{v:.3f}" for v, top in zip(values, leaders)]
        if any(cells):
            rows.append([method, *cells, span((p.seeds for p in points if p.method == method), 0)])
    return markdown(rows)


def _best_recall(points: list[BoardPoint], most: int) -> float:
    return max((p.measures["recall_at_10"] for p in points if most // 2 < p.bytes <= most), default=-1)


def board_by_meaning() -> str:
    """mAP / precision@100 of the codes of at most 17 bytes, the best mAP of every method, beside the float vectors."""
    sets = {title: board_points(name) for name, title in BOARD_SETS.items()}
    labeled = {title: points for title, points in sets.items() if any("mAP" in p.measures for p in points)}
    methods = dict.fromkeys(p.method for points in labeled.values() for p in points)
    rows = [["mAP / precision@100", *labeled]]
    for method in methods:
        cells = [_best_meaning(points, method) for points in labeled.values()]
        if any(cells):
            rows.append(["float vectors" if method == "float32" else method, *cells])
    return markdown(rows)


def _best_meaning(points: list[BoardPoint], method: str) -> str:
    short = [p for p in points if p.method == method and (p.bytes <= BOARD_MEANING_BYTES or method == "float32")]
    if not short:
        return ""
    best = max(short, key=lambda point: point.measures["mAP"]).measures
    return f"{best['mAP']:.3f} / {best['precision_at_100']:.3f}"


def search_ratios() -> str:
    """How many times longer a peer takes than our flat scan, on a million clustered codes."""
    peer, limit = "faiss IndexBinaryFlat", "limit of counting bits"
    rows = [
        ["", *(f"{n_bits} bits" for n_bits in LENGTHS)],
        [f"{peer}, 100 queries", *(span(scan_ratios(100, n_bits, peer), 1) for n_bits in LENGTHS)],
        [f"{peer}, 1 query", *(span(scan_ratios(1, n_bits, peer), 1) for n_bits in LENGTHS)],
        ["counting all bits, 100 queries", *(span(scan_ratios(100, n_bits, limit), 2) for n_bits in LENGTHS)],
    ]
    return f"{markdown(rows)}\n\n{machines(quick_search_runs())}"


def quick_search_runs() -> list[dict]:
    """The runs of ``benchmarks/search.py --quick``."""
    return [run for run in benchmark_runs("search") if run["quick"]]


def scan_ratios(n_queries: int, n_bits: int, other: str) -> list[float]:
    """The time of a peer, or of a limit of the machine, divided by the time of our flat scan; one number a run."""
    cases = [case for run in quick_search_runs() for case in run["cases"] if case["kind"] == "case"]
    fit = [case for case in cases if (case["n_queries"], case["n_bits"]) == (n_queries, n_bits)]
    times = [case["seconds"] | case["limits"] for case in fit]
    return [seconds[other] / seconds["hashlearn flat"] for seconds in times]


def rerank_seconds() -> str:
    """Time to rerank from a file that is not in memory, and how many times longer numpy takes."""
    runs = benchmark_runs("rerank")
    rows = [["", "milliseconds", "times the speed of numpy"]]
    for name in runs[-1]["seconds"]:
        seconds = [run["seconds"][name] for run in runs]
        ratios = [run["seconds"]["numpy"] / run["seconds"][name] for run in runs]
        rows.append([name, span([1000 * each for each in seconds], 0), span(ratios, 1)])
    return f"{markdown(rows)}\n\n{machines(runs)}"


def duplicate_contenders() -> str:
    """What each contender found of the true pairs; the newest measurement of each."""
    runs = benchmark_runs("duplicates")
    newest = {(line["set"], line["contender"]): line for run in runs for line in run["lines"]}
    rows = [["set", "", "recall", "precision", ""]]
    for (name, contender), line in newest.items():
        notes = []
        if "times_faster" in line:
            notes.append(f"{line['times_faster']:.0f} times as fast as the blocked product")
        if "megabytes_above_data" in line:
            notes.append(f"{line['megabytes_above_data']:.0f} MB above the data")
        if "best_precision" in line and line["precision"] < 1:
            beyond, best = line["precision_beyond_copies"], line["best_precision"]
            notes.append(f"{beyond:.4f} beyond the copies; a distance that knows the truth: {best:.4f}")
        if "same_photo" in line:
            notes.append(
                f"{line['same_photo']} of the {line['other_pairs']} other pairs show the same photo; of such natural "
                f"pairs within 0.02, {line['natural_recall']:.2f} are found"
            )
        if "same_words" in line:
            notes.append(f"{line['same_words']} of the {line['other_pairs']} other pairs have the same words")
        if "peak_megabytes" in line:
            what = "texts" if "megabytes_of_texts" in line else "vectors"
            notes.append(f"{line['peak_megabytes']:.0f} MB in all, {line[f'megabytes_of_{what}']:.0f} MB of {what}")
        if "first_paint_seconds" in line:
            paint, largest = line["first_paint_seconds"], line["largest_file_megabytes"]
            notes.append(f"first paint after {paint:.1f} s, largest file {largest:.1f} MB")
        if "same_groups" in line:
            notes.append("the same groups" if line["same_groups"] else "other groups")
        if "over_a_tenth" in line:
            notes.append(
                f"{line['over_a_tenth']:,} of {line['dropped']:,} dropped rows differ in over a tenth of the words"
            )
            if "over_a_tenth_capitals_differ" in line:
                apart, capitals = line["over_a_tenth_punctuation_apart"], line["over_a_tenth_capitals_differ"]
                notes.append(f"{apart:,} if punctuation marks are words of their own, {capitals:,} if capitals count")
        judged = [f"{line[what]:.4f}" if what in line else "" for what in ("recall", "precision")]
        rows.append([name, contender, *judged, ", ".join(notes)])
    return f"{markdown(rows)}\n\n{measured_on(runs)}"


FAULTS = {
    "kills": "killed at a file operation of a save, and in its repetition",
    "full disks": "no space left from a file operation of a save on",
    "corruptions": "a damaged file of every format",
    "lines": "a hostile command line",
    "reads": "a read beside two savers",
    "interrupts": "Ctrl-C at a bytecode of a change or a save",
}


def faults() -> str:
    """How often every attack was tried, and how often something was wrong."""
    runs = benchmark_runs("faults")
    words = list(runs[0]["wrong"])
    rows = [["", "tried", *words]]
    for kind, title in FAULTS.items():
        lines = [run for run in runs if run["kind"] == kind]
        counts = [sum(line["times"] for line in lines), *(sum(line["wrong"][word] for line in lines) for word in words)]
        rows.append([title, *(f"{count:,}" for count in counts)])
    return markdown(rows)


NEIGHBOR_DATA = {
    "gist": "CIFAR-10, GIST",
    "cnn": "CIFAR-10, CNN",
    "mnist": "MNIST",
    "text": "AG News, MiniLM",
    "flickr": "FLICKR25K tags",
}


def neighbor_recall() -> str:
    """Bytes a vector and 10@10 / 10@100 of every contender, from the last full run that has it."""
    runs = [run for run in benchmark_runs("neighbors") if not run["quick"]]
    cases = {(case["method"], case["data"]): case for run in runs for case in run["cases"]}
    methods = {method: span((c["bytes"] for (m, _), c in cases.items() if m == method), 0) for method, _ in cases}
    columns = [data for data in NEIGHBOR_DATA if any(data == case for _, case in cases)]
    rows = [["", "bytes", *(NEIGHBOR_DATA[data] for data in columns)]]
    for method in sorted(methods, key=lambda name: (name.split()[0].strip(","), int(methods[name].split("-")[0]))):
        found = [cases.get((method, data)) for data in columns]
        recalls = [f"{case['recall_10']:.3f} / {case['recall_100']:.3f}" if case else "" for case in found]
        rows.append([f"**{method}**" if method.startswith("ABH") else method, methods[method], *recalls])
    return markdown(rows)


def neighbor_speed() -> str:
    """How the times of scanning, encoding and training compare with those of other programs."""
    runs = [run for run in benchmark_runs("neighbors") if not run["quick"] and run["ratios"]]
    measured: dict[str, list[float]] = {}
    for line in [line for run in runs for line in run["ratios"]]:
        measured.setdefault(line["what"], []).append(line["ratio"])
    rows = [["", "ratio", "runs"]]
    rows += [[what, span(ratios, 1), str(len(ratios))] for what, ratios in sorted(measured.items())]
    return f"{markdown(rows)}\n\n{machines(runs)}"


def serving() -> str:
    """Requests a second and p99, beside those of the echo with as many clients."""
    runs = benchmark_runs("serving")
    lines = [line for run in runs for line in run["servers"]]
    ratios = [(name, ratio) for run in runs for name, ratio in run["ratios"].items()]
    rows = [["", "clients", "requests a second", "p50, ms", "p99, ms", "throughput / echo", "p99 / echo"]]
    for name, clients in dict.fromkeys((line["contender"], line["clients"]) for line in lines):
        fit = [line for line in lines if (line["contender"], line["clients"]) == (name, clients)]
        beside = [ratio for key, ratio in ratios if key == f"{name}, {clients} clients"]
        measured = [
            span((line[key] for line in fit), n) for key, n in (("per_second", 0), ("p50_ms", 1), ("p99_ms", 1))
        ]
        compared = [span((ratio[key] for ratio in beside), 2) if beside else "" for key in ("throughput", "p99")]
        rows.append([name, str(clients), *measured, *compared])
    return f"{markdown(rows)}\n\n{machines(runs)}"


WITH_AVX512, WITH_AVX2 = "AVX-512", "AVX2"

_INSTRUCTIONS_OF_OLD_RUNS = {"Intel(R) Xeon(R) Processor": WITH_AVX512, "AMD EPYC": WITH_AVX2}
"""Runs say which vector instructions the processor had, except for the first ones."""


class EnginePair(NamedTuple):
    """Curves of our index and of another engine that took turns with it, and the run that they are of."""

    ours: dict
    other: dict
    run: dict


def engine_pairs(dataset: str, instructions: str = WITH_AVX512, older: bool = False) -> list[EnginePair]:
    """Our index beside every other engine on one data set, of the last run with each, all of one processor.

    That is the processor that was measured last, of those with these instructions. ``older`` pairs are those of other
    processors, with engines that were not measured on it.
    """
    pairs: dict[str, dict[str, EnginePair]] = {}  # by processor, that of the newest run last
    for run in benchmark_runs("engines"):
        has = run.get("instructions") or _INSTRUCTIONS_OF_OLD_RUNS[run["processor"]]
        ours = [curve for curve in run["curves"] if curve["engine"] == OUR_INDEX]
        if run["dataset"] == dataset and has == instructions and ours:
            others = (curve for curve in run["curves"] if not curve["engine"].startswith("hashlearn"))
            found = {curve["engine"]: EnginePair(ours[0], curve, run) for curve in others}
            if found:
                pairs[run["processor"]] = pairs.pop(run["processor"], {}) | found
    *before, newest = pairs.values() or [{}]
    if not older:
        return list(newest.values())
    return [pair for engines in before for engine, pair in engines.items() if engine not in newest]


def engines(dataset: str, instructions: str = WITH_AVX512, older: bool = False) -> str:
    """Queries a second at some recalls, one query a call and 1,000 a call, and how many times as fast ours is."""
    pairs = engine_pairs(dataset, instructions, older)
    if not pairs:
        return "There are none."
    rows = [["", "bytes", "built in, s", *(f"recall {level}" for level in ENGINE_RECALLS)]]
    rows.append(_engine_row(pairs[-1].ours, None))
    rows += [_engine_row(pair.other, pair.ours) for pair in pairs]
    return f"{markdown(rows)}\n\n{measured_on([pair.run for pair in pairs])}"


def _engine_row(curve: dict, ours: dict | None) -> list[str]:
    cells = []
    for level in ENGINE_RECALLS:
        speeds = [curve["at"][how][level] for how in ENGINE_CALLS]
        cell = " / ".join("-" if speed is None else f"{speed:,.0f}" for speed in speeds)
        if ours is not None and None not in speeds:
            beside = [ours["at"][how][level] for how in ENGINE_CALLS]
            ratios = ["-" if own is None else f"{own / speed:.1f}" for own, speed in zip(beside, speeds)]
            cell += f" ({' / '.join(ratios)})"
        cells.append(cell)
    return [curve["engine"], f"{curve['bytes']:.0f}", f"{curve['seconds']:.0f}", *cells]


def million() -> str:
    """What a million vectors cost, by the largest data set that engines were measured on."""
    run = max((run for run in benchmark_runs("engines") if len(run["curves"]) > 1), key=lambda run: run["rows"])
    pairs = engine_pairs(run["dataset"])
    head = ["", "memory, MB", "vectors", "build, minutes", *(f"recall {level}" for level in ENGINE_RECALLS)]
    rows = [head, _cost_row(pairs[-1].ours, run, "**{}**"), *(_cost_row(pair.other, pair.run, "{}") for pair in pairs)]
    told = f"{run['dataset']}, {run['rows']:,} x {run['width']}, {run['metric']}, scaled to a million rows."
    return f"{markdown(rows)}\n\n{told} {measured_on([pair.run for pair in pairs])}"


def _cost_row(curve: dict, run: dict, name: str) -> list[str]:
    speeds = [curve["at"]["single"][level] for level in ENGINE_RECALLS]
    return [
        name.format(curve["engine"]),
        f"{curve['bytes']:.0f}",  # of a vector: megabytes of a million
        "beside it" if curve["vectors"] else "in it",
        f"{curve['seconds'] / run['rows'] * 1e6 / 60:.1f}",
        *("-" if speed is None else f"{speed:,.0f}" for speed in speeds),
    ]


def engine_filters() -> str:
    """Recall and time of searches among a share of the rows, of the last run of every engine."""
    last = {run["engine"]: run for run in benchmark_runs("engine_filters")}
    run = next(iter(last.values()))
    rows = [["", *(f"{100 * point['share']:g} % of the rows" for point in run["points"])]]
    for engine in last.values():
        points, whole = engine["points"], engine["points"][0]["ms"]
        rows.append(
            [engine["engine"], *(f"{p['recall']:.3f}, {p['ms']:.2f} ms ({p['ms'] / whole:.1f})" for p in points)]
        )
    return f"{markdown(rows)}\n\n{run['dataset']}, {run['rows']:,} x {run['width']}. {measured_on(list(last.values()))}"


def growth() -> str:
    """What a build, a query and a cold query take by the number of codes, of the last run of every size."""
    last = {run["rows"]: run for run in benchmark_runs("growth")}
    runs = [last[n] for n in sorted(last)]
    asked = list(runs[0]["warm"])
    rows = [["", *(f"{run['rows']:,} rows" for run in runs)]]
    rows.append(["lists", *(f"{run['n_lists']:,}" for run in runs)])
    rows.append(["codes and rows in lists, MB", *(f"{run['megabytes']:,.0f}" for run in runs)])
    built = [run["build"] for run in runs]
    rows.append(
        ["learned / added / tuned in, s", *(f"{b['fit']:.0f} / {b['add']:.0f} / {b['tune']:.0f}" for b in built)]
    )
    above = [b["megabytes"] - b["megabytes_of_index"] for b in built]
    rows.append(["most memory meanwhile above these, MB", *(f"{megabytes:,.0f}" for megabytes in above)])
    for recall in asked:
        cells = [_growth_cell(run["warm"][recall], runs[0]["warm"][recall]) for run in runs]
        rows.append([f"one query, recall {recall} asked for", *cells])
    cold = [run["cold"] for run in runs]
    rows.append(["its lists, recall 0.95, MB", *(f"{c['megabytes_of_lists']:.2f}" for c in cold)])
    rows.append(
        ["a cold query reads, MB / takes, ms", *(f"{c['megabytes']:.1f} / {c['milliseconds']:.1f}" for c in cold)]
    )
    rows.append(
        [
            "opening reads, MB / takes, ms",
            *(f"{c['megabytes_to_open']:.1f} / {c['milliseconds_to_open']:.0f}" for c in cold),
        ]
    )
    return f"{markdown(rows)}\n\n{measured_on(runs)}"


def growth_predicted() -> str:
    """What more rows would take, by the power of their number that the last two sizes show."""
    last = {run["rows"]: run for run in benchmark_runs("growth")}
    small, large = (last[n] for n in sorted(last)[-2:])
    times = large["rows"] / small["rows"]
    rows = [["rows", "codes and rows in lists", "learn and add, two cores", "one query, recall 0.95"]]
    before, now = (run["warm"]["0.95"]["milliseconds"] for run in (small, large))
    power = math.log(now / before) / math.log(times)
    for n in (size for size in (100_000_000, 1_000_000_000) if size > large["rows"]):
        more = n / large["rows"]
        hours = (large["build"]["fit"] * more**0.5 + large["build"]["add"] * more) / 3600
        milliseconds = now * more**power
        cells = [f"{large['megabytes'] * more / 1000:.1f} GB", f"{hours:.1f} h", f"{milliseconds:.2f} ms"]
        rows.append([f"{n:,}", *cells])
    return f"{markdown(rows)}\n\nThe power of the time of a query is {power:.2f}."


def _growth_cell(point: dict, first: dict) -> str:
    times = point["milliseconds"] / first["milliseconds"]
    return f"{point['milliseconds']:.3f} ms ({times:.1f}), {point['recall']:.3f} reached, {point['lists']:.0f} lists"


def spilling() -> str:
    """Codes that one list for each row needs for a share of the neighbors, and two lists."""
    codes = benchmark_runs("spilling")[-1]["codes"]
    shares = list(next(iter(codes.values())))
    rows = [["lists for each row", *(f"{share} of the neighbors" for share in shares)]]
    rows += [[way, *(f"{needed[share]:,.0f} codes" for share in shares)] for way, needed in codes.items()]
    return markdown(rows)


def four_bits() -> str:
    """Recall after a rerank of 100 by what is kept of the vectors; the last run of a dataset counts."""
    newest = {run["dataset"]: run["recalls"] for run in benchmark_runs("four_bits")}
    kept = list(dict.fromkeys(name for recalls in newest.values() for name in recalls))
    body = [
        [name, *(f"{recalls[kind]:.3f}" if kind in recalls else "" for kind in kept)]
        for name, recalls in newest.items()
    ]
    return markdown([["", *kept], *body])


def engine_recalls(dataset: str) -> str:
    """Recall of our codes of several kinds at some settings (lists looked at, candidates)."""
    runs = [run for run in benchmark_runs("engines") if run["dataset"] == dataset]
    recalls: dict[str, dict[str, float]] = {}
    for run in runs:
        for curve in run["curves"]:
            if curve["engine"].startswith("hashlearn") and isinstance(curve["points"][0]["setting"], list):
                points = {"{} / {}".format(*point["setting"]): point["recall"] for point in curve["points"]}
                recalls[curve["engine"]] = points
    names = list(recalls)
    settings = list(recalls[names[0]])
    rows = [["lists / candidates", *names]]
    rows += [[setting, *(f"{recalls[name][setting]:.3f}" for name in names)] for setting in settings]
    return markdown(rows)


def engine_asked(datasets: tuple[str, ...]) -> str:
    """The recall that was asked of our index, and the one that was reached, of the last run for each data set."""
    reached: dict[str, dict[float, float]] = {}
    for run in benchmark_runs("engines"):
        for curve in run["curves"]:
            if curve["engine"] == OUR_INDEX and isinstance(curve["points"][0]["setting"], float):
                name = f"{run['dataset']}, {run['rows']:,} rows"
                reached[name] = {point["setting"]: point["recall"] for point in curve["points"]}
    reached = {name: points for name, points in reached.items() if name.split(",")[0] in datasets}
    rows = [["asked for", *reached]]
    for asked in sorted({setting for points in reached.values() for setting in points}):
        rows.append([f"{asked:g}", *(f"{points[asked]:.3f}" if asked in points else "" for points in reached.values())])
    return markdown(rows)


RATE_PEERS = ("turbovec", "RaBitQ (faiss)", "rabitqlib", "SQ (faiss)")


def rates(wanted: Iterable[int] = range(1, 9)) -> str:
    """10@10 of other quantizers by the bits for each feature, beside ABH in at most as many bytes."""
    rows = [["", "bits for each feature", *RATE_PEERS]]
    for dataset, title in RATE_SETS.items():
        points = board_points(dataset)
        ours = [p for p in points if p.method == "ABH"]
        peers = {(p.setting["bits"], p.method): p for p in points if p.method in RATE_PEERS}
        for bits in sorted({bits for bits, _ in peers}.intersection(wanted)):
            rows.append([title, str(bits), *(_rate_cell(peers.get((bits, name)), ours) for name in RATE_PEERS)])
    return markdown(rows)


def _rate_cell(peer: BoardPoint | None, ours: list[BoardPoint]) -> str:
    """Recall and bytes of a peer, then those of ABH, of half the bytes and more; the better one is bold."""
    if peer is None:
        return ""
    near = [p for p in ours if peer.bytes / 2 < p.bytes <= peer.bytes]
    best = max(near, key=lambda p: p.measures["recall_at_10"], default=None)
    if best is None:
        return f"{peer.measures['recall_at_10']:.3f} ({peer.bytes:.0f})"
    pair = (peer, best)
    top = max(f"{point.measures['recall_at_10']:.3f}" for point in pair)
    texts = [(f"{point.measures['recall_at_10']:.3f}", f" ({point.bytes:.0f})") for point in pair]
    return ", ".join(f"**{recall}**{size}" if recall == top else recall + size for recall, size in texts)


def soak() -> str:
    """What became of many requests, and of what was written when the server was killed."""
    runs = benchmark_runs("soak")
    soaked, killed = ([run[part] for run in runs if part in run] for part in ("soak", "killed"))
    rows = [["", "requests", "errors", "wrong or lost", ""]]
    for run in soaked:
        memory = "memory {:.0f} MB when filled, {:.0f} MB at the end".format(*(run["megabytes"][i] for i in (0, -1)))
        rows.append(["one run", f"{run['requests']:,}", str(run["errors"]), str(run["wrong"]), memory])
    if killed:
        n_kills, requests, errors, wrong = (
            sum(run[name] for run in killed) for name in ("kills", "requests", "errors", "wrong")
        )
        ready = span((seconds for run in killed for seconds in run["seconds_to_ready"]), 1)
        rows.append([f"{n_kills} kills", f"{requests:,}", str(errors), str(wrong), f"ready again after {ready} s"])
    return f"{markdown(rows)}\n\n{machines(runs)}"


def explore() -> str:
    """How soon the first page of a large collection is drawn in a browser."""
    runs = benchmark_runs("explore")
    rows = [["rows", "first view, ms", "again, ms", "after a filter, ms"]]
    for run in runs:
        rows.append([f"{run['n']:,}", *(span(run[name], 0) for name in ("first_ms", "again_ms", "filter_ms"))])
    return f"{markdown(rows)}\n\n{machines(runs)}"


def explore_order() -> str:
    """In how many queries the page lists what ``search()`` finds, in its order."""
    runs = benchmark_runs("explore_order")
    rows = [["rows", "queries", "same order, a vector is asked", "same order, an item is asked", "nearest to berlin"]]
    for run in runs[-1:]:
        counts = [f"{run[name]} of {run['queries']}" for name in ("same_as_vector", "same_as_id")]
        rows.append([f"{run['n']:,}", str(run["queries"]), *counts, ", ".join(run["berlin"])])
    return markdown(rows)


def hostile() -> str:
    """How long plain clients wait beside hostile ones, and how soon the server ends."""
    runs = benchmark_runs("hostile")
    rows = [["hostile request", "p99 alone, ms", "p99 beside, ms", "ratio", "errors", "SIGTERM to end, s"]]
    for kind in dict.fromkeys(run["kind"] for run in runs):
        same = [run for run in runs if run["kind"] == kind]
        times = [span((run[name] for run in same), 1) for name in ("p99_ms_alone", "p99_ms_beside", "p99_ratio")]
        errors = sum(run["errors"] for run in same)
        rows.append([kind, *times, str(errors), span((run["seconds_to_end"] for run in same), 1)])
    return f"{markdown(rows)}\n\n{machines(runs)}"


def many() -> str:
    """Memory of a server of many searches."""
    runs = benchmark_runs("many")
    rows = [["searches", "rows of each", "wrong answers", "open at the end", "ms a search", "MB at most"]]
    names = ("searches", "rows", "wrong", "open_at_the_end", "milliseconds_each", "megabytes_at_most")
    rows += [[f"{run[name]:,}" for name in names] for run in runs]
    return f"{markdown(rows)}\n\n{measured_on(runs)}"


def machines(runs: list[dict]) -> str:
    """On which processors the runs were made, below a table of ranges."""
    return f"Least and most over all runs. {measured_on(runs)}"


def measured_on(runs: list[dict]) -> str:
    """On which processors the runs were made; a run that is there twice counts once."""
    different = {id(run): run for run in runs}.values()
    count = Counter(f"{run['processor']}, {run['cores']} cores" for run in different)
    where = "; ".join(f"{name} ({n} {'run' if n == 1 else 'runs'})" for name, n in count.items())
    return f"Measured on: {where}."


def texts(part: str) -> str:
    """What a part of the benchmark of texts measured; the last run counts."""
    rows = [run for run in benchmark_runs("texts") if run["part"] == part][-1]["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text_cell(row.get(name, "")) for name in names] for row in rows]
    return markdown([names, *cells])


def inputs() -> str:
    """How long ``add`` takes with vectors in other forms, as a multiple of the array's time; the newest runs count."""
    times = {form: ratio for run in benchmark_runs("inputs") for form, ratio in run.get("times", {}).items()}
    return markdown([["form", "times the array"], *([form, f"{ratio:.2f}"] for form, ratio in times.items())])


def input_forms() -> str:
    """The forms that are passed to every entry point; the newest run counts."""
    run = [run for run in benchmark_runs("inputs") if "matrix" in run][-1]
    rows = [[str(value) for value in row.values()] for row in run["matrix"]]
    torch = f", those of torch {run['torch']} among them" if run["torch"] else ""
    table = markdown([list(run["matrix"][0]), *rows])
    return f"{table}\n\n{run['passed']:,} of {run['tests']:,} tests passed{torch}."


def adapters() -> str:
    """How many tests of the frameworks' own suites pass; the newest run counts."""
    rows = [["framework", "suite", "tests", "passed", "not applicable, and why"]]
    for suite in benchmark_runs("adapters")[-1]["suites"]:
        reasons = Counter(reason.removeprefix("Skipped: ") for reason in suite["left out"])
        left_out = "; ".join(f"{n}: {reason}" for reason, n in reasons.items()) or "none"
        framework = suite["framework"] + (f" ({suite['version']})" if "version" in suite else "")
        rows.append([framework, suite["suite"], str(suite["tests"]), str(suite["passed"]), left_out])
    return markdown(rows)


def guard() -> str:
    """What the guard on write costs beside a search for the same rows; the newest run of each size counts."""
    newest = {
        (run["rows"], run["index"], block["new_rows"]): block
        for run in benchmark_runs("guard")
        for block in run["blocks"]
    }
    rows = [["rows", "index", "new rows at a time", "guard / search", "noisy copies found", "exact copies found"]]
    for (n, index, n_new), block in newest.items():
        exact = block.get("exact_copies_found")
        cells = [f"{block['guard_in_searches']:.1f}", f"{block['copies_found']:.2f}"]
        cells.append("" if exact is None else f"{exact:.3f}")
        rows.append([f"{n:,}", index, str(n_new), *cells])
    return markdown(rows)


def _text_cell(value: float | str) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:.1f}"
    return str(value)


TABLES: dict[str, Callable[[], str]] = {
    **{f"texts {part}": partial(texts, part) for part in ("debian", "million", "app", "reuters")},
    "measured": measured,
    "growth": growth,
    "four bits": four_bits,
    "spilling": spilling,
    "growth predicted": growth_predicted,
    "distance to the paper": distance_to_paper,
    **{f"paper cells {dataset}": partial(paper_cells, dataset) for dataset in ("mnist", "mnist-unit", "cifar-10")},
    "paper verdicts": paper_verdicts,
    "range over runs": range_over_runs,
    "ablation": ablation,
    "kinds": kinds,
    "kinds felt": kinds_felt,
    "expand": expand,
    "starts": starts,
    "embeddings short": embeddings_short,
    **{f"embeddings by bits {dataset}": partial(embeddings_by_bits, dataset) for dataset in EMBEDDING_SETS},
    **{f"embeddings {dataset}": partial(embeddings, dataset) for dataset in EMBEDDING_SETS},
    "both jobs": both_jobs,
    "recommended": recommended,
    **{f"leaderboard {dataset}": partial(board_by_bytes, dataset) for dataset in RATE_SETS},
    "leaderboard by meaning": board_by_meaning,
    "search": search_ratios,
    "rerank": rerank_seconds,
    "duplicates": duplicate_contenders,
    "guard": guard,
    "inputs": inputs,
    "input forms": input_forms,
    "adapters": adapters,
    "faults": faults,
    "serving": serving,
    "soak": soak,
    "explore": explore,
    "explore order": explore_order,
    "hostile": hostile,
    "many": many,
    "neighbors": neighbor_recall,
    "neighbors speed": neighbor_speed,
    "rates": rates,
    "rates short": partial(rates, (2, 4, 8)),
    **{f"engines {dataset}": partial(engines, dataset) for dataset in ("glove", "sift", "cifar-10-cnn")},
    "engines glove, other processors": partial(engines, "glove", older=True),
    "engines glove, AVX2": partial(engines, "glove", WITH_AVX2),
    "million": million,
    "engine filters": engine_filters,
    "engine recalls asked": partial(engine_asked, ENGINE_SETS),
    "engine recalls glove": partial(engine_recalls, "glove"),
    **{f"table-1 {dataset}": partial(paper_tables, "table-1", dataset) for dataset in ("cifar-10", "flickr25k")},
    **{
        f"table-2 {dataset}": partial(paper_tables, "table-2", dataset)
        for dataset in ("mnist", "mnist-unit", "cifar-10", "flickr25k")
    },
    "table-3 cifar-10": partial(paper_tables, "table-3", "cifar-10"),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
