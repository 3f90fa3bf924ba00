"""A process that is killed while it saves leaves the old state or the new one, and the next save leaves no trace."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from faults.operations import count_operations, full_disk_at, killed_at
from faults.savings import Saving, listing


class Expected:
    """What a saving call gives where nothing goes wrong: the states before and after, and the files."""

    def __init__(self, saving: Saving):
        self.saving = saving
        with tempfile.TemporaryDirectory() as name:  # what is compiled or cached the first time is no part of a save
            saving.prepare(Path(name))
            saving.save(Path(name))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            saving.prepare(folder)
            self.files_before = listing(folder)
            self.old = self._state(folder)
            self.n_operations = count_operations(lambda: saving.save(folder))
            self.new = saving.read(folder)
            self.files = listing(folder)

    def _state(self, folder: Path) -> Any:
        try:
            return self.saving.read(folder)
        except (OSError, ValueError):
            return None

    def state(self, folder: Path) -> str:
        """``old``, ``new``, or what is wrong: ``mixed`` where it is neither, ``lost`` where nothing can be read."""
        try:
            found = self.saving.read(folder)
        except (OSError, ValueError):
            return "old" if self.old is None else "lost"
        if found == self.new:
            return "new"
        return "old" if found == self.old or found in self.saving.incomplete else "mixed"


def kill(saving: Saving, expected: Expected, *moments: int) -> Counter[str]:
    """Kill the call, and its repetitions, at one of their operations, look at what is there, and repeat it."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saving.prepare(folder)
        for moment in moments:
            counts["killed"] += killed_at(lambda: saving.save(folder), moment)
            counts[expected.state(folder)] += 1
        saving.save(folder)
        counts["not repeated"] += expected.state(folder) != "new"
        counts["leftovers"] += listing(folder) != expected.files
    return counts


def fill_disk(saving: Saving, expected: Expected, moment: int) -> Counter[str]:
    """Let the disk be full from one operation on, and look at the error and at what is there."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saving.prepare(folder)
        error = None
        with full_disk_at(moment) as refused:
            try:
                saving.save(folder)
            except OSError as problem:
                error = problem
        counts["full"] += bool(refused)
        state = expected.state(folder)
        counts[state] += 1
        counts["unsaid"] += error is None and state != "new"
        if error is not None:
            counts["unnamed"] += not any(name in str(error) for name in (str(folder), "codes", "TMPDIR"))
            counts["not one line"] += str(error).rstrip("\n").count("\n") > 0
            counts["leftovers"] += state == "old" and not _only_continuable(listing(folder), expected.files_before)
        saving.save(folder)
        counts["not repeated"] += expected.state(folder) != "new"
        counts["leftovers"] += listing(folder) != expected.files
    return counts


def _only_continuable(found: list[str], before: list[str]) -> bool:
    """Whether nothing was left but the codes that an interrupted encode goes on from."""
    more, fewer = Counter(found) - Counter(before), Counter(before) - Counter(found)
    return not fewer and all(".part" in name for name in more)
