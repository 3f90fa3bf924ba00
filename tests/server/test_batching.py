"""Items that wait at the same time are worked on in one call, and each gets its own result."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from hashlearn.server.batching import Together
from hashlearn.server.telemetry import Metrics


class Recorded:
    """Doubles numbers; keeps what each call was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, kind, items):
        self.calls.append((kind, items))
        return [ValueError(f"{item} is odd") if item % 2 else 2 * item for item in items]


def results_of(work, items, n_threads=1, kind=lambda item: None):
    """What became of items that all arrive in one round of the event loop."""

    async def ask():
        with ThreadPoolExecutor(n_threads) as pool:
            together = Together(work, pool, n_threads, Metrics().searched_together)
            return await asyncio.gather(*(together.do(kind(item), item) for item in items), return_exceptions=True)

    return asyncio.run(ask())


def test_what_arrives_in_one_round_is_one_call_in_its_order():
    work = Recorded()
    assert results_of(work, range(0, 20, 2)) == list(range(0, 40, 4))
    assert work.calls == [(None, list(range(0, 20, 2)))]


def test_an_error_is_that_of_its_item_alone():
    four, error, twelve = results_of(Recorded(), [2, 3, 6])
    assert (four, str(error), twelve) == (4, "3 is odd", 12)


def test_kinds_are_worked_on_apart():
    work = Recorded()
    results_of(work, [0, 10, 2, 12], kind=lambda item: item >= 10)
    assert work.calls == [(False, [0, 2]), (True, [10, 12])]


def test_threads_share_what_waits():
    work = Recorded()
    results_of(work, range(0, 16, 2), n_threads=3)
    assert sorted(len(items) for _, items in work.calls) == [2, 3, 3]


def test_items_that_never_stop_arriving_do_not_delay_the_first_for_ever():
    """One more item in every round of the event loop."""
    started = threading.Event()

    def work(kind, items):
        started.set()
        return items

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            together = Together(work, pool, 1, Metrics().searched_together)
            asked = []
            while not started.is_set() and len(asked) < 100_000:
                asked.append(asyncio.create_task(together.do(None, len(asked))))
                await asyncio.sleep(0)
            started_meanwhile = started.is_set()
            await asyncio.gather(*asked)
            return started_meanwhile

    assert asyncio.run(ask())
