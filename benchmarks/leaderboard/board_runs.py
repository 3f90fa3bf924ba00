"""A run: a method with a setting and a seed on a data set. Raw results are stored; measures are computed from them."""

import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from board_data import N_NEIGHBORS, BoardData, distances_of
from board_method import Method, Setting
from numpy.typing import NDArray

from hashlearn.durable.files import write_text
from hashlearn.experiments.results import PACKAGES, ResultFolder, provenance
from hashlearn.metrics import relevance_of_labels
from hashlearn.metrics.ties import TieGroups, groups_average_precision, groups_hits

DEPTH = 100
QUERY_BLOCK = 50
PEERS = ("faiss-cpu", "turbovec", "rabitqlib", "scann", "sentence-transformers")
Line = dict[str, Any]


class Run(NamedTuple):
    """What is run."""

    data: BoardData
    method: type[Method]
    setting: Setting
    seed: int

    @property
    def key(self) -> str:
        """What tells the run from all others."""
        sizes = f"{self.data.name}-{self.data.metric}-{len(self.data.rows)}x{len(self.data.queries)}"
        setting = "-".join(f"{name}{value}" for name, value in sorted(self.setting.items()))
        return f"{sizes}/{self.method.family}-{self.method.name}-{setting}-{self.seed}".replace(" ", "_")


class Raw(NamedTuple):
    """What is stored of the answers of a run, for every query."""

    ids: NDArray[np.int64]
    distances: NDArray[np.float32]
    true_distances: NDArray[np.float64]
    tenth: NDArray[np.float64]
    average_precision: NDArray[np.float64]
    precision_at_100: NDArray[np.float64]


def results_of(folder: Path) -> list[Line]:
    """The runs of ``folder/results.jsonl``; of two with the same key the later one."""
    return list({line["key"]: line for line in ResultFolder(folder).lines(["results"])}.values())


def make(run: Run, folder: Path) -> Line:
    """Make a run, store its raw results and then its line."""
    data, method = run.data, run.method(run.setting, run.seed, run.data.metric)
    seconds = {}
    start = time.perf_counter()
    method.fit(data.rows)
    seconds["fit"] = time.perf_counter() - start
    start = time.perf_counter()
    size = method.encode(data.rows)
    seconds["encode"] = time.perf_counter() - start
    method.search(data.queries[:1], min(DEPTH, len(data.rows)))  # what is compiled at first use is not timed
    start = time.perf_counter()
    first = method.search(data.queries, min(DEPTH, len(data.rows)))
    seconds["search"] = time.perf_counter() - start
    raw = raw_results(data, method, first)
    store(folder / "raw" / f"{run.key}.npz", raw)
    config = {"method": run.method.name, "family": run.method.family, "setting": run.setting, "seed": run.seed}
    sizes = {"rows": len(data.rows), "queries": len(data.queries), "features": data.rows.shape[1]}
    about = {"name": data.name, "metric": data.metric, "labels": data.labels is not None, **sizes}
    line: Line = {"key": run.key, "config": config, "data": about, "bytes": size, "measures": measures_of(raw)}
    line["seconds"] = {name: round(value, 4) for name, value in seconds.items()}
    line |= provenance((*PACKAGES, *PEERS))
    ResultFolder(folder).append("results", line)
    return line


def raw_results(data: BoardData, method: Method, first: tuple[NDArray, NDArray]) -> Raw:
    """The first 100 and, with labels, the scores of the whole ranking: equal distances count as if shuffled."""
    distances, ids = np.asarray(first[0], np.float32), np.asarray(first[1], np.int64)
    scores = np.array(list(_scores(data, method))) if data.labels is not None else np.full((len(ids), 2), np.nan)
    true = distances_of(data.rows, data.queries, ids)
    return Raw(ids, distances, true, data.tenth, scores[:, 0], scores[:, 1])


def _scores(data: BoardData, method: Method) -> Iterator[tuple[float, float]]:
    n = len(data.rows)
    for start in range(0, len(data.queries), QUERY_BLOCK):
        part = slice(start, start + QUERY_BLOCK)
        relevant = relevance_of_labels(data.query_labels[part], data.labels).block(slice(None), slice(0, n))
        for distances, ids, right in zip(*method.search(data.queries[part], n), relevant):
            yield whole_ranking(np.asarray(distances), np.asarray(ids), right)


def whole_ranking(distances: NDArray, ids: NDArray, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Average precision and precision@100 of a ranking of all rows; rows that are left out count as never found."""
    there = ids >= 0
    _, group = np.unique(distances[there], return_inverse=True)
    hits = right[ids[there].astype(np.int64)]
    groups = TieGroups.of_histograms(np.bincount(group), np.bincount(group, hits).astype(np.int64))
    found = float(groups_average_precision(groups)) * hits.sum() / max(right.sum(), 1)
    return found, float(groups_hits(groups, np.array([DEPTH]))[0]) / DEPTH


def store(path: Path, raw: Raw) -> None:
    """Write raw results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(file, **raw._asdict())
    part.replace(path)


def stored(path: Path) -> Raw:
    """Read raw results."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return Raw(**{name: arrays[name] for name in Raw._fields})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no raw result of a run ({error}): delete it and use --again") from None


def measures_of(raw: Raw) -> dict[str, float | None]:
    """Recall by true distance, and the means by labels.

    10@100 is also 10@10 after an exact rerank of 100.
    """
    near = raw.true_distances <= raw.tenth[:, None]
    measures: dict[str, float | None] = {
        f"recall_at_{n}": float(np.minimum(near[:, :n].sum(axis=1), N_NEIGHBORS).mean() / N_NEIGHBORS)
        for n in (N_NEIGHBORS, DEPTH)
    }
    for name, values in (("mAP", raw.average_precision), ("precision_at_100", raw.precision_at_100)):
        measures[name] = None if np.isnan(values).any() else float(values.mean())
    return {name: None if value is None else round(value, 4) for name, value in measures.items()}


def measured_again(folder: Path) -> None:
    """Compute the measures of all runs again from what is stored."""
    lines = []
    for line in results_of(folder):
        raw = stored(folder / "raw" / f"{line['key']}.npz")
        lines.append(json.dumps(line | {"measures": measures_of(raw)}, separators=(",", ":")) + "\n")
    write_text(folder / "results.jsonl", "".join(lines))
