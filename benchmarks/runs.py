"""Where measurements are kept: ``results/NAME.jsonl`` beside this file, a JSON line for every run.

A run says its processor, versions, commit and date. ``python docs/tables.py`` writes the tables of the documentation
from these files, with the range over all runs. Delete the line of a run that was disturbed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from hashlearn.experiments.results import PACKAGES, provenance

FOLDER = Path(__file__).parent / "results"


def add_out_option(parser: argparse.ArgumentParser) -> None:
    """``--out``, the folder of the measurements."""
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the measurements; by default %(default)s")


def append_run(folder: Path, name: str, measured: dict[str, Any]) -> Path:
    """Add a run to ``folder/NAME.jsonl`` and return that file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    line = json.dumps({**provenance((*PACKAGES, "faiss-cpu", "usearch")), **measured}, separators=(",", ":"))
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    return path
