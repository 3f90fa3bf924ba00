"""Encoding a block at a time: several files, interruptions, full disks, and going on afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from forked import ForkedPython, run_forked

import hashlearn
from hashlearn import ITQ, LSH
from hashlearn.cli.support import code_files, partial_codes
from hashlearn.cli.support.code_files import read_codes
from hashlearn.hashers import base
from hashlearn.rows import blocks, passes

SOURCES = Path(hashlearn.__file__).parents[1]
ENCODE = ("encode", "model", "large.npy", "-o", "codes.npy")


@pytest.fixture
def large(folder, monkeypatch):
    """Vectors of four blocks, and their codes."""
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)  # blocks of 256 rows
    X = np.random.RandomState(1).randn(1000, 12)
    np.save("large.npy", X)
    return hashlearn.load("model").transform(X)


def interrupt_after(monkeypatch, n_blocks, error):
    """Make the encoding of each block after the first ``n_blocks`` raise the error."""
    encode, count = base.codes_of_block, [0]

    def failing(block, first, scorer):
        count[0] += 1
        if first >= n_blocks * len(block):
            raise error
        return encode(block, first, scorer)

    monkeypatch.setattr(base, "codes_of_block", failing)
    return count


def whole(folder, codes):
    np.testing.assert_array_equal(np.load("codes.npy"), codes)
    np.testing.assert_array_equal(read_codes("codes.npy").codes, codes)  # by the checksum of the sidecar
    assert not list(folder.glob("*.part*"))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_an_interrupted_encode_goes_on_where_it_was(run, folder, large, monkeypatch, error):
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2, error)
        assert run(*ENCODE).code in (130, 2)
    assert not (folder / "codes.npy").exists()
    state = json.loads((folder / "codes.npy.part.json").read_text())
    assert 0 < state["done"] < 1000
    assert state["done"] % 256 == 0

    count = interrupt_after(monkeypatch, 100, None)
    outcome = run(*ENCODE)
    assert outcome.code == 0
    assert f"going on after {state['done']} of 1000 codes" in outcome.err
    assert count[0] == 4 - state["done"] // 256
    whole(folder, large)
    run("encode", "model", "queries.npy", "-o", "q.npy")
    assert (
        run("evaluate", "codes.npy", "q.npy", "--labels", "y.npy", "--query-labels", "yq.npy").code == 2
    )  # 1000 != 150


def test_the_checksum_of_resumed_codes_fits(run, folder, large, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2, KeyboardInterrupt())
        run(*ENCODE)
    run(*ENCODE)
    assert run("near-duplicates", "codes.npy", "--radius", 0).code == 0


@pytest.mark.parametrize("change", ["vectors", "model", "state", "part"])
def test_another_job_begins_anew(run, folder, large, monkeypatch, change):
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2, KeyboardInterrupt())
        run(*ENCODE)
    os.link("codes.npy.part", "old")
    X = np.load("large.npy")
    if change == "vectors":
        X = X[::-1].copy()
        np.save("large.npy", X)
    elif change == "model":
        ITQ(n_bits=12, random_state=5).fit(X).save("model")
    elif change == "state":
        (folder / "codes.npy.part.json").write_text("{")
    else:
        (folder / "codes.npy.part").write_bytes(b"short")
    outcome = run(*ENCODE)
    assert outcome.code == 0
    assert "going on" not in outcome.err
    whole(folder, hashlearn.load("model").transform(X))
    assert not os.path.samefile("old", "codes.npy")  # a worker may still be writing codes of the other job to it


def test_a_state_does_not_vouch_for_the_codes_of_the_next_job(run, folder, large, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2, KeyboardInterrupt())
        run(*ENCODE)
    partial_codes.PartialCodes("codes.npy", 1000, 2, {"model": "another"}).begin()  # and it is killed
    assert run(*ENCODE).err == ""
    whole(folder, large)


def test_bad_input_in_the_middle_leaves_nothing(refused, folder, large):
    X = np.load("large.npy")
    X[700, 3] = np.nan
    np.save("bad.npy", X)
    assert "row 700 has NaN" in refused("encode", "model", "bad.npy", "-o", "codes.npy")


def test_a_disk_that_fills_up(run, folder, large, monkeypatch):
    """The first codes fit, the rest does not; neither does the state, until codes have been given up for it."""
    monkeypatch.setattr(partial_codes, "RESERVE", 100)
    write, save, free = passes.write_at, partial_codes.PartialCodes._save_state, [1300 - 128]

    def on_a_small_disk(file, position, content):
        if content.nbytes > free[0]:
            write(file, position, bytes(content)[: free[0]])
            raise OSError(28, "No space left on device")
        free[0] -= content.nbytes
        write(file, position, content)

    def on_a_full_disk(self):
        if self.done * 2 + len(self.header) > 1100:
            raise OSError(28, "No space left on device")
        save(self)

    with monkeypatch.context() as patched:
        patched.setattr(passes, "write_at", on_a_small_disk)
        patched.setattr(partial_codes.PartialCodes, "_save_state", on_a_full_disk)
        outcome = run(*ENCODE)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "codes.npy: No space left on device; 461 of 1000 codes are kept in codes.npy.part" in outcome.err
    assert not (folder / "codes.npy").exists()
    assert "going on after 461" in run(*ENCODE).err
    whole(folder, large)


def encode_with_a_limit(where):
    """The error of a process that sets a limit to the size of files and encodes; ``{}`` is where it does so."""
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))"
    limited = (
        "import resource; from hashlearn.cli import main; from hashlearn.cli.support import partial_codes;"
        "from hashlearn.rows import blocks;"
        "blocks.BLOCK_ELEMENTS = 1; begin = partial_codes.PartialCodes.begin;"
        f"{where.format(limit)}; main({list(ENCODE)!r})"
    )
    env = os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}
    failed = run_forked([sys.executable, "-c", limited], stderr=subprocess.PIPE, text=True, env=env)
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1
    return failed.stderr


@pytest.mark.skipif(os.name == "nt", reason="no limits of file sizes there")
def test_a_file_the_operating_system_refuses(folder, large):
    assert "codes.npy.part: File too large" in encode_with_a_limit("{}")
    assert not list(folder.glob("codes*"))


@pytest.mark.skipif(os.name == "nt", reason="no limits of file sizes there")
def test_a_file_whose_end_the_operating_system_refuses(folder, large, run):
    failed = encode_with_a_limit("partial_codes.PartialCodes.begin = lambda self: (begin(self), {})[0]")
    assert "codes.npy: File too large; 512 of 1000 codes are kept" in failed
    assert "going on after 512" in run(*ENCODE).err
    whole(folder, large)


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")
def test_a_killed_process_leaves_a_state_to_go_on_from(folder, large, run):
    slow = (
        "import time; from hashlearn.rows import blocks; blocks.BLOCK_ELEMENTS = 1;"
        "from hashlearn.cli import main; from hashlearn.cli.support import partial_codes;"
        "partial_codes.SECONDS_BETWEEN_STATES = 0;"
        "from hashlearn.hashers import base; encode = base.codes_of_block;"
        "base.codes_of_block = lambda *args, **more: (time.sleep(0.3), encode(*args, **more))[1];"
        f"main({list(ENCODE)!r})"
    )
    with ForkedPython([sys.executable, "-c", slow], env=os.environ | {"PYTHONPATH": str(SOURCES)}) as process:
        until = time.monotonic() + 60
        while not (folder / "codes.npy.part.json").exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    (folder / ".codes.npy.part.json.1-0.hashlearn-tmp").touch()  # what is left of a kill while the state is written
    assert not (folder / "codes.npy").exists()
    outcome = run(*ENCODE)
    assert outcome.code == 0
    assert "going on after" in outcome.err
    whole(folder, large)


def test_several_files_are_one(run, folder):
    X = np.load("vectors.npy")
    np.save("a.npy", X[:70])
    np.savez("b.npz", X=X[70:])
    assert run("fit", "a.npy", "b.npz", "-m", "itq", "-b", 8, "-o", "new").code == 0
    assert run("encode", "new", "a.npy", "b.npz", "-o", "codes.npy").code == 0
    np.testing.assert_array_equal(np.load("codes.npy"), ITQ(n_bits=8, random_state=0).fit(X).transform(X))


def test_files_that_are_not_one(refused, folder):
    np.save("narrow.npy", np.zeros((5, 3)))
    np.save("none.npy", np.zeros((0, 12)))
    (folder / "empty.npy").touch()
    for name, line in [
        ("narrow.npy", "narrow.npy has 3 features, vectors.npy has 12"),
        ("none.npy", "none.npy: no vectors in it"),
        ("empty.npy", "empty.npy: empty"),
        ("missing.npy", "missing.npy: no such file"),
    ]:
        assert line in refused("fit", "vectors.npy", name, "-m", "lsh", "-o", "new")
        assert line in refused("encode", "model", "vectors.npy", name, "-o", "codes.npy")
    bad = np.load("vectors.npy")
    bad[4, 4] = np.inf
    np.save("bad.npy", bad)
    assert "row 154 has infinity (row 4 of bad.npy)" in refused("fit", "vectors.npy", "bad.npy", "-m", "lsh", "-o", "n")


def test_codes_come_a_block_at_a_time(large):
    hasher, X = hashlearn.load("model"), np.load("large.npy")
    parts = list(hasher.transform_blocks(X, first=300))
    assert [part.start for part, _ in parts] == [300, 556, 812]
    np.testing.assert_array_equal(np.concatenate([codes for _, codes in parts]), large[300:])
    assert LSH(n_bits=4).fit(X).transform_blocks(X) is not None


def interrupted(run, monkeypatch):
    """An encode that was interrupted after two blocks."""
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2, KeyboardInterrupt())
        assert run(*ENCODE).code == 130


@pytest.mark.parametrize("place", [0, 60, 130, 300, 1100])
def test_codes_that_were_changed_since_are_not_resumed(run, folder, large, monkeypatch, place):
    interrupted(run, monkeypatch)
    part = bytearray((folder / "codes.npy.part").read_bytes())
    place = min(place, len(part) - 1)
    part[place] ^= 4
    (folder / "codes.npy.part").write_bytes(part)
    outcome = run(*ENCODE)
    assert (outcome.code, outcome.err) == (0, "")
    whole(folder, large)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"job": 1}', "[]", "\xff"])
def test_a_state_that_is_none_is_not_believed(run, folder, large, monkeypatch, text):
    interrupted(run, monkeypatch)
    (folder / "codes.npy.part.json").write_text(text)
    outcome = run(*ENCODE)
    assert (outcome.code, outcome.err) == (0, "")
    whole(folder, large)


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
@pytest.mark.parametrize("name", ["codes.npy.part", "codes.npy.part.json"])
def test_planted_links_are_not_followed(run, folder, large, monkeypatch, name):
    interrupted(run, monkeypatch)
    (folder / "precious").write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to("precious")
    before = (folder / "precious").read_bytes()
    monkeypatch.setattr(partial_codes, "SECONDS_BETWEEN_STATES", 0)
    assert run(*ENCODE).code == 0
    assert (folder / "precious").read_bytes() == before
    whole(folder, large)
    assert not (folder / "codes.npy").is_symlink()
    assert not (folder / "codes.npy.json").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_codes_keep_their_permissions(run, folder, large, monkeypatch):
    assert run(*ENCODE).code == 0
    for name in ("codes.npy", "codes.npy.json"):
        (folder / name).chmod(0o600)
    interrupted_command = ("encode", "model", "queries.npy", "large.npy", "-o", "codes.npy")
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2, KeyboardInterrupt())
        assert run(*interrupted_command).code == 130
    assert (folder / "codes.npy.part").stat().st_mode & 0o777 == 0o600
    assert run(*interrupted_command).code == 0
    assert [(folder / name).stat().st_mode & 0o777 for name in ("codes.npy", "codes.npy.json")] == [0o600, 0o600]


def test_a_second_encode_to_the_same_file_is_refused(run, folder, large, monkeypatch):
    """The first is in its third block when the second begins: each would remove the file of the other."""
    seen = []
    encode = base.codes_of_block

    def with_another(block, first, scorer):
        if not seen:
            seen.append(None)
            seen[0] = run("encode", "model", "queries.npy", "-o", "codes.npy")
        return encode(block, first, scorer)

    monkeypatch.setattr(base, "codes_of_block", with_another)
    assert run(*ENCODE).code == 0
    assert seen[0].code == 2
    assert "codes.npy is being written by another process" in seen[0].err
    assert seen[0].err.count("\n") == 1
    whole(folder, large)
    assert run("near-duplicates", "codes.npy", "--radius", 0).code == 0


@pytest.mark.parametrize("step", ["the new codes", "the last sidecar"])
def test_codes_and_sidecar_fit_at_every_moment(run, folder, large, monkeypatch, step):
    """A process that dies before the codes are replaced leaves the old ones, and one that dies after it the new."""
    assert run(*ENCODE).code == 0
    old = np.load("queries.npy"), np.load("codes.npy")

    take_place = partial_codes.PartialCodes._take_place

    def dying(self):
        if step == "the last sidecar":
            take_place(self)
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(partial_codes.PartialCodes, "_take_place", dying)
        patched.setattr(partial_codes.PartialCodes, "stop", lambda self, error: error)
        run("encode", "model", "queries.npy", "-o", "codes.npy")
    found = read_codes("codes.npy")
    wanted = old[1] if step == "the new codes" else hashlearn.load("model").transform(old[0])
    np.testing.assert_array_equal(found.codes, wanted)
    assert run("encode", "model", "queries.npy", "-o", "codes.npy").code == 0
    assert "before" not in json.loads((folder / "codes.npy.json").read_text())
    whole(folder, hashlearn.load("model").transform(old[0]))


def test_a_reader_beside_a_writer_reads_old_or_new_codes(run, folder, large, monkeypatch):
    """Codes and sidecar are replaced between the reading of one and the other."""
    assert run(*ENCODE).code == 0
    read, calls = code_files.read_sidecar, []

    def late(place):
        if not calls:
            calls.append(place)
            run("encode", "model", "queries.npy", "-o", "codes.npy")
        return read(place)

    monkeypatch.setattr(code_files, "read_sidecar", late)
    found = code_files.read_codes("codes.npy")
    np.testing.assert_array_equal(found.codes, hashlearn.load("model").transform(np.load("queries.npy")))
