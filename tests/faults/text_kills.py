"""Processes that add, replace and remove rows with texts are killed: rows and their words agree, and nothing is lost.

python -m faults.text_kills --kills 200
"""

import argparse
import os
import random
import signal
import sqlite3
import struct
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hashlearn import LSH, SimilaritySearch

N_IDS = 40
_STEP = struct.Struct("<q")


class TextKills(NamedTuple):
    """Kills, changes that were made, reported changes that were lost, and folders whose rows and words differ."""

    kills: int
    changes: int
    lost: int
    differ: int


def vectors(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)


def begin(folder: Path) -> None:
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), folder=folder, text_field="text").fit(vectors(20))
    search.add(vectors(1), ["step"], texts=["step0"])
    search.close()


def change(search: SimilaritySearch, step: int) -> None:
    """Every row has the number of its change as a word; the row "step" has the number of the last one."""
    rng = random.Random(step)
    names = [f"row{rng.randrange(N_IDS)}" for _ in range(rng.randrange(1, 6))]
    names = list(dict.fromkeys(names))
    with search.transaction():
        gone = [name for name in names[1:2] if name in search]
        if gone:
            search.remove(gone)
        search.upsert(
            vectors(len(names)), names, texts=[f"{name} at change{step} {'long ' * (step % 50)}" for name in names]
        )
        search.upsert(vectors(1), ["step"], texts=[f"step{step}"])
    if step % 17 == 0:
        search.compact()


def write_for_ever(folder: Path, first: int, report: int) -> None:
    search = SimilaritySearch.open(folder)
    step = first
    while True:
        change(search, step)
        os.write(report, _STEP.pack(step))
        step += 1


def ids_with(search: SimilaritySearch, word: str) -> list[str]:
    """The ids of the rows that have a word."""
    found = search.search(text=word, k=len(search), by="words").ids.tolist()
    return [id for id in found if id is not None]


def problem_of(folder: Path, reported: int) -> tuple[int, bool, bool]:
    """The last change that is there; whether one was lost; whether rows and words differ."""
    search = SimilaritySearch.open(folder)
    last = int(search.payloads(["step"])[0]["text"].removeprefix("step"))
    differ = False
    for id, payload in zip(search.ids.tolist(), search.payloads(search.ids)):
        words = payload["text"].split()
        differ |= ids_with(search, words[0]) != [id]
        differ |= id not in ids_with(search, words[min(2, len(words) - 1)])
    search.close()
    with closing(sqlite3.connect(folder / "catalog.db")) as db:
        db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        with_words = {row for (row,) in db.execute("SELECT id FROM words_docsize")}
        with_payloads = {row for (row,) in db.execute("SELECT row FROM payloads")}
        differ |= with_words != with_payloads
    return last, last < reported, differ


def kill_writers(folder: Path, n_kills: int, seed: int = 0) -> TextKills:
    """Start a process that changes a search, kill it at a random moment, look, and go on."""
    rng = random.Random(seed)
    begin(folder)
    last, lost, differ = 0, 0, 0
    for _ in range(n_kills):
        receive, report = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write_for_ever(folder, last + 1, report)
            finally:
                os._exit(1)
        os.close(report)
        os.read(receive, _STEP.size)  # it has begun
        time.sleep(rng.random() * 0.2)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reported = last
        with os.fdopen(receive, "rb") as file:
            content = file.read()
        if len(content) >= _STEP.size:
            reported = _STEP.unpack(content[len(content) // _STEP.size * _STEP.size - _STEP.size :][: _STEP.size])[0]
        last, was_lost, differs = problem_of(folder, reported)
        lost += was_lost
        differ += differs
    return TextKills(n_kills, last, lost, differ)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    with tempfile.TemporaryDirectory() as folder:
        print(kill_writers(Path(folder) / "search", parser.parse_args().kills))


if __name__ == "__main__":
    main()
