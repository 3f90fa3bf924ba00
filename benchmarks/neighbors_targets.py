"""What the recall of ABH must be, from the cases that a run of the neighbors benchmark has."""

from collections.abc import Iterator
from typing import NamedTuple

RECALLS = {
    ("gist", "ABH 64"): (0.36, 0.85),
    ("gist", "ABH 128"): (0.52, 0.965),
    ("gist", "ABH 512"): (0.78, 0.999),
    ("cnn", "ABH 64"): (0.335, 0.84),
    ("cnn", "ABH 128"): (0.51, 0.965),
    ("cnn", "ABH 256"): (0.66, 0.995),
}
"""At least so much of 10@10 and 10@100."""

WITH_RESTARTS, BEST_SIMPLE, RERANKED, ABOVE_RABITQ, WITHIN_OPQ = 0.38, 0.19, 0.95, 0.08, -0.01


class Target(NamedTuple):
    """What was measured beside what is wanted."""

    what: str
    ratio: float
    target: float
    at_least: bool = True


def recall_targets(cases: list[dict]) -> Iterator[Target]:
    """The targets that the cases say something about."""
    at_10 = {(case["data"], case["method"]): case["recall_10"] for case in cases}
    at_100 = {(case["data"], case["method"]): case["recall_100"] for case in cases}
    for (data, method), (low, high) in RECALLS.items():
        if (data, method) in at_10:
            yield Target(f"10@10, {data}, {method}", at_10[data, method], low)
            yield Target(f"10@100, {data}, {method}", at_100[data, method], high)
    fixed = (
        ("gist", "ABH 64, 10 restarts", WITH_RESTARTS),
        ("flickr", "ABH 64", BEST_SIMPLE),
        ("cnn", "ABH 128 + int8 rerank of 100", RERANKED),
    )
    for data, method, wanted in fixed:
        if (data, method) in at_10:
            yield Target(f"10@10, {data}, {method}", at_10[data, method], wanted)
    for data, ours, theirs, above in pairs({case["data"] for case in cases}, at_10):
        yield Target(f"10@10, {data}, {ours} above {theirs}", at_10[data, ours] - at_10[data, theirs], above)


def pairs(datasets: set[str], at_10: dict) -> Iterator[tuple[str, str, str, float]]:
    """Data, our method, a peer, and how much better we are to be, where both were measured."""
    compared = [(data, "ABH 64", "ITQ 64, Hamming", 0.0) for data in ("flickr",)]
    for data in ("gist", "cnn", "text", "mnist"):
        above = WITHIN_OPQ if data == "mnist" else 0.0
        ours = "ABH 64, 10 restarts" if data == "mnist" else "ABH 64"
        compared += [(data, ours, "OPQ 8x8", above), (data, "ABH 128", "OPQ 16x8", above)]
    for data, d in (("gist", 512), ("cnn", 1280), ("text", 384)):
        compared.append((data, f"ABH {d}", "RaBitQ, 1 bit a feature", ABOVE_RABITQ))
    return (
        pair for pair in compared if pair[0] in datasets and {(pair[0], pair[1]), (pair[0], pair[2])} <= at_10.keys()
    )
