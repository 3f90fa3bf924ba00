"""All attacks of this folder as pieces of work, each with one count of everything that can go wrong."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from faults.command_lines import attack_many
from faults.concurrency import PLACES, read_beside_savers
from faults.corruption import FORMATS, OWN_FORMATS, corrupt_many
from faults.interrupts import CHANGES, interrupt_change, interrupt_save
from faults.kills import Expected, fill_disk, kill
from faults.savings import SAVINGS

SIZES = {"kills": 2000, "full disks": 500, "corruptions": 20_000, "lines": 2000, "reads": 100_000, "interrupts": 2000}
"""How many of each; a full disk is tried at every operation, and no more often."""

WRONG = {
    "lost": ("lost", "not repeated", "failed_saves"),
    "mixed": ("mixed", "of no save", "stale"),
    "silent": ("silent", "unsaid"),
    "unclear": ("unclear", "unnamed", "not one line"),
    "leftovers": ("leftovers",),
}
"""What can go wrong, and the words of the attacks for it; unclear is a traceback, or more or less than one line."""

LINES_OF_A_PIECE = 100
READS_OF_A_PIECE = 1000


class Tally(NamedTuple):
    """How often something was tried, what went wrong, and a few examples of that."""

    times: int
    wrong: dict[str, int]
    examples: tuple[str, ...] = ()


class Piece(NamedTuple):
    """So many attacks of one kind on one thing."""

    kind: str
    name: str
    n: int
    run: Callable[[], Tally]


def pieces(sizes: dict[str, int]) -> Iterator[Piece]:
    """The attacks, in pieces of at most some minutes."""
    share = _shares(sizes["kills"], SAVINGS)
    yield from (Piece("kills", name, share, lambda name=name: _kills(name, share)) for name in SAVINGS)
    yield from (Piece("full disks", name, 1, lambda name=name: _full_disks(name)) for name in SAVINGS)
    formats = FORMATS | OWN_FORMATS
    damages = _shares(sizes["corruptions"], formats)
    yield from (Piece("corruptions", name, damages, lambda name=name: _corruptions(name, damages)) for name in formats)
    for seed in range(-(-sizes["lines"] // LINES_OF_A_PIECE)):
        n = min(LINES_OF_A_PIECE, sizes["lines"] - seed * LINES_OF_A_PIECE)
        yield Piece("lines", str(seed), n, lambda n=n, seed=seed: _lines(n, seed))
    reads = _shares(sizes["reads"], PLACES)
    for number in range(-(-reads // READS_OF_A_PIECE)):
        n = min(READS_OF_A_PIECE, reads - number * READS_OF_A_PIECE)
        for name in PLACES:
            yield Piece("reads", f"{name}, {number}", n, lambda name=name, n=n: _reads(name, n))
    n = _shares(sizes["interrupts"], [*CHANGES, *SAVINGS])
    for name in CHANGES:
        yield Piece("interrupts", name, n, lambda name=name: _tally("interrupted", interrupt_change(name, n, seed=1)))
    for name in SAVINGS:
        title = f"save of {name}"
        yield Piece("interrupts", title, n, lambda name=name: _tally("interrupted", interrupt_save(name, n, seed=1)))


def _shares(n: int, names) -> int:
    return -(-n // len(names))


def _tally(word: str, counts: Counter[str], examples: tuple[str, ...] = ()) -> Tally:
    wrong = {title: sum(counts[each] for each in words) for title, words in WRONG.items()}
    return Tally(counts[word], wrong, examples)


def _kills(name: str, n: int) -> Tally:
    """At every operation; where more are asked for, the repetition is killed too, at random."""
    expected, counts, rng = Expected(SAVINGS[name]), Counter[str](), np.random.default_rng(1)
    moment = 0
    while counts["killed"] < n:
        again = rng.integers(1, expected.n_operations + 1, size=moment // expected.n_operations)
        counts += kill(SAVINGS[name], expected, moment % expected.n_operations + 1, *again.tolist())
        moment += 1
    return _tally("killed", counts)


def _full_disks(name: str) -> Tally:
    expected, counts = Expected(SAVINGS[name]), Counter[str]()
    for moment in range(1, expected.n_operations + 1):
        counts += fill_disk(SAVINGS[name], expected, moment)
    return _tally("full", counts)


def _corruptions(name: str, n: int) -> Tally:
    kind = (FORMATS | OWN_FORMATS)[name]
    found = corrupt_many(kind, n, seed=1)
    silent = found.different if kind.protected is not None else 0
    counts = Counter(damaged=n, silent=silent, unclear=len(found.faults))
    return _tally("damaged", counts, tuple(found.faults[:5]))


def _lines(n: int, seed: int) -> Tally:
    ended, faults = attack_many(n, seed + 1)
    return _tally("lines", Counter(lines=ended.total(), unclear=len(faults)), tuple(faults[:5]))


def _reads(name: str, n: int) -> Tally:
    counts, problems = read_beside_savers(name, n)
    return _tally("reads", counts, problems[:5])
