"""What a running experiment says on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from hashlearn.cli.support.bars import progress_bars
from hashlearn.progress import reporting

if TYPE_CHECKING:
    from hashlearn.experiments import Experiment


class RunLog:
    """A line for every run that is done; where there is no terminal to draw bars on, with the time left."""

    def __init__(self, experiment: "Experiment"):
        self.experiment, self.said, self.start = experiment, "", time.monotonic()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report what is done inside the block."""
        if sys.stderr.isatty():
            with progress_bars(time_left=True):
                yield
        else:
            with reporting(self._report):
                yield

    def note(self, task: Any, line: dict[str, Any]) -> None:
        """Take note of a line, in the first of the numbers that the tables show."""
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
