"""Long work in the background: it is started once, shows its progress, and its result is kept."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from hashlearn.progress import reporting

FINISHED_KEPT = 16


class Progress(NamedTuple):
    """The progress of a job. ``total`` is None if the end is not known."""

    task: str
    done: int
    total: int | None


class Job:
    """A job that was started.

    Attributes
    ----------
    progress : Progress
    done : bool
    error : str or None
        One line if it failed.
    result : Any
        The returned value, once the job is done.
    """

    def __init__(self) -> None:
        self.progress = Progress("waiting", 0, None)
        self.done = False
        self.error: str | None = None
        self.result: Any = None

    def run(self, work: Callable[[], Any]) -> None:
        try:
            with reporting(self._report):
                self.result = work()
        except (ValueError, TypeError) as error:  # an error of the library about its input
            self.error = str(error).strip().partition("\n")[0]
        except Exception:
            self.error = "internal error; the log of the server has more"
            raise
        finally:
            self.done = True

    def _report(self, task: str, done: int, total: int | None) -> None:
        self.progress = Progress(task, done, total)


class Jobs:
    """The jobs of one page by their keys. They run one after the other."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hashlearn-page")

    def started(self, key: str, work: Callable[[], Any]) -> Job:
        """The job with this key; a new one if there is none."""
        with self._lock:
            if key in self._jobs:
                self._jobs.move_to_end(key)
                return self._jobs[key]
            job = self._jobs[key] = Job()
            self._forget_old()
        self._pool.submit(job.run, work)
        return job

    def find(self, key: str) -> Job | None:
        """The job with this key, if it was started and is still kept."""
        with self._lock:
            return self._jobs.get(key)

    def stop(self) -> None:
        """Start no more jobs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget_old(self) -> None:
        finished = [key for key, job in self._jobs.items() if job.done]
        for key in finished[: max(0, len(self._jobs) - FINISHED_KEPT)]:
            del self._jobs[key]
