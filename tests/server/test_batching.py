"""Items that wait at the same time are worked on in one call, and each gets its own result."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from hashlearn.server import batching
from hashlearn.server.batching import Batcher
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
            batcher = Batcher(work, pool, n_threads, Metrics().searched_together)
            return await asyncio.gather(*(batcher.submit(kind(item), item) for item in items), return_exceptions=True)

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
            batcher = Batcher(work, pool, 1, Metrics().searched_together)
            asked = []
            while not started.is_set() and len(asked) < 100_000:
                asked.append(asyncio.create_task(batcher.submit(None, len(asked))))
                await asyncio.sleep(0)
            started_meanwhile = started.is_set()
            await asyncio.gather(*asked)
            return started_meanwhile

    assert asyncio.run(ask())


def given_up(keeps_late, n_items=1):
    """What becomes of items whose requests are given up while the only thread works on the first."""
    begun, go, worked = threading.Event(), threading.Event(), []

    def work(kind, items):
        begun.set()
        go.wait(30)
        worked.extend(items)
        return [10 * item for item in items]

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, 1, Metrics().searched_together, keeps_late=keeps_late)
            tasks = [asyncio.create_task(batcher.submit(0, 1))]
            await asyncio.to_thread(begun.wait, 30)
            tasks += [asyncio.create_task(batcher.submit(0, item)) for item in range(2, 1 + n_items)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.05)
            is_ended = [task.done() for task in tasks]
            go.set()
            return is_ended, await asyncio.gather(*tasks, return_exceptions=True)

    return *asyncio.run(ask()), worked


def test_a_request_that_is_given_up_ends_when_its_work_has_ended():
    is_ended, (result,), worked = given_up(keeps_late=False)
    assert is_ended == [False]
    assert isinstance(result, asyncio.CancelledError)
    assert worked == [1]


def test_the_result_of_a_write_is_its_answer_however_late():
    is_ended, results, worked = given_up(keeps_late=True)
    assert (is_ended, results, worked) == ([False], [10], [1])


def test_what_no_thread_has_begun_with_is_not_done():
    is_ended, results, worked = given_up(keeps_late=True, n_items=3)
    assert is_ended == [False, True, True]
    assert results[0] == 10
    assert all(isinstance(result, asyncio.CancelledError) for result in results[1:])
    assert worked == [1]


@pytest.mark.parametrize(("may_be_short", "seconds"), [(True, 0), (True, 0.01), (False, 0)])
def test_short_work_needs_no_thread_once_it_is_known_to_be_short(may_be_short, seconds, monkeypatch):
    threads, clock = [], [0.0]
    monkeypatch.setattr(batching, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def work(kind, items):
        threads.append(threading.get_ident())
        clock[0] += seconds
        return items

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, 1, Metrics().searched_together, may_be_short=may_be_short)
            return [await batcher.submit(None, number) for number in range(3)]

    assert asyncio.run(ask()) == [0, 1, 2]
    is_here = [thread == threading.get_ident() for thread in threads]
    assert is_here == [False, *[may_be_short and not seconds] * 2]
