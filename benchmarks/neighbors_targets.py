"""What must hold of the search for neighbors by short codes, beside what the files of measurements say.

The last full run that has a number counts. The scans of Hamming distances and the reranking from disk are measured by
``search.py`` and ``rerank.py``.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RECALLS = {
    ("gist", "ABH 64"): (0.36, 0.85),
    ("gist", "ABH 128"): (0.52, 0.965),
    ("gist", "ABH 512"): (0.78, 0.999),
    ("cnn", "ABH 64"): (0.335, 0.84),
    ("cnn", "ABH 128"): (0.51, 0.965),
    ("cnn", "ABH 256"): (0.66, 0.995),
}
"""The least 10@10 and 10@100."""

AT_10 = {
    ("gist", "ABH 64, 10 restarts"): 0.38,
    ("flickr", "ABH 64"): 0.19,
    ("cnn", "ABH 128 + int8 rerank of 100"): 0.95,
}
"""The least 10@10."""

SCAN = "scan of 1e+06 codes,"
RATIOS = {
    f"{SCAN} 64 bits, 100 queries, against PQFastScan": (2.5, True),
    f"{SCAN} 128 bits, 100 queries, against PQFastScan": (2.0, True),
    f"{SCAN} 512 bits, 100 queries, against PQFastScan": (1.3, True),
    f"{SCAN} 512 bits, 100 queries, against RaBitQFastScan": (4.0, True),
    f"{SCAN} 64 bits, 1 query, against PQFastScan": (2.0, True),
    f"{SCAN} 64 bits, 1 query, share of the speed of reading": (0.7, True),
    "encode at 128 bits, 60000 x 512, against the product X D'": (8.0, False),
    "train at 128 bits, 60000 x 512, against OPQ16": (10.0, True),
}
"""What the peer's time is to be of ours, at least; or ours of the peer's, at most."""

ABOVE_RABITQ, WITHIN_OPQ = 0.08, -0.01


class Target(NamedTuple):
    """What was measured, None where nothing was, beside what is wanted."""

    what: str
    wanted: float
    measured: float | None
    at_least: bool = True

    @property
    def is_met(self) -> bool:
        if self.measured is None:
            return False
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted


def targets(folder: Path) -> list[Target]:
    """All targets, with what the files of a folder say."""
    runs = [run for run in _runs(folder, "neighbors") if not run["quick"]]
    cases = {(case["data"], case["method"]): case for run in runs for case in run["cases"]}
    ratios = {line["what"]: line["ratio"] for run in runs for line in run["ratios"]}
    found = [*_recalls(cases), *_compared(cases)]
    found += [Target(what, wanted, ratios.get(what), at_least) for what, (wanted, at_least) in RATIOS.items()]
    return [*found, *_hamming(_runs(folder, "search")), _rerank(_runs(folder, "rerank"))]


def rows(folder: Path) -> list[list[str]]:
    """A table: what, wanted, measured."""
    found = [["what", "wanted", "measured", ""]]
    for target in targets(folder):
        measured = "not measured" if target.measured is None else f"{target.measured:.3f}"
        missed = "" if target.is_met or target.measured is None else "missed"
        found.append([target.what, f"{'>=' if target.at_least else '<='} {target.wanted:g}", measured, missed])
    return found


def _runs(folder: Path, name: str) -> list[dict]:
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _recalls(cases: dict) -> Iterator[Target]:
    for place, wanted in RECALLS.items():
        for n, least in zip((10, 100), wanted):
            yield Target(f"10@{n}, {', '.join(place)}", least, cases.get(place, {}).get(f"recall_{n}"))
    for place, least in AT_10.items():
        yield Target(f"10@10, {', '.join(place)}", least, cases.get(place, {}).get("recall_10"))


def _compared(cases: dict) -> Iterator[Target]:
    """How much better than a peer we are, where restarts are allowed the better of both."""
    at_10 = {place: case["recall_10"] for place, case in cases.items()}
    short = ("ABH 64", "ABH 64, 10 restarts")
    pairs: list[tuple[str, tuple[str, ...], str, float]] = []
    for data in ("gist", "cnn", "text", "mnist"):
        least = WITHIN_OPQ if data == "mnist" else 0.0
        pairs += [(data, short, "OPQ 8x8", least), (data, ("ABH 128",), "OPQ 16x8", least)]
    pairs.append(("flickr", ("ABH 64",), "ITQ 64, Hamming", 0.0))
    for data, d in (("gist", 512), ("cnn", 1280), ("text", 384)):
        pairs.append((data, (f"ABH {d}",), "RaBitQ, 1 bit a feature", ABOVE_RABITQ))
    for data, ours, theirs, least in pairs:
        own = [at_10[data, method] for method in ours if (data, method) in at_10]
        known = bool(own) and (data, theirs) in at_10
        what = f"10@10, {data}, {' or '.join(ours)}, above {theirs}"
        yield Target(what, least, round(max(own) - at_10[data, theirs], 4) if known else None)


def _hamming(runs: list[dict]) -> Iterator[Target]:
    for n_queries, least in ((1, 1.5), (100, 6.0)):
        wanted = {"kind": "case", "data": "clustered", "n_bits": 256, "n_codes": 1_000_000, "n_queries": n_queries}
        fit = [case for run in runs for case in run["cases"] if wanted.items() <= case.items()]
        ratio = None
        if fit:
            ratio = fit[-1]["seconds"]["faiss IndexBinaryFlat"] / fit[-1]["seconds"]["hashlearn flat"]
        queries = "1 query" if n_queries == 1 else f"{n_queries} queries"
        yield Target(f"Hamming, 1e+06 codes, 256 bits, {queries}, against IndexBinaryFlat", least, ratio)


def _rerank(runs: list[dict]) -> Target:
    fit = [run["seconds"] for run in runs if run["gigabytes"] == 4]
    ratio = fit[-1]["numpy"] / fit[-1]["rerank_exact, float32 file"] if fit else None
    return Target("rerank of 100 x 100 from a 4 GB file, nothing in memory, against numpy", 2.0, ratio)
