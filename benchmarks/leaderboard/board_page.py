"""The page of the leaderboard: Pareto fronts that one can filter, and the table of all runs."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.durable.files import write_text
from hashlearn.html import environment

FOLDER = Path(__file__).parent
MEASURES = {"recall_at_10": "10@10", "recall_at_100": "10@100", "mAP": "mAP", "precision_at_100": "precision@100"}
COSTS = {"bytes": "bytes a vector", "build": "seconds to build", "query": "milliseconds a query"}


def write_page(lines: list[dict[str, Any]], path: Path) -> Path:
    """Write the page of these runs, and return its path."""
    rows = means(lines)
    families = list(dict.fromkeys(row["family"] for row in rows))
    template = environment().from_string((FOLDER / "page.html").read_text(encoding="utf-8"))
    points = json.dumps([{**row, "series": families.index(row["family"]) % 8} for row in rows]).replace("<", "\\u003c")
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["data"]].append(row)
    write_text(
        path,
        template.render(
            groups=groups,
            families=families,
            measures=MEASURES,
            costs=COSTS,
            points=points,
            script=(FOLDER / "page.js").read_text(encoding="utf-8"),
            n_runs=len(lines),
            processors=sorted({line["processor"] for line in lines if line.get("processor")}),
        ),
    )
    return path


def means(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for a data set, method and setting: means over the seeds, and what is on the front of a measure."""
    groups = defaultdict(list)
    for line in lines:
        groups[line["key"].rpartition("-")[0]].append(line)
    rows = [mean_row(group) for group in groups.values()]
    for row in rows:
        rivals = [other for other in rows if other["data"] == row["data"]]
        row["best"] = [name for name in MEASURES if row[name] is not None and on_front(row, rivals, name)]
    return sorted(rows, key=lambda row: (row["data"], row["bytes"]))


def on_front(row: dict[str, Any], rivals: list[dict[str, Any]], measure: str) -> bool:
    """Whether nobody has a higher value with as few bytes, or the same value with fewer."""
    mine = row[measure]
    return not any(
        (other["bytes"] <= row["bytes"] and other[measure] > mine)
        or (other["bytes"] < row["bytes"] and other[measure] == mine)
        for other in rivals
        if other[measure] is not None
    )


def mean_row(group: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of runs that differ in their seeds."""
    config, data = group[0]["config"], group[0]["data"]
    setting = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in config["setting"].items())
    speed = float(np.mean([line["data"]["queries"] / max(line["seconds"]["search"], 1e-9) for line in group]))
    row = {
        "data": f"{data['name']}, {data['rows']:,} x {data['features']}, {data['metric']}",
        "name": f"{config['method']} {setting}".strip(),
        "family": config["family"],
        "bytes": group[0]["bytes"],
        "seeds": len(group),
        "build": max(float(np.mean([line["seconds"]["fit"] + line["seconds"]["encode"] for line in group])), 1e-3),
        "speed": speed,
        "query": 1000 / speed,
    }
    for name in MEASURES:
        values = [line["measures"][name] for line in group]
        row[name] = None if None in values else float(np.mean(values))
    return row
