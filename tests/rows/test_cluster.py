"""On a cluster of real processes: the codes of this process, also when a worker or the client is lost."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hashlearn import ABH, AGH, ITQ, JPSH, unpack
from hashlearn.cli import main
from hashlearn.cli.support import partial_codes
from hashlearn.progress import reporting
from hashlearn.rows import RowBlocks, added, as_rows, cluster, fold, passes

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
cloudpickle = pytest.importorskip("cloudpickle")

# The functions of this file go to the workers as code: they cannot import it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# In double precision, and with principal directions of their own: sums in another order must not change a code.
X = np.random.default_rng(0).normal(size=(6000, 10)) * np.linspace(1, 3, 10)
X[:3000] += 2


@pytest.fixture(scope="module")
def cluster_of_two():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def client(cluster_of_two):
    """Two workers that answer, also after a test that killed one."""
    until = time.monotonic() + 60
    while len(cluster_of_two.run(os.getpid, on_error="ignore")) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    return cluster_of_two


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "ROWS_PER_TASK", 700)
    np.save(tmp_path / "a.npy", X[:2500])
    np.save(tmp_path / "b.npy", X[2500:])
    return [tmp_path / "a.npy", tmp_path / "b.npy"]


def agreement(left, right):
    return np.mean(unpack(left, 8) == unpack(right, 8))


def make(method):
    return method(n_bits=8, random_state=0, **({} if method in (ABH, ITQ) else {"n_anchors": 40}))


@pytest.mark.parametrize("method", [JPSH, AGH, ITQ, ABH])
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


def test_rows_found_finite_are_not_looked_at_again(files, monkeypatch):
    monkeypatch.setattr(cluster, "_current", lambda client: None)
    looked_at: list[int] = []
    monkeypatch.setattr("hashlearn.rows.blocks.check_finite", lambda block, first, *_: looked_at.append(len(block)))
    rows = cluster.on_cluster(files)
    for _ in range(3):
        fold(rows, lambda block, first: (block.sum(axis=0),), added)
    assert sum(looked_at) == len(X)


def test_a_killed_worker_costs_time_not_the_result(client, files):
    rows = cluster.on_cluster(files, client)
    run, rounds = rows.workers._run, []

    def run_and_kill(*args):
        rounds.append(1)
        results = run(*args)
        if len(rounds) == 4:  # in the middle of k-means
            yield next(results)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        yield from results

    rows.workers._run = run_and_kill
    hasher = make(JPSH).fit(rows)
    assert len(rounds) > 6
    assert agreement(hasher.transform(X), make(JPSH).fit(X).transform(X)) >= 0.9999


def test_codes_from_a_row_on(client, files):
    hasher = make(ITQ).fit(X)
    for rows in (cluster.on_cluster(files, client), da.from_array(X, chunks=(1000, 10))):
        parts = list(hasher.transform_blocks(rows, first=2600))
        assert parts[0][0].start == 2600
        np.testing.assert_array_equal(np.concatenate([codes for _, codes in parts]), hasher.transform(X)[2600:])


ENCODE = ("encode", "model", "a.npy", "b.npy", "-o", "codes.npy", "--cluster")


@pytest.fixture
def encode(client, files, monkeypatch, tmp_path, capsys):
    """Run the command in a folder with a model; returns what it says on stderr."""
    monkeypatch.chdir(tmp_path)
    make(ITQ).fit(X).save("model")

    def encode(code=0):
        with pytest.raises(SystemExit) as ended:
            main([*ENCODE, client.scheduler.address])
        error = capsys.readouterr().err
        assert ended.value.code == code, error
        return error

    return encode


def all_written(folder):
    np.testing.assert_array_equal(np.load(folder / "codes.npy"), make(ITQ).fit(X).transform(X))
    assert not [path for path in folder.iterdir() if "part" in path.name or "tmp" in path.name]


def test_the_command_line(client, encode, tmp_path):
    fit = "fit a.npy b.npy -m itq -b 8 -o model --cluster"
    with pytest.raises(SystemExit) as ended:
        main([*fit.split(), client.scheduler.address])
    assert ended.value.code == 0
    encode()
    assert agreement(np.load("codes.npy"), make(ITQ).fit(X).transform(X)) >= 0.9999


def test_the_workers_write_the_codes(client, encode, monkeypatch, tmp_path):
    """The client cannot write into the file, and what comes to it are ranges of rows."""
    monkeypatch.setattr(passes, "write_at", None)
    result, received = cluster._result, []
    monkeypatch.setattr(cluster, "_result", lambda future: received.append(result(future)) or received[-1])
    encode()
    all_written(tmp_path)
    assert {type(value) for ranges in received for pair in ranges for value in pair} == {int}
    assert sum(stop - start for ranges in received for start, stop in ranges) == len(X)


def test_progress_is_told_here(client, files, tmp_path):
    np.save(tmp_path / "codes.npy", np.zeros((6000, 1), np.uint8))
    hasher, told = make(ITQ).fit(X), []
    with reporting(lambda task, done, total: told.append((done, total))):
        list(hasher.transform_into(cluster.on_cluster(files, client), tmp_path / "codes.npy", first=2200))
    assert told == [(done, 6) for done in range(7)]  # of 300 rows to the end of a.npy, then five of 700


@pytest.mark.parametrize("with_client", [True, False])
def test_codes_of_a_dask_array_in_a_file(client, tmp_path, monkeypatch, with_client):
    if not with_client:
        monkeypatch.setattr(cluster, "_current", lambda client: None)
    codes = np.lib.format.open_memmap(tmp_path / "codes.npy", "w+", np.uint8, (6000, 1))
    hasher, data = make(ITQ).fit(X), da.from_array(X, chunks=(1000, 10))
    parts = list(hasher.transform_into(data, tmp_path / "codes.npy", first=2600))
    assert [(part.start, part.stop) for part in parts][:2] == [(2600, 3000), (3000, 4000)]
    np.testing.assert_array_equal(codes[2600:], hasher.transform(X)[2600:])
    assert not codes[:2600].any()


def test_an_encode_whose_client_is_killed_goes_on(client, encode, tmp_path):
    killed = (
        "import os; from hashlearn.cli import main; from hashlearn.cli.support import partial_codes;"
        "from hashlearn.rows import cluster;"
        "cluster.ROWS_PER_TASK = 700; partial_codes.SECONDS_BETWEEN_STATES = 0;"
        "wrote = partial_codes.PartialCodes.wrote;"
        "partial_codes.PartialCodes.wrote = lambda self, rows:"
        " (wrote(self, rows), os.kill(os.getpid(), 9) if self.done > 2000 else None);"
        f"main({[*ENCODE, client.scheduler.address]!r})"
    )
    sources = str(Path(cluster.__file__).parents[2])
    ended = subprocess.run([sys.executable, "-c", killed], env=os.environ | {"PYTHONPATH": sources})
    assert ended.returncode == -signal.SIGKILL

    # Finished codes are marked, so that one that is written again shows.
    marked = np.lib.format.open_memmap("codes.npy.part", "r+")
    marked[:2100] ^= 255
    marked.flush()
    state = json.loads(Path("codes.npy.part.json").read_text())
    state["codes_sha256"] = hashlib.sha256(marked[:2100].tobytes()).hexdigest()
    Path("codes.npy.part.json").write_text(json.dumps(state))
    assert "going on after 2100 of 6000 codes" in encode()
    codes = np.lib.format.open_memmap("codes.npy", "r+")
    codes[:2100] ^= 255
    all_written(tmp_path)


def test_an_encode_with_a_killed_worker(client, encode, monkeypatch, tmp_path):
    wrote, calls = partial_codes.PartialCodes.wrote, []

    def wrote_and_kill(self, rows):
        wrote(self, rows)
        if not calls:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        calls.append(rows)

    monkeypatch.setattr(partial_codes.PartialCodes, "wrote", wrote_and_kill)
    encode()
    assert len(calls) == 9
    all_written(tmp_path)


def limit_file_sizes(n_bytes):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.skipif(os.name == "nt", reason="no limits of file sizes there")
def test_a_disk_that_is_full_for_the_workers(client, encode, tmp_path):
    client.run(limit_file_sizes, 128 + 3000)
    try:
        error = encode(code=2)
    finally:
        client.run(limit_file_sizes, -1)
    assert error.splitlines() == [
        "hashlearn: error: codes.npy: File too large; 2500 of 6000 codes are kept in codes.npy.part, "
        "repeat the command to continue"
    ]
    assert "going on after 2500" in encode()
    all_written(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="no path that every process sees otherwise")
@pytest.mark.parametrize("same_name", [False, True])
def test_workers_that_do_not_see_the_folder(client, encode, monkeypatch, tmp_path, same_name):
    """They have none of that name, or one of their own, even with such a file in it."""
    folder = "out" if same_name else "nowhere"
    for name in (folder, "worker/out"):
        (tmp_path / name).mkdir(parents=True)
    np.save("worker/out/codes.npy", np.zeros((6000, 1), np.uint8))
    os.rename("worker/out/codes.npy", "worker/out/codes.npy.part")
    monkeypatch.setattr(partial_codes, "check_writable", lambda out: Path("/proc/self/cwd", folder, out))
    before = client.run(os.getcwd)
    client.run(os.chdir, tmp_path / "worker")
    try:
        error = encode(code=2)
    finally:
        for worker, home in before.items():
            client.run(os.chdir, home, workers=[worker])
    assert error.count("\n") == 1
    assert error.startswith("hashlearn: error: codes.npy: worker tcp://")
    assert f" does not see the folder /proc/self/cwd/{folder}, where the workers write the codes" in error
    assert not list((tmp_path / folder).iterdir())
    assert not np.load("worker/out/codes.npy.part").any()


def test_a_task_that_outlives_its_client_leaves_the_next_file_alone(tmp_path):
    path = tmp_path / "codes.npy"
    np.save(path, np.zeros((6000, 1), np.uint8))

    def rows():
        path.unlink()
        np.save(path, np.zeros((6000, 1), np.uint8))
        return RowBlocks(X)

    def ones(block, first):
        return np.ones((len(block), 1), np.uint8)

    assert cluster._write_part(rows, ones, str(path), 128) == [(0, 6000)]
    assert not np.load(path).any()


def test_a_file_that_is_not_for_these_codes(tmp_path):
    np.save(tmp_path / "codes.npy", np.zeros((6000, 2), np.uint8))
    with pytest.raises(ValueError, match=r"must hold an array of uint8 of shape \(6000, 1\), got uint8 of \(6000, 2\)"):
        make(ITQ).fit(X).transform_into(X, tmp_path / "codes.npy")


def test_a_cluster_that_gives_up_is_one_line():
    class Lost:
        def result(self):
            raise distributed.KilledWorker("task", type("Worker", (), {"address": "tcp://10.0.0.1:1"}), 3)

    with pytest.raises(OSError, match=r"the cluster has given up: .* tcp://10.0.0.1:1"):
        cluster._result(Lost())


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


def hide_the_package():
    sys.hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "hashlearn"}
    sys.modules.update(dict.fromkeys(sys.hidden))  # which is how Python is told that there is none


def show_the_package():
    sys.modules.update(sys.hidden)


@pytest.mark.parametrize(("error", "tries"), [(ValueError, 1), (OSError, 1 + cluster.RETRIES)])
def test_only_what_may_be_better_the_next_time_is_tried_again(client, files, tmp_path, error, tries):
    log = tmp_path / "log"

    def fails(block, first):
        with open(log, "a") as file:
            file.write(".")
        raise error("no")

    with pytest.raises(error, match="no"):
        fold(cluster.on_cluster(files[:1], client).since(2100), fails, added)
    assert log.read_text() == tries * "."


def test_workers_without_the_package(client, encode):
    client.run(cluster._version)  # which imports it
    client.run(hide_the_package)
    try:
        error = encode(code=2)
    finally:
        client.run(show_the_package)
    assert error.count("\n") == 1
    assert error.startswith("hashlearn: error: a worker of the cluster has no hashlearn; pip install")


def test_workers_with_another_version():
    class Old:
        def run(self, function):
            return {"tcp://10.0.0.1:1": "0.0.1"}

    with pytest.raises(ImportError, match=r"tcp://10.0.0.1:1 has hashlearn 0.0.1"):
        cluster._check_workers(Old())


def test_the_extra_is_named_where_it_is_missing(files, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dask", None)
    with pytest.raises(ImportError, match=r"hashlearn\[dask\]"):
        cluster.on_cluster(files)
