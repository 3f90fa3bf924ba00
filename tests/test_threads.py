"""One place decides how many threads; what a call does to BLAS ends with the call."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hashlearn import ITQ, threads
from hashlearn.rows import RowBlocks, blocks, fold, map_blocks
from hashlearn.threads import check_n_jobs, n_threads, one_blas_thread

THREADS = 3
X = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)


def blas_threads():
    """Threads of the BLAS that numpy and scipy use; another test may have loaded another library's."""
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in blas if "faiss" not in library["filepath"]}


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    """As on a machine with three cores, whatever this one has; and every test leaves BLAS as it was."""
    monkeypatch.setattr(threads, "cores", lambda: THREADS)
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)  # blocks of 256 rows
    with threadpool_limits(THREADS, user_api="blas"):
        yield
        gc.collect()
        assert blas_threads() == {THREADS}


class TestHowMany:
    def test_cores_or_what_blas_is_allowed(self, monkeypatch):
        assert n_threads() == THREADS
        with threadpool_limits(2, user_api="blas"):
            assert n_threads() == 2
        monkeypatch.setattr(threads, "cores", lambda: 1)
        assert n_threads() == 1

    def test_a_pass_beside_this_one_does_not_make_them_fewer(self):
        with one_blas_thread():
            assert n_threads() == THREADS

    def test_n_jobs_counts_the_same(self):
        assert [check_n_jobs(n) for n in (None, 1, 7, -1, -2, -9)] == [1, 1, 7, THREADS, THREADS - 1, 1]
        with pytest.raises(ValueError, match="n_jobs must not be 0"):
            check_n_jobs(0)

    @pytest.mark.parametrize(("setting", "wanted"), [("2", 2), ("2,4", 2), ("", THREADS), ("many", THREADS)])
    def test_without_a_library_to_ask(self, monkeypatch, setting, wanted):
        monkeypatch.setattr(threads, "_libraries", list)
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
        assert n_threads() == wanted

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot be limited there")
    @pytest.mark.parametrize(
        ("first", "environment"),
        [("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", {}), ("", {"OMP_NUM_THREADS": "1"})],
    )
    def test_a_process_that_may_use_one_core(self, first, environment):
        script = f"import os\n{first}\nfrom hashlearn.threads import n_threads\nprint(n_threads())"
        limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        clean = {name: value for name, value in os.environ.items() if name not in limits} | environment
        sources = os.path.dirname(os.path.dirname(threads.__file__))
        found = subprocess.run(
            [sys.executable, "-c", script], env=clean | {"PYTHONPATH": sources}, capture_output=True, text=True
        )
        assert found.stdout.strip() == "1", found.stderr


class TestOneThread:
    def test_the_last_one_puts_it_back(self):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {THREADS}

    def test_within_itself_and_after_an_error(self):
        with pytest.raises(ZeroDivisionError), one_blas_thread(), one_blas_thread():
            raise ZeroDivisionError
        assert blas_threads() == {THREADS}

    def test_a_block_that_never_began(self):
        """An interrupt after the entry: nobody will call the exit."""
        one_blas_thread().__enter__()
        gc.collect()
        assert blas_threads() == {THREADS}

    @pytest.mark.parametrize("step", range(4))
    def test_an_interrupt_while_it_is_set(self, monkeypatch, step):
        """Whichever of its steps is the last, the next block puts the setting back."""
        (library, *_) = threads._libraries()
        calls = []

        def interrupted(n, set_num_threads=library.set_num_threads):
            calls.append(n)
            if len(calls) - 1 == step:
                raise KeyboardInterrupt
            set_num_threads(n)

        monkeypatch.setattr(library, "set_num_threads", interrupted)
        for _ in range(3):
            try:
                with one_blas_thread():
                    pass
            except KeyboardInterrupt:
                pass
        assert blas_threads() == {THREADS}

    def test_what_somebody_else_has_set_meanwhile_stays(self):
        with one_blas_thread():
            limits = threadpool_limits(2, user_api="blas")
        assert blas_threads() == {2}
        limits.restore_original_limits()  # to 1, which is what it found
        threadpool_limits(THREADS, user_api="blas")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_process_does_not_inherit_it(self):
        with one_blas_thread():
            child = os.fork()
            if child == 0:
                os._exit(blas_threads() != {THREADS})
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_many_threads(self):
        inside = threading.Barrier(8)

        def work(number):
            for _ in range(50):
                with one_blas_thread():
                    assert blas_threads() == {1}
            inside.wait()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert blas_threads() == {THREADS}


def count(block, first):
    return blas_threads() | {float(block.shape[0])}


class TestPasses:
    def test_blas_has_one_thread_in_the_pass_and_its_own_number_between(self):
        seen = []
        for _, inside in map_blocks(RowBlocks(X), count):
            assert 1 in inside
            seen.append(blas_threads())
        assert seen == [{THREADS}] * RowBlocks(X).n_blocks
        assert 1 in fold(RowBlocks(X), count, set.union)

    def test_results_do_not_depend_on_the_threads(self):
        hasher = ITQ(n_bits=4, random_state=0).fit(X)
        scores = hasher.decision_function(X[:200])  # a single block
        all_codes = hasher.transform(X)
        with threadpool_limits(1, user_api="blas"):
            np.testing.assert_array_equal(hasher.decision_function(X[:200]), scores)
            np.testing.assert_array_equal(hasher.transform(X), all_codes)

    def test_overlapping_generators(self):
        hasher = ITQ(n_bits=4, random_state=0).fit(X)
        first, second = hasher.transform_blocks(X), hasher.transform_blocks(X)
        next(first)
        next(second)
        assert blas_threads() == {THREADS}
        for _ in first:
            assert blas_threads() == {THREADS}
        assert blas_threads() == {THREADS}
        next(second)
        hasher.transform(X)
        assert blas_threads() == {THREADS}
        for _ in second:
            assert blas_threads() == {THREADS}

    def test_abandoned_generators(self):
        waiting = [ITQ(n_bits=4, random_state=0).fit(X).transform_blocks(X) for _ in range(3)]
        for generator in waiting:
            next(generator)
        waiting[0].close()
        del waiting[1]
        gc.collect()
        assert blas_threads() == {THREADS}

    def test_a_limit_of_the_callers_own_in_the_loop(self):
        for _ in map_blocks(RowBlocks(X), count):
            with threadpool_limits(2, user_api="blas"):
                assert blas_threads() == {2}
            assert blas_threads() == {THREADS}

    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
    def test_errors(self, error):
        def failing(block, first):
            if first == 2560:
                raise error
            return block.sum()

        for run in (lambda: list(map_blocks(RowBlocks(X), failing)), lambda: fold(RowBlocks(X), failing, max)):
            with pytest.raises(error):
                run()
            assert blas_threads() == {THREADS}

    def test_passes_on_several_threads(self):
        def passes(seed):
            part = X[np.random.default_rng(seed).integers(0, len(X), 4000)]
            total = fold(RowBlocks(part), lambda block, first: block.sum(axis=0, dtype=np.float64), np.add)
            parts = [block for _, block in map_blocks(RowBlocks(part), lambda block, first: block.copy())]
            np.testing.assert_allclose(total, part.sum(axis=0, dtype=np.float64))
            np.testing.assert_array_equal(np.concatenate(parts), part)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(passes, range(30)))
        assert blas_threads() == {THREADS}
