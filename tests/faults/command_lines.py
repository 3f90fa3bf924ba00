"""Command lines as nobody should type them: wrong files, odd numbers, options twice, outputs that are inputs.

Every line is a good one with a few words changed. Whatever it says, the command does its work, or prints one line and
leaves every file as it was.
"""

import contextlib
import importlib
import io
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import scipy.sparse
from faults.corruption import FORMATS
from PIL import Image

import hashlearn
from hashlearn import ITQ, HammingIndex
from hashlearn.cli import main

SECONDS = 300
"""How long a command may take: only one that waits for ever takes so long."""

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(60, 6)).astype(np.float32)

LINES = [
    "methods",
    "version",
    "fit vectors.npy -o new --method itq --bits 6",
    "fit vectors.npy queries.npy -o model --method lsh -b 8 --seed 3",
    "fit data.npz --array X -o new -m sh -b 4",
    "fit vectors.npy -o new --method jpsh --bits 8 --param n_anchors=10 --param max_iter=2",
    "encode model vectors.npy -o new.npy",
    "encode model data.npz:X queries.npy --out codes.npy",
    "search model codes.npy queries.npy -k 3",
    "search model codes.npy query_codes.npy -k 3 --out new.npz",
    "index build codes.npy -o new.hli --ids ids.npy",
    "index build plain.npy --bits 8 -o codes.hli",
    "index add codes.hli query_codes.npy",
    "index search codes.hli query_codes.npy -k 4 --out new.npz --jobs 2",
    "index search codes.hli query_codes.npy --radius 1",
    "index info codes.hli",
    "near-duplicates codes.npy --radius 1 -o new.tsv",
    "near-duplicates plain.npy --bits 8",
    "near-duplicates codes.hli -r 0 -j -1",
    "evaluate codes.npy query_codes.npy --labels y.npy --query-labels yq.npy --json new.json",
    "evaluate codes.npy query_codes.npy --vectors vectors.npy --query-vectors queries.npy -k 3 --radius 1",
    "tune model codes.npy vectors.npy -k 3 --json new.json",
    "explain model codes.npy --labels y.npy --json new.json",
    "features gist photos --out new.npy --size 32 --names new.txt",
    "features embed photos --encoder gist --out new.npy --names new.txt",
    "data info vectors.npy",
    "data info data.npz --array X",
    "experiment run trial.toml --out new --workers 1",
    "experiment show trial.toml --results results",
    "experiment report trial.toml --results results --out new.html",
    "paper show table-2 --results results",
]

NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "64",
    "65",
    "1000",
    "9223372036854775807",
    "9223372036854775808",
    "-9e9",
    "1e3",
]
NUMBERS += ["nan", "inf", "1.5", "", " ", "0x10", "١٢", "1_000", "1000000000000000000000000"]
WORDS = [
    "--help",
    "-h",
    "--",
    "-",
    "--out",
    "-o",
    "-k",
    "--bits",
    "--force",
    "--jobs",
    "--nonsense",
    "--out=",
    "--version",
]
WORDS += [
    "",
    " ",
    ".",
    "..",
    "/",
    "~",
    "*",
    "a" * 300,
    "x/y/z.npy",
    "vectors.npy:",
    ":X",
    "data.npz:nothing",
    "😀",
    "é.npy",
]
WORDS += [
    "[red]",
    "%s",
    "{0}",
    "\x1b[31m",
    "a\nb",
    "vectors.npy\n",
    "\udcff",
    "/dev/null",
    "/dev/zero",
    "/proc/self/mem",
]
WORDS += [
    "--param",
    "n_anchors=-1",
    "n_anchors=nan",
    "n_anchors=@vectors.npy",
    "=",
    "random_state=1",
    "max_iter=" + "[" * 5000,
]
WORDS += ["jpsh", "itq", "JPSH", "--method", "table-2", "--array", "X", "--results", "--datasets", "digits", "--runs"]
CREATED = ("new", "new.npy", "new.npz", "new.hli", "new.tsv", "new.json", "new.html", "new.txt")


def import_everything() -> None:
    """Import what any line needs, so that the processes of the lines, which are forked, need not."""
    for module in pkgutil.walk_packages(hashlearn.__path__, "hashlearn."):
        if module.name != "hashlearn.__main__":
            importlib.import_module(module.name)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(["methods"])


def make_world(folder: Path) -> None:
    """Files that the good lines name, and odd ones."""
    _make_good_files(folder)
    _make_odd_files(folder / "odd")


def _make_good_files(folder: Path) -> None:
    hasher = ITQ(n_bits=6, random_state=0).fit(X)
    codes = hasher.transform(X)
    hasher.save(folder / "model")
    HammingIndex(6).add(codes, np.arange(1000, 1000 + len(X))).save(folder / "codes.hli")
    np.save(folder / "vectors.npy", X)
    np.save(folder / "queries.npy", X[:7] + 0.1)
    np.save(folder / "plain.npy", codes)
    np.save(folder / "ids.npy", 5 * np.arange(len(X))[::-1])
    np.save(folder / "y.npy", np.arange(len(X)) % 3)
    np.save(folder / "yq.npy", np.arange(7) % 3)
    np.savez(folder / "data.npz", X=X, y=np.arange(len(X)) % 3)
    (folder / "photos").mkdir()
    for number in range(2):
        Image.fromarray(RANDOM.integers(0, 255, (40, 40), np.uint8)).save(folder / "photos" / f"{number}.png")
    (folder / "trial.toml").write_text(TRIAL)
    for line in (
        "encode model vectors.npy -o codes.npy",
        "encode model queries.npy -o query_codes.npy",
        "experiment run trial.toml --out results --workers 1",
    ):
        outcome = run_line(folder, line.split())
        assert outcome.code == 0, outcome


TRIAL = """
datasets = ["own"]
methods = ["lsh"]
bits = [8]
runs = 1

[dataset.own]
features = "vectors.npy"
labels = "y.npy"
n_queries = 10
"""


def _make_odd_files(odd: Path) -> None:
    odd.mkdir()
    for number, kind in enumerate(FORMATS.values()):
        whole = odd / f"whole{number}{kind.name[1:]}"
        kind.write(whole)
        whole.with_name(f"cut{number}{kind.name[1:]}").write_bytes(whole.read_bytes()[:-9])
    arrays = {
        "nan": np.where(X > 1, np.nan, X),
        "huge": X * 1e37,
        "long": X.astype(np.longdouble),
        "complex": X.astype(complex),
        "words": np.array([["a", "b"]]),
        "times": np.zeros((4, 6), "M8[s]"),
        "records": np.zeros(4, [("a", "f4")]),
        "scalar": np.float32(3),
        "vector": X[0],
        "cube": np.zeros((3, 4, 6), np.float32),
        "none": np.empty((0, 6), np.float32),
        "narrow": np.empty((5, 0), np.float32),
        "swapped": X.astype(">f8"),
        "columns": np.asfortranarray(X),
        "bits": X > 0,
        "bytes": RANDOM.integers(0, 255, (30, 1)).astype(np.uint8),
        "largest": np.full(60, np.iinfo(np.int64).max),
        "unsigned": np.arange(2**64 - 60, 2**64, dtype=np.uint64),
    }
    for name, array in arrays.items():
        np.save(odd / f"{name}.npy", array)
    np.save(odd / "objects.npy", np.array([{}, 1], object), allow_pickle=True)
    (odd / "promise.npy").write_bytes(_npy_header((1 << 40, 6)))
    (odd / "negative.npy").write_bytes(_npy_header((-1, 6)))
    for name in ("empty.npy", "empty.npz", "empty.hli", "empty.csv", "empty.json", "empty.toml", "empty.parquet"):
        (odd / name).touch()
    np.save(odd / "deep.npy", arrays["bytes"])
    (odd / "deep.npy.json").write_text("[" * 100_000)
    (odd / "deep.toml").write_text("a = " + "[" * 100_000)
    np.save(odd / "strange.npy", arrays["bytes"])
    (odd / "strange.npy.json").write_text('{"format": "hashlearn codes", "model": "x"}')
    with h5py.File(odd / "outside.h5", "w") as file:
        file.create_dataset("X", (4, 4), "f4", external=[("/etc/passwd", 0, 64)])
        file["other"] = h5py.ExternalLink("whole4.hdf5", "X")
    scipy.sparse.save_npz(odd / "sparse.npz", scipy.sparse.csr_matrix(np.where(X > 1, X, 0)))
    np.savez(odd / "half.npz", format=np.array(b"csr"), shape=np.array([3, 3]), data=np.ones(2))
    (odd / "folder.npy").mkdir()
    (odd / "dangling.npy").symlink_to("nowhere.npy")
    (odd / "round.npy").symlink_to("round.npy")
    (odd / "link.npy").symlink_to("../vectors.npy")
    (odd / "model").mkdir()
    (odd / "model" / "config.json").write_text("{}")
    (odd / "lines").mkdir()
    (odd / "lines" / "digits.jsonl").write_text('{"key": 1}\n')


def _npy_header(shape: tuple[int, ...]) -> bytes:
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def mutated(rng: np.random.Generator, folder: Path) -> list[str]:
    """A good line with some of its words exchanged, dropped, repeated or put in."""
    line = str(rng.choice(LINES)).split()
    places = _places(folder)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = int(rng.integers(1, len(line) + 1))
        word = str(rng.choice([rng.choice(places), rng.choice(NUMBERS), rng.choice(WORDS), rng.choice(line)]))
        match rng.choice(["exchange", "exchange", "exchange", "put in", "drop"]):
            case "exchange":
                line[at : at + 1] = [word]
            case "put in":
                line.insert(at, word)
            case _:
                del line[at : at + 1]
    return [word for word in line if word not in ("--download", "demo")]


def _places(folder: Path) -> list[str]:
    return [*CREATED, *sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))]


class Outcome(NamedTuple):
    """How a command ended; ``code`` is negative for a signal, and None if it took too long."""

    code: int | None
    out: str
    err: str


def run_line(folder: Path, line: list[str]) -> Outcome:
    """Run a command in a process of its own, in the folder."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            _run(folder, line, out.fileno(), err.fileno())
        code = _waited(pid)
        out.seek(0)
        err.seek(0)
        return Outcome(code, out.read().decode(errors="replace"), err.read().decode(errors="replace"))


def _run(folder: Path, line: list[str], out: int, err: int) -> None:
    code = 70
    try:
        signal.alarm(SECONDS)
        os.chdir(folder)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        main(line)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _waited(pid: int) -> int | None:
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return None if os.WTERMSIG(status) == signal.SIGALRM else -os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def snapshot(folder: Path) -> dict[str, tuple]:
    """What changes when a file does."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        is_folder = path.is_dir() and not path.is_symlink()
        content = () if is_folder else (status.st_ino, status.st_size, status.st_mtime_ns)
        found[path.relative_to(folder).as_posix()] = (status.st_mode, *content)
    return found


class World:
    """A folder with the files of the lines, made anew whenever a command has changed it."""

    def __init__(self, folder: Path):
        self.whole, self.place = folder / "whole", folder / "place"
        self.whole.mkdir()
        import_everything()
        make_world(self.whole)
        self._copy()

    def _copy(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.whole, self.place, symlinks=True)
        os.mkfifo(self.place / "odd" / "pipe.npy")
        self.before = snapshot(self.place)

    def attack(self, line: list[str]) -> tuple[str, list[str]]:
        """Run a line; returns how it ended, and what is wrong with that."""
        outcome = run_line(self.place, line)
        after = snapshot(self.place)
        changed = {name for name in self.before.keys() | after.keys() if self.before.get(name) != after.get(name)}
        faults = list(_faults(line, outcome, changed, self.before))
        if changed:
            self._copy()
        return {0: "done", 2: "refused"}.get(outcome.code, "other"), faults


def _faults(line: list[str], outcome: Outcome, changed: set[str], before: dict[str, tuple]):
    if outcome.code is None:
        yield f"took more than {SECONDS} seconds"
    elif outcome.code not in (0, 2):
        yield f"exit code {outcome.code}: {outcome.err[-600:]}"
    elif "Traceback" in outcome.err:
        yield f"a traceback: {outcome.err[-600:]}"
    if outcome.code == 2:
        errors = [text for text in outcome.err.splitlines() if not text.startswith("hashlearn: warning: ")]
        if outcome.err and (len(errors) != 1 or not errors[0].startswith("hashlearn: error: ")):
            yield f"not one line: {outcome.err[-600:]}"
        if changed:
            yield f"failed, and changed {sorted(changed)}: {outcome.err}"
    elif touched := sorted(name for name in changed & before.keys() if not _is_output(name, line)):
        yield f"changed {touched}, which is no output"


def _is_output(name: str, line: list[str]) -> bool:
    """Whether a line names a file, its folder or what it is the sidecar of after an option that says what to write."""
    names = {name, name.removesuffix(".json"), os.path.dirname(name)}
    options = ("--out", "-o", "--json", "--names", "add")
    pairs = [*pairwise(line), *(word.split("=", 1) for word in line if "=" in word)]
    return any(option in options and os.path.normpath(word) in names for option, word in pairs)


def attack_many(n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Run so many lines; returns how they ended, and what was wrong."""
    rng, counts, faults = np.random.default_rng(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for _ in range(n):
            line = mutated(rng, world.place)
            ended, wrong = world.attack(line)
            counts[ended] += 1
            faults += [f"{line}: {text}" for text in wrong]
    return counts, faults
