"""The choice between the scan and the tables: what it costs, never what it returns."""

import sys
import threading

import numpy as np
import pytest

from hashlearn.codes import as_words
from hashlearn.index import HammingIndex, choose, cost_model
from hashlearn.index.cost_model import CostModel
from hashlearn.index.kernels.probe import Budget, Costs, Report


def clustered(n, n_bits, seed, noise=0.02):
    rng = np.random.default_rng(seed)
    centers = rng.random((n // 20, n_bits)) < 0.5
    return np.packbits(centers[rng.integers(0, len(centers), n)] ^ (rng.random((n, n_bits)) < noise), axis=1)


@pytest.fixture
def cheap_tables(monkeypatch):
    """As if building tables cost nothing and looking into them little, as it is for many codes."""
    monkeypatch.setattr(cost_model, "BUILD_PER_CODE", 0.001)
    monkeypatch.setattr(cost_model, "FEWEST_BYTES", 0)
    cheap = Costs(level=1.0, probe=0.01, bucket=0.1, candidate=0.1)
    monkeypatch.setattr(cost_model, "PROBING", cheap)
    monkeypatch.setattr(choose, "PROBING", cheap)


@pytest.mark.usefixtures("cheap_tables")
def test_auto_goes_over_to_tables_on_clustered_codes_and_returns_the_same():
    codes = clustered(20_000, 64, seed=0)
    index = HammingIndex(64).add(codes[1000:])
    flat = index.search(codes[:1000], 5, method="flat")
    assert index.view.engines[0].tables is None
    found = index.search(codes[:1000], 5)
    assert index.view.engines[0].tables is not None
    np.testing.assert_array_equal(found.ids, flat.ids)
    ranges = [index.within(codes[:700], 4, method=method) for method in ("flat", "auto", "auto")]
    for result in ranges[1:]:
        np.testing.assert_array_equal(result.ids, ranges[0].ids)
        np.testing.assert_array_equal(result.offsets, ranges[0].offsets)


@pytest.mark.usefixtures("cheap_tables")
def test_auto_does_not_build_tables_that_random_codes_would_not_use():
    codes = np.random.default_rng(0).integers(0, 256, (20_000, 16), dtype=np.uint8)
    index = HammingIndex(128).add(codes)
    for _ in range(3):
        index.search(codes[:600] ^ 15, 10)
    assert index.view.engines[0].tables is None


@pytest.mark.usefixtures("cheap_tables")
def test_tables_are_prepared_where_they_pay():
    codes = clustered(20_000, 64, seed=0)
    index = HammingIndex(64).add(codes).prepare(k=5)
    assert index.view.engines[0].tables is not None
    flat = index.search(codes[:100], 5, method="flat")
    np.testing.assert_array_equal(index.search(codes[:100], 5).ids, flat.ids)


def test_tables_are_not_prepared_for_random_codes_or_none():
    codes = np.random.default_rng(0).integers(0, 256, (100_000, 16), dtype=np.uint8)
    index = HammingIndex(128).add(codes)
    assert index.view.engines[0].model.worth_choosing
    assert index.prepare().view.engines[0].tables is None
    assert len(HammingIndex(64).prepare()) == 0


def test_tables_pay_sooner_for_queries_that_come_alone():
    rng = np.random.default_rng(0)
    sample = rng.integers(0, 2**64, (2048, 1), dtype=np.uint64)
    queries, distances = rng.integers(0, 256, (512, 8), dtype=np.uint8), np.full(512, 11)
    alone, together = CostModel(64, 1_000_000), CostModel(64, 1_000_000)
    alone.foresee(queries, distances)
    together.record_scan(("knn", 4), queries, distances)
    assert alone.tables_would_pay(sample)
    assert not together.tables_would_pay(sample)


def test_a_query_may_cost_more_where_few_are_given_up():
    model, kind = CostModel(64, 1_000_000), ("knn", 4)
    before = model.budget(kind, 8)
    for _ in range(50):
        model.record_probing(kind, 8, Report(np.ones(8, np.bool_), np.full(8, 10.0)))
    assert model.scanning(8) == before < model.budget(kind, 8) == model.scanning(1)


def test_auto_does_not_weigh_a_scan_that_is_over_sooner(monkeypatch):
    monkeypatch.setattr(cost_model, "BUILD_PER_CODE", 0.0)
    codes = clustered(20_000, 64, seed=0)
    index = HammingIndex(64).add(codes)
    for _ in range(3):
        index.search(codes[:600], 5)
    assert index.view.engines[0].tables is None


@pytest.mark.parametrize("method", ["auto", "multi-index"])
def test_a_query_given_up_in_the_middle_is_answered_by_a_scan(method, monkeypatch):
    monkeypatch.setattr(cost_model, "FEWEST_BYTES", 0)
    codes = clustered(10_000, 64, seed=0)
    index = HammingIndex(64).add(codes[500:])
    index.view.engines[0].build(1)
    tables, model, costs = index.view.engines[0].tables, index.view.engines[0].model, cost_model.PROBING
    budget = float(np.median(tables.knn(as_words(codes[:500]), 7, Budget(np.inf, costs))[1].spent))
    monkeypatch.setattr(choose, "_PATIENCE", budget / model.scanning(1))
    monkeypatch.setattr(model, "budget", lambda kind, n_queries: budget)
    answered = tables.knn(as_words(codes[:500]), 7, Budget(budget, costs))[1].answered
    assert 0 < answered.sum() < 500
    found, flat = (index.search(codes[:500], 7, method=m) for m in (method, "flat"))
    np.testing.assert_array_equal(found.ids, flat.ids)
    found, flat = (index.within(codes[:500], 5, method=m) for m in (method, "flat"))
    np.testing.assert_array_equal(found.ids, flat.ids)


def test_trying_tables_in_vain_costs_little_more_than_scanning():
    model, kind, rng = CostModel(64, 1_000_000), ("knn", 4), np.random.default_rng(0)
    scans = probes = 0.0
    for _ in range(300):
        n_queries = int(rng.integers(1, 600))
        scan, tried = model.scanning(n_queries), model.queries_to_try(kind, n_queries)
        wasted = np.full(tried, model.budget(kind, n_queries))
        model.record_probing(kind, n_queries, Report(np.zeros(tried, np.bool_), wasted))
        probes += wasted.sum()
        left = np.zeros((n_queries - tried, 1), np.uint64)
        if len(left):
            model.record_scan(kind, left, np.full(len(left), 15))
        scans += n_queries * scan
    assert 0 < probes < 0.15 * scans


def test_tables_that_pay_are_soon_tried_for_all_queries():
    model, kind = CostModel(64, 1_000_000), ("knn", 4)
    done = rounds = 0
    while done < 10_000:
        tried = model.queries_to_try(kind, 10_000 - done)
        model.record_probing(kind, 10_000 - done, Report(np.ones(tried, np.bool_), np.full(tried, 10.0)))
        done += tried
        rounds += 1
    assert rounds < 40


def test_the_estimate_before_building_is_near_what_the_tables_then_cost():
    codes = clustered(50_000, 64, seed=0)
    index = HammingIndex(64).add(codes[100:])
    model, tables = index.view.engines[0].model, index.view.engines[0].build(1)
    distances = index.search(codes[:100], 10, method="flat").distances[:, -1]
    sample = as_words(codes[100::25])
    estimated = np.array([model.probing(q, int(d), sample) for q, d in zip(as_words(codes[:100]), distances)])
    spent = tables.knn(as_words(codes[:100]), 10, Budget(1e12, cost_model.PROBING))[1].spent
    assert 0.5 < np.median(estimated / spent) < 2


def test_it_is_asked_while_others_record():
    """What was seen of queries is looked at while other threads add to it."""
    model, sample = CostModel(64, 100_000), as_words(clustered(400, 64, 1))
    queries, distances = clustered(200, 64, 0), np.full(200, 3)
    is_over = threading.Event()

    def record():
        while not is_over.is_set():
            model.record_scan(("search", 1), queries, distances)
            model._next_sample = 0.0

    writers = [threading.Thread(target=record) for _ in range(2)]
    for writer in writers:
        writer.start()
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert all(isinstance(model.tables_would_pay(sample), bool) for _ in range(30))
    finally:
        sys.setswitchinterval(switching)
        is_over.set()
        for writer in writers:
            writer.join()
