"""The library's progress reports, drawn as bars on stderr, and the lines of a running experiment."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from hashlearn.progress import Reporter, reporting

if TYPE_CHECKING:
    from hashlearn.experiments import Experiment

_MEMORY = 3600.0
"""The estimate of the time left uses the progress of this many seconds: one step may take minutes."""


@contextmanager
def progress_bars(time_left: bool = False) -> Iterator[None]:
    """Draw the progress of the work in the block if stderr is a terminal. ``time_left`` adds an estimate."""
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
    """A reporter with a bar for each task, in the order of start. Bars of inner tasks end when the outer one moves."""
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


class RunLog:
    """A line for every finished run; without a terminal for bars, the line has the time left."""

    def __init__(self, experiment: "Experiment"):
        self.experiment, self.said, self.start = experiment, "", time.monotonic()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report the work in the block."""
        if sys.stderr.isatty():
            with progress_bars(time_left=True):
                yield
        else:
            with reporting(self._report):
                yield

    def note(self, task: Any, line: dict[str, Any]) -> None:
        """Note a finished run, and show the first number that the tables have for it."""
        from hashlearn.experiments.results import number

        measure = self.experiment.measures[0]
        value = None if "problem" in line else number(line, measure)
        found = line.get("problem", "") if value is None else f"{measure.title} {value:.{measure.digits}f}"
        took = f", {sum(line['seconds'].values()):.1f} s" if "seconds" in line else ""
        run = "" if task.bits is None else f", run {task.run}"
        self.said = f"{task}{run}: {found}{took}"
        if sys.stderr.isatty():
            typer.echo(self.said, err=True)

    def _report(self, task: str, done: int, total: int | None) -> None:
        if task != self.experiment.name or total is None:
            return
        if done == 0:
            self.start = time.monotonic()
            return
        left = (time.monotonic() - self.start) / done * (total - done)
        typer.echo(f"{done}/{total}, {left / 60:.0f} min left: {self.said}", err=True)
