"""The results of an experiment: a JSON line for every run, one file for every dataset, safe against kills.

A line is appended in one write and synced. What a killed process left of a line has no line end: readers pass over it,
and the next writer cuts it off.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hashlearn.checks import check_regular
from hashlearn.durable.files import naming
from hashlearn.durable.json_files import parsed_json
from hashlearn.durable.locks import exclusive

Line = dict[str, Any]


class ResultFolder:
    """Lines in ``folder/DATASET.jsonl``."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def lines(self, datasets: Iterable[str]) -> Iterator[Line]:
        """All whole lines of these datasets, oldest first; of a dataset without a file none."""
        for path in map(self._path, datasets):
            if path.is_file():
                yield from read_lines(path)

    def append(self, dataset: str, line: Line) -> None:
        """Add a line, on the disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        written = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        path = self._path(dataset)
        with exclusive(path), naming(path), path.open("a+b") as file:
            _cut_torn_end(file)
            file.write(written)
            file.flush()
            os.fsync(file.fileno())

    def _path(self, dataset: str) -> Path:
        return self.folder / f"{dataset}.jsonl"


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file that are whole; a damaged one in the middle is an error, since nothing writes such."""
    with check_regular(path).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = parsed_json(raw)
            except ValueError:
                raise ValueError(f"{path} line {number} is not JSON: repair or delete it") from None
            if not isinstance(line, dict) or not {"key", "config", "data"} <= line.keys():
                raise ValueError(f"{path} line {number} is no result of an experiment")
            yield line


def _cut_torn_end(file: BinaryIO) -> None:
    """Remove what follows the last line end; appending then starts a line of its own."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    file.seek(0, os.SEEK_END)
