"""What waits at the same time is done together, quick work where requests are read, the rest on a thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry, Histogram

from hashlearn.server.together import Costs, Together, Waiting


def run(work, items, in_memory=None, seconds_known=None):
    """The results of items of the kind "a" that arrive at the same time."""

    async def all_of_them():
        with ThreadPoolExecutor(1) as pool:
            sizes = Histogram("sizes", "Items.", registry=CollectorRegistry())
            together = Together(work, pool, 1, sizes, in_memory, quick_seconds=1.0)
            if seconds_known is not None:
                together.costs.record("a", 1, seconds_known)
            return await asyncio.gather(*(together.do("a", item) for item in items), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_what_waits_is_done_in_one_call_and_in_order():
    calls = []

    def work(kind, items):
        calls.append(list(items))
        return [10 * item for item in items]

    assert run(work, range(5)) == [0, 10, 20, 30, 40]
    assert calls == [[0, 1, 2, 3, 4]]


def test_unknown_and_slow_work_is_done_on_a_thread_and_quick_work_is_not():
    def on_main(kind, items):
        return [threading.current_thread() is threading.main_thread()] * len(items)

    assert run(on_main, range(3), lambda kind: True) == [False] * 3
    assert run(on_main, range(3), lambda kind: True, seconds_known=2.0) == [False] * 3
    assert run(on_main, range(3), lambda kind: True, seconds_known=0.01) == [True] * 3
    assert run(on_main, range(3), lambda kind: False, seconds_known=0.01) == [False] * 3


def test_a_call_that_raises_fails_its_items_and_no_others():
    def work(kind, items):
        if items[0] == 0:
            raise RuntimeError("broken")
        return items

    first, second = run(work, [0, 1], lambda kind: True, seconds_known=0.9)  # one at a time is quick
    assert isinstance(first, RuntimeError)
    assert second == 1


def test_a_slow_call_counts_at_once_and_is_forgotten_slowly():
    costs = Costs(0.002)
    queue = [Waiting(None, 1, None)] * 8
    costs.record("a", 1, 0.001)
    assert costs.n_quick("a", queue) == 3  # calls of two and three count as twice one
    costs.record("a", 4, 0.001)
    assert costs.n_quick("a", queue) == 8
    costs.record("a", 1, 1.0)
    assert costs.n_quick("a", queue) == 0
    n_calls = 0
    while not costs.n_quick("a", queue):
        costs.record("a", 1, 0.001)
        n_calls += 1
    assert 5 < n_calls < 50


def test_clients_cannot_fill_the_memory_with_kinds():
    costs = Costs(0.002)
    for kind in range(10_000):
        costs.record(kind, 1, 0.001)
    assert len(costs.of_calls) <= 256
