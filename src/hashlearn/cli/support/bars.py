"""The library's progress reports, drawn as bars on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hashlearn.progress import Reporter, reporting

_MEMORY = 3600.0
"""Seconds the estimate of the time left looks back: a step may take minutes."""


@contextmanager
def progress_bars(time_left: bool = False) -> Iterator[None]:
    """Draw what is done inside the block; nothing where stderr is no terminal. ``time_left`` adds an estimate."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TimeElapsedColumn(), *([TextColumn("left"), TimeRemainingColumn()] if time_left else [])]
    drawn = Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=_MEMORY)
    with drawn as progress, reporting(bar_keeper(progress)):
        yield


def bar_keeper(progress) -> Reporter:
    """A reporter with one bar a task, in the order they began; bars of inner tasks go when the outer one moves."""
    bars: dict[str, int] = {}

    def report(task: str, done: int, total: int | None) -> None:
        if task in bars:
            begun = list(bars)
            for inner in begun[begun.index(task) + 1 :]:
                progress.remove_task(bars.pop(inner))
        else:
            bars[task] = progress.add_task(task, total=total)
        progress.update(bars[task], completed=done, total=total)
        if done == total:
            progress.remove_task(bars.pop(task))

    return report
