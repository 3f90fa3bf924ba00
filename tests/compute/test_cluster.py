"""On a cluster of real processes: the codes of this process, also when a worker is lost."""

import os
import signal

import numpy as np
import pytest

from hashlearn import AGH, ITQ, JPSH, unpack
from hashlearn.cli import main
from hashlearn.compute import as_rows, cluster

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

X = np.random.default_rng(0).normal(size=(6000, 10)).astype(np.float32)
X *= np.linspace(1, 3, 10, dtype=np.float32)  # principal directions that rounding does not turn
X[:3000] += 2


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "ROWS_PER_TASK", 700)
    np.save(tmp_path / "a.npy", X[:2500])
    np.save(tmp_path / "b.npy", X[2500:])
    return [tmp_path / "a.npy", tmp_path / "b.npy"]


def agreement(left, right):
    return np.mean(unpack(left, 8) == unpack(right, 8))


def make(method):
    return method(n_bits=8, random_state=0, **({} if method is ITQ else {"n_anchors": 40}))


@pytest.mark.parametrize("method", [JPSH, AGH, ITQ])
def test_files_on_a_cluster_give_the_codes_of_memory(client, files, method):
    rows = cluster.on_cluster(files, client)
    codes = make(method).fit(rows).transform(rows)
    assert agreement(codes, make(method).fit(X).transform(X)) >= 0.9999


@pytest.mark.parametrize("chunks", [(1000, 10), (1700, 4)])
def test_a_dask_array_gives_the_codes_of_memory(client, chunks):
    data = da.from_array(X, chunks=chunks)
    codes = make(JPSH).fit(data).transform(data)
    assert agreement(codes, make(JPSH).fit(X).transform(X)) >= 0.9999


def test_without_a_cluster_a_dask_array_is_read_here(monkeypatch):
    monkeypatch.setattr(cluster, "_current", lambda client: None)
    data = da.from_array(X, chunks=(1000, 10))
    unknown = data[data[:, 0] > 0]
    assert as_rows(unknown).shape == ((X[:, 0] > 0).sum(), 10)
    hasher = make(JPSH).fit(data)
    assert agreement(hasher.transform(data), make(JPSH).fit(X).transform(X)) >= 0.9999
    np.testing.assert_array_equal(as_rows(data).take(np.array([5999, 3])), X[[5999, 3]])


def test_a_killed_worker_costs_time_not_the_result(client, files):
    rows = cluster.on_cluster(files, client)
    run, rounds = rows.source._run, []

    def run_and_kill(*args):
        rounds.append(1)
        results = run(*args)
        if len(rounds) == 4:  # in the middle of k-means
            yield next(results)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        yield from results

    rows.source._run = run_and_kill
    hasher = make(JPSH).fit(rows)
    assert len(rounds) > 6
    assert agreement(hasher.transform(X), make(JPSH).fit(X).transform(X)) >= 0.9999


def test_codes_from_a_row_on(client, files):
    hasher = make(ITQ).fit(X)
    for rows in (cluster.on_cluster(files, client), da.from_array(X, chunks=(1000, 10))):
        parts = list(hasher.transform_blocks(rows, first=2600))
        assert parts[0][0].start == 2600
        np.testing.assert_array_equal(np.concatenate([codes for _, codes in parts]), hasher.transform(X)[2600:])


def test_the_command_line(client, files, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    address = client.scheduler.address
    for command in ("fit a.npy b.npy -m itq -b 8 -o model", "encode model a.npy b.npy -o codes.npy"):
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), "--cluster", address])
        assert ended.value.code == 0
    assert agreement(np.load("codes.npy"), make(ITQ).fit(X).transform(X)) >= 0.9999


def test_no_cluster_at_the_address(files, monkeypatch, capsys):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(files[0]), "-o", "model", "--cluster", "tcp://127.0.0.1:9"])
    assert ended.value.code == 2
    assert "error: no cluster answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_the_row_that_is_not_finite_is_named(client, tmp_path):
    bad = X.copy()
    bad[5200, 1] = np.nan
    with pytest.raises(ValueError, match="row 5200 has NaN"):
        make(JPSH).fit(da.from_array(bad, chunks=(1000, 10)))


def test_workers_without_the_package_or_with_another_version():
    class Bare:
        def run(self, function):
            raise ModuleNotFoundError("No module named 'hashlearn'")

    class Old:
        def run(self, function):
            return {"tcp://10.0.0.1:1": "0.0.1"}

    with pytest.raises(ImportError, match="a worker of the cluster has no hashlearn; pip install"):
        cluster._check_workers(Bare())
    with pytest.raises(ImportError, match=r"tcp://10.0.0.1:1 has hashlearn 0.0.1"):
        cluster._check_workers(Old())


def test_the_extra_is_named_where_it_is_missing(files, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dask", None)
    with pytest.raises(ImportError, match=r"hashlearn\[dask\]"):
        cluster.on_cluster(files)
