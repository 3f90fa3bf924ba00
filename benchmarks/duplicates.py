"""Near-duplicates side by side: ours against brute force, faiss, imagededup, datasketch and semhash, on one thread.

    python benchmarks/duplicates.py --data FOLDER               # all sets, ten minutes
    python benchmarks/duplicates.py --data FOLDER --only mnist  # one of them

``FOLDER`` has ``mnist.npz`` (X), ``cifar10_sample2000.npz`` (images) and ``cifar10_cnn1280.npz`` (V, features
6 (V / 255)^2). A set whose file is missing is left out. Texts are paragraphs of the documentation strings of installed
packages, and the column ``text`` of the CSV files of ``--texts``. ``--peers`` is the Python interpreter that has
imagededup, datasketch and semhash; one that it does not have is left out.

- ``vectors``: all pairs of the CNN features within cosine distance .05. Truth is a blocked product of all pairs.
- ``mnist``, ``photos``, ``cifar``, ``texts``: some rows are changed copies of others. Truth is which of which; every
  contender is judged at the threshold of its grid where its F1 is best, except ``hashlearn dedup``, which has the
  encoder and the distance that the command line takes by default. ``photos`` are pictures of CIFAR-10. Copies in
  ``cifar`` are changed features, not pictures.
- ``debian``: the descriptions of ``--descriptions`` (what ``apt-cache dumpavail`` prints). Of the rows that are
  dropped, how many differ from the kept one in more than a tenth of the words of both: words between spaces in lower
  case; the same with every punctuation mark as a word; and words in which capitals count.
- ``long_texts``: the same of the paragraphs of the files of ``--paragraphs``, each paragraph once.
- ``auto``: ``max_distance="auto"`` on embeddings of several models. 2 % of the rows are copies with noise of 2 to 15 %
  of their length. Once with the rows as they are (pairs that are near by nature count as false), and once without rows
  that are nearer to another than a third of the usual distance from the nearest.
- ``second_opinion``: the pairs of GIST once more, where natural pairs count as right if they show the same photo; and
  descriptions through MiniLM (``--minilm``), where natural pairs count as right if they have the same words.
- ``million``: 1,000,000 x 128 with planted pairs: what memory the search takes above the data.
- ``texts_streamed``: 1,000,000 texts of a parquet file, mixed from the descriptions, with planted edits: the most
  memory that ``hashlearn dedup`` takes.
- ``vectors_streamed``: 10,000,000 x 64 in half precision, in a file, with planted copies: time and memory likewise.
- ``review``: the page for 25,000 rows in groups: the first paint in Chromium (playwright), and the largest file.

Every set adds one line to ``results/duplicates.jsonl``.
"""

import os

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import argparse
import csv
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from duplicate_sets import documentation_paragraphs, edited, moved_images, paragraphs_of_files, texts_of_file
from PIL import Image
from runs import add_out_option, append_run

from hashlearn import find_duplicates
from hashlearn.cli.support.dedup_inputs import PICTURE_ENCODER, default_distance
from hashlearn.duplicates import find_duplicate_texts, write_review
from hashlearn.duplicates.find import TEXT_DISTANCE
from hashlearn.features import encoder_named
from hashlearn.features.pictures import thumbnail

PairSet = set[tuple[int, int]]
STRICT = 0.08  # within it, at most a tenth of the different words of two texts is in one of them only
SETS = [
    "vectors",
    "mnist",
    "photos",
    "cifar",
    "texts",
    "debian",
    "long_texts",
    "auto",
    "second_opinion",
    "million",
    "texts_streamed",
    "vectors_streamed",
    "review",
]
REPEATED = [1482, 1848]  # photos of the sample that show the car of 537 and the frog of 1371 once more
Grid = dict[float, PairSet]


def main() -> None:
    options = parse()
    for name in options.only or SETS:
        lines = []
        for line in globals()[name](options):
            lines.append({"set": name} | line)
            print({key: round(value, 4) if isinstance(value, float) else value for key, value in lines[-1].items()})
            sys.stdout.flush()
        if lines:
            print(append_run(options.out, "duplicates", {"lines": lines}))


def vectors(options: argparse.Namespace) -> Iterable[dict]:
    X = cnn_features(options.data)
    if X is None:
        return
    find_duplicates(X[:4000], 0.05, recall=1.0)  # compiles
    find_duplicates(X[:20000], 0.05)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    true, brute_seconds = timed(lambda: blocked_product(unit, 0.05))
    yield {
        "contender": "blocked product",
        "seconds": brute_seconds,
        "pairs": len(true),
        "recall": 1.0,
        "precision": 1.0,
    }
    for recall in (0.99, 1.0):
        found, seconds = timed(lambda recall=recall: find_duplicates(X, 0.05, recall=recall))
        line = {"contender": f"hashlearn, recall={recall:g}", "seconds": seconds, "plan": str(found.plan)}
        yield line | judged(rows_of(found), true) | {"times_faster": brute_seconds / seconds}
        if recall < 1:
            yield shuffled_again(X, found, true)


def shuffled_again(X: np.ndarray, found: Any, true: PairSet) -> dict:
    """The same search with the rows in another order and on two threads."""
    order = np.random.RandomState(1).permutation(len(X))
    again, seconds = timed(lambda: find_duplicates(X[order], 0.05, n_jobs=2))
    pairs = {(min(a, b), max(a, b)) for a, b in ((int(order[i]), int(order[j])) for i, j in rows_of(again))}
    groups = {(int(order[each.kept]), frozenset(order[each.members].tolist())) for each in again.groups}
    same = groups == {(each.kept, frozenset(each.members.tolist())) for each in found.groups}
    line = {"contender": "hashlearn, rows shuffled, two threads", "seconds": seconds, "same_groups": same}
    return line | judged(pairs, true)


def mnist(options: argparse.Namespace) -> Iterable[dict]:
    path = options.data / "mnist.npz"
    if not path.is_file():
        return
    yield from pictures(options, np.load(path)["X"][:2000].reshape(-1, 28, 28))


def photos(options: argparse.Namespace) -> Iterable[dict]:
    path = options.data / "cifar10_sample2000.npz"
    if path.is_file():
        yield from pictures(options, np.delete(np.load(path)["images"], REPEATED, axis=0))


def pictures(options: argparse.Namespace, originals: np.ndarray) -> Iterable[dict]:
    images, true = moved_images(originals, 300)
    yield pictures_by_default([Image.fromarray(image).convert("RGB") for image in images], true)
    yield from peers(options, "imagededup", true, images=images)


def cifar(options: argparse.Namespace) -> Iterable[dict]:
    X = cnn_features(options.data)
    if X is None:
        return
    rng = np.random.RandomState(0)
    rows = X[:5000]
    chosen = rng.choice(len(rows), 500, replace=False)
    copies = np.maximum(
        0, rows[chosen] * rng.uniform(0.9, 1.1, (500, rows.shape[1])) + 0.05 * rng.standard_normal((500, 1))
    )
    true = {(int(a), len(rows) + b) for b, a in enumerate(chosen)}
    yield from against_vectors(np.concatenate([rows, copies.astype(np.float32)]), true, np.geomspace(0.01, 0.05, 5))


def texts(options: argparse.Namespace) -> Iterable[dict]:
    sources = {"documentation": documentation_paragraphs(2000)}
    sources |= {path.stem: texts_of_file(path, 2000) for path in options.texts}
    for name, originals in sources.items():
        all_texts, true = edited(originals, 300)
        encoded = encoder_named("shingles", "text").encode(all_texts)
        distances = np.array([0.15, 0.2, 0.25, 0.3])
        lines = [
            texts_by_words(all_texts, true),
            against_vectors(encoded, true, distances, ours_too=False),
            peers(options, "semhash", true, vectors=encoded, distances=distances),
            peers(options, "datasketch", true, texts=np.array(all_texts)),
        ]
        for line in chain.from_iterable(lines):
            yield {"set": f"texts, {name}", "rows": len(all_texts)} | line


def debian(options: argparse.Namespace) -> Iterable[dict]:
    if options.descriptions is None:
        return
    descriptions = descriptions_of(options.descriptions)
    found, seconds = timed(lambda: find_duplicate_texts(descriptions))
    yield {"contender": "hashlearn dedup, words", "seconds": seconds} | over_a_tenth(found, descriptions)
    by_cosine = find_duplicates(encoder_named("shingles", "text").encode(descriptions), 0.25)
    yield {"contender": "hashlearn dedup, cosine of shingles within 0.25"} | over_a_tenth(by_cosine, descriptions)


def long_texts(options: argparse.Namespace) -> Iterable[dict]:
    texts = paragraphs_of_files(options.paragraphs)
    for name, distance in {"defaults (words)": TEXT_DISTANCE, f"--max-distance {STRICT:g}": STRICT}.items():
        if texts:
            found, seconds = timed(lambda distance=distance: find_duplicate_texts(texts, distance))
            yield {"contender": f"hashlearn dedup, {name}", "seconds": seconds} | over_a_tenth(found, texts)


def over_a_tenth(found: Any, texts: list[str]) -> dict[str, int]:
    """How many dropped texts differ from the kept one in over a tenth of the different words of both."""
    ways = {
        "over_a_tenth": lambda text: set(text.lower().split()),
        "over_a_tenth_punctuation_apart": lambda text: set(re.findall(r"\w+|[^\w\s]", text.lower())),
        "over_a_tenth_capitals_differ": lambda text: set(text.split()),
    }
    drops = [(group.kept, row) for group in found.groups for row in group.members.tolist()]
    counts = {"rows": len(texts), "dropped": len(drops)}
    for way, words_of in ways.items():
        pairs = [(words_of(texts[a]), words_of(texts[b])) for a, b in drops]
        counts[way] = sum(1 - len(a & b) / len(a | b) > 0.1 + 1e-9 for a, b in pairs)
    return counts


def auto(options: argparse.Namespace) -> Iterable[dict]:
    for name, X in embeddings(options).items():
        for is_cleaned in (False, True):
            planted, true = with_copies(X, is_cleaned)
            found, seconds = timed(lambda planted=planted: find_duplicates(planted, "auto"))
            line = {"contender": f'hashlearn, "auto", {name}' + (", rows unlike each other" if is_cleaned else "")}
            line |= {"rows": len(planted), "seconds": seconds, "distance": found.max_distance, "reason": found.reason}
            yield line | judged(rows_of(found), true) | by_distance_alone(planted, found, true)


def with_copies(X: np.ndarray, is_cleaned: bool) -> tuple[np.ndarray, PairSet]:
    """15,000 rows and noisy copies of one in fifty."""
    rng = np.random.RandomState(6)
    rows = X[rng.permutation(len(X))[:15_000]]
    if is_cleaned:
        rows = without_near(rows)
    chosen = rng.choice(len(rows), len(rows) // 50, replace=False)
    noise = rng.standard_normal((len(chosen), rows.shape[1]))
    sizes = rng.uniform(0.02, 0.15, len(chosen)) * np.linalg.norm(rows[chosen], axis=1)
    noise *= (sizes / np.linalg.norm(noise, axis=1))[:, None]
    true = {(int(a), len(rows) + b) for b, a in enumerate(chosen)}
    return np.concatenate([rows, (rows[chosen] + noise).astype(np.float32)]), true


def second_opinion(options: argparse.Namespace) -> Iterable[dict]:
    yield from same_photo(options)
    yield from same_words(options)


def same_words(options: argparse.Namespace) -> Iterable[dict]:
    """Descriptions through MiniLM, where a natural pair counts as right if both have the same words in the same order.

    Words are runs of letters and digits in lower case.
    """
    if options.descriptions is None or options.minilm is None:
        return
    texts = list(dict.fromkeys(descriptions_of(options.descriptions)))
    texts = [texts[row] for row in np.random.RandomState(3).permutation(len(texts))[:15_000]]
    if not options.minilm.is_file():
        from minilm import MiniLM

        np.save(options.minilm, MiniLM().encode(texts))
    planted, true = with_copies(np.load(options.minilm), is_cleaned=False)
    order = np.random.RandomState(6).permutation(len(texts)).tolist()
    copied = {copy: row for row, copy in true}
    found = find_duplicates(planted, "auto")
    pairs = rows_of(found)
    words = {row: re.findall(r"\w+", texts[order[copied.get(row, row)]].lower()) for pair in pairs for row in pair}
    others = pairs - true
    same = sum(words[a] == words[b] for a, b in others)
    yield {
        "contender": 'hashlearn, "auto", MiniLM of descriptions, the same words count as right',
        "other_pairs": len(others),
        "same_words": same,
        "recall": len(pairs & true) / len(true),
        "precision": (len(pairs & true) + same) / len(pairs),
    } | by_distance_alone(planted, found, true)


def same_photo(options: argparse.Namespace) -> Iterable[dict]:
    """The pairs of GIST once more, where pairs that show the same photo count as right.

    The photos of all pairs within 0.02 among the 15,000 rows were looked at; ``near_photos.csv`` says which show the
    same photo, in the same or other colors. ``natural_recall`` is the share of them that was found.
    """
    gist = embeddings(options).get("GIST")
    if gist is None:
        return
    planted, true = with_copies(gist, is_cleaned=False)
    order = np.random.RandomState(6).permutation(len(gist))[:15_000].tolist()
    copied = {copy: row for row, copy in true}
    with Path(__file__).with_name("near_photos.csv").open(encoding="utf-8", newline="") as file:
        judged_pairs = {(int(r["first"]), int(r["second"])): r["same_photo"] == "1" for r in csv.DictReader(file)}
    natural = {pair for pair, is_same in judged_pairs.items() if is_same}
    pairs = rows_of(find_duplicates(planted, "auto"))
    photos = {pair: tuple(sorted(order[copied.get(row, row)] for row in pair)) for pair in pairs}
    others = [photo for pair, photo in photos.items() if pair not in true]
    same = sum(a == b or (a, b) in natural for a, b in others)
    yield {
        "contender": 'hashlearn, "auto", GIST, photos that are alike count as right',
        "other_pairs": len(others),
        "same_photo": same,
        "recall": len(pairs & true) / len(true),
        "precision": (len(pairs & true) + same) / len(pairs),
        "natural_recall": len(natural & set(others)) / len(natural),
    }


def by_distance_alone(X: np.ndarray, found: Any, true: PairSet) -> dict[str, float]:
    """What a distance can do that knows the truth, and the precision if pairs among the copies count as right.

    Some rows are as near to each other by nature as copies are; no distance tells these from copies.
    """
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    of_copies = np.sort([1 - float(unit[a] @ unit[b]) for a, b in true])
    least, furthest = _least_for_98(of_copies), float(of_copies[-1])
    best = judged(rows_of(found.at(min(least, found.state.largest_distance))), true)
    beyond = len(rows_of(found)) - len(rows_of(found.at(min(furthest, found.max_distance))))
    hits = len(rows_of(found) & true)
    return {"best_precision": best["precision"], "precision_beyond_copies": hits / max(1, hits + beyond)}


def _least_for_98(of_copies: np.ndarray) -> float:
    return float(np.sort(of_copies)[int(0.98 * len(of_copies))])


def embeddings(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Features of pictures by a network and by GIST, of texts by MiniLM, and those of further files."""
    found = {"CNN": cnn_features(options.data)}
    for name, file in {"MiniLM": "agnews_minilm384.npz", "GIST": "cifar10_gist512.npz"}.items():
        path = options.data / file
        found[name] = np.load(path)["X"].astype(np.float32) if path.is_file() else None
    found |= {path.stem: np.load(path).astype(np.float32) for path in options.embeddings}
    return {name: X for name, X in found.items() if X is not None}


def without_near(X: np.ndarray) -> np.ndarray:
    """The rows but those that are nearer to another than a third of the median distance from the nearest."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    nearest = np.empty(len(X))
    for start in range(0, len(X), 2048):
        products = unit[start : start + 2048] @ unit.T
        products[np.arange(len(products)), start + np.arange(len(products))] = -1
        nearest[start : start + 2048] = 1 - products.max(axis=1)
    return X[nearest > np.median(nearest) / 3]


def million(options: argparse.Namespace) -> Iterable[dict]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 128), dtype=np.float32)
    copies = rng.choice(990_000, 10_000, replace=False)
    X[990_000:] = X[copies] + np.float32(0.15) * rng.standard_normal((10_000, 128), dtype=np.float32)
    true = {(int(a), 990_000 + b) for b, a in enumerate(copies)}
    find_duplicates(X[:50_000], 0.03)  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of other sets
    before = megabytes("VmRSS")
    found, seconds = timed(lambda: find_duplicates(X, 0.03))
    above = megabytes("VmHWM") - before
    line = {"contender": "hashlearn, recall=0.99", "seconds": seconds, "plan": str(found.plan)}
    yield line | judged(rows_of(found), true) | {"megabytes_above_data": above}


def texts_streamed(options: argparse.Namespace) -> Iterable[dict]:
    if options.descriptions is None:
        return
    import pyarrow
    from pyarrow import parquet

    rng = random.Random(0)
    words = [text.split() for text in descriptions_of(options.descriptions)]
    made = [" ".join(rng.choice(words) + rng.choice(words)) for _ in range(options.n_texts)]
    copies = rng.sample(range(options.n_texts // 2), options.n_texts // 100)
    for place, row in enumerate(copies, start=options.n_texts - len(copies)):
        made[place] = made[row] if len(made[row].split()) < 20 else f"{made[row]} more"
    true = {(row, place) for place, row in enumerate(copies, start=options.n_texts - len(copies))}
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(pyarrow.table({"body": made}), Path(folder) / "texts.parquet")
        n_bytes = sum(len(text.encode()) for text in made)
        del made, words
        measured = by_command(Path(folder), "texts.parquet", "--text", "body")
        share = share_in_groups(Path(folder) / "groups.csv", true)
    line = {"contender": f"hashlearn dedup, {options.n_texts:,} texts of a file", "recall": share}
    yield line | measured | {"megabytes_of_texts": n_bytes / 2**20}


def vectors_streamed(options: argparse.Namespace) -> Iterable[dict]:
    n, width = options.n_vectors, 64
    rng = np.random.default_rng(0)
    n_copies = n // 100
    rows = np.sort(rng.choice(n - n_copies, n_copies, replace=False))
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder) / "vectors.npy"
        values = np.lib.format.open_memmap(path, "w+", np.float16, (n, width))
        for start in range(0, n - n_copies, 1 << 18):
            stop = min(start + (1 << 18), n - n_copies)
            values[start:stop] = rng.standard_normal((stop - start, width), np.float32)
        noise = np.float32(0.05) * rng.standard_normal((n_copies, width), np.float32)
        values[n - n_copies :] = values[rows].astype(np.float32) + noise
        values.flush()
        del values, noise
        true = set(zip(rows.tolist(), range(n - n_copies, n)))
        measured = by_command(Path(folder), "vectors.npy", "--max-distance", "0.005")
        share = share_in_groups(Path(folder) / "groups.csv", true)
        megabytes_of_vectors = path.stat().st_size / 2**20
    line = {"contender": f"hashlearn dedup, {n:,} vectors of a file", "recall": share}
    yield line | measured | {"megabytes_of_vectors": megabytes_of_vectors}


def by_command(folder: Path, *arguments: str) -> dict[str, float]:
    """Time and most memory of ``hashlearn dedup`` in a process of its own, mapped files included."""
    command = [sys.executable, "-m", "hashlearn", "dedup", *arguments, "--out", "groups.csv"]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed")
    spent = {"seconds": time.perf_counter() - start, "processor_seconds": used.ru_utime + used.ru_stime}
    return spent | {"peak_megabytes": used.ru_maxrss / 1024}


def share_in_groups(table: Path, true: PairSet) -> float:
    """The share of pairs whose rows are in one group of a table."""
    with table.open(encoding="utf-8", newline="") as file:
        group_of = {int(row["id"]): row["group"] for row in csv.DictReader(file)}
    return sum(a in group_of and group_of[a] == group_of.get(b) for a, b in true) / len(true)


def review(options: argparse.Namespace) -> Iterable[dict]:
    if options.descriptions is None:
        return
    descriptions = descriptions_of(options.descriptions)
    sizes = [251, 222, 202, *np.random.default_rng(0).geometric(0.3, 25_000) + 1]
    group = np.repeat(np.arange(len(sizes)), sizes)[:25_000]
    found = find_duplicates(group[:, None].astype(np.float64), 0.1, metric="euclidean")
    texts = [f"{descriptions[number]} {row}" for row, number in enumerate(group.tolist())]
    rng = np.random.default_rng(0)
    thumbnails = [thumbnail(Image.fromarray(rng.integers(0, 255, (12, 12, 3), np.uint8)).resize((192, 192)))] * 25_000
    for what, shown in {"texts": {"texts": texts}, "pictures": {"picture": thumbnails.__getitem__}}.items():
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            _, seconds = timed(lambda page=page, shown=shown: write_review(found, page, **shown))
            largest = max(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            paints = [first_paint(page) for _ in range(3)]
        line = {"contender": f"review of 25,000 rows in {len(found.groups):,} groups, {what}", "seconds": seconds}
        yield line | {"first_paint_seconds": max(paints), "largest_file_megabytes": largest / 1e6}


def first_paint(page: Path) -> float:
    """Seconds until Chromium shows something of a page, in a browser that was just started."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.as_uri())
        tab.wait_for_selector(".card")
        painted = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        browser.close()
    return float(painted) / 1e3


def descriptions_of(path: Path) -> list[str]:
    """The one-line descriptions in what apt-cache dumpavail prints."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Description: ")]


def megabytes(name: str) -> float:
    """Memory that the process holds now ("VmRSS") or has held at most ("VmHWM"), its data included (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def pictures_by_default(items: list, true: PairSet) -> dict:
    """What ``hashlearn dedup`` finds with its own encoder and distance; the time includes the encoding."""

    def search() -> Any:
        encoder = encoder_named(PICTURE_ENCODER, "image")
        encoded = encoder.encode(items)
        return find_duplicates(encoded, default_distance(encoder, encoded), metric=encoder.metric)  # type: ignore[arg-type]

    found, seconds = timed(search)
    line = {"contender": f"hashlearn dedup, defaults ({PICTURE_ENCODER})", "seconds": seconds}
    return line | at_best({found.max_distance: rows_of(found)}, true)


def texts_by_words(texts: list[str], true: PairSet) -> Iterable[dict]:
    """What ``hashlearn dedup --text`` finds, by default and where at most a tenth of the words of both may differ."""
    for name, distance in {"defaults (words)": TEXT_DISTANCE, f"--max-distance {STRICT:g}": STRICT}.items():
        found, seconds = timed(lambda distance=distance: find_duplicate_texts(texts, distance))
        line = {"contender": f"hashlearn dedup, {name}", "seconds": seconds}
        yield line | at_best({found.max_distance: rows_of(found)}, true)


def against_vectors(X: np.ndarray, true: PairSet, distances: np.ndarray, ours_too: bool = True) -> Iterable[dict]:
    """Ours and faiss on the same vectors, each at the best of several distances."""
    X = np.ascontiguousarray(X.reshape(len(X), -1), np.float32)
    contenders = {}
    if ours_too:
        contenders["hashlearn, recall=0.99"] = lambda distance: rows_of(find_duplicates(X, distance))
    faiss = imported("faiss")
    if faiss is not None:
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        contenders["faiss range_search, the same vectors"] = lambda distance: faiss_range(faiss, unit, distance)
    for name, search in contenders.items():
        grid = {float(distance): timed(partial(search, float(distance))) for distance in distances}
        best = at_best({distance: pairs for distance, (pairs, _) in grid.items()}, true)
        yield {"contender": name, "seconds": grid[best["threshold"]][1]} | best


def peers(options: argparse.Namespace, peer: str, true: PairSet, **data: np.ndarray) -> Iterable[dict]:
    """The contenders of a peer, each at the best threshold of its grid."""
    script = Path(__file__).with_name("duplicate_peers.py")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.json"
        np.savez(source, **data)  # type: ignore[arg-type]
        done = subprocess.run([options.peers, script, peer, source, target], capture_output=True, text=True)
        if done.returncode:
            print(f"{peer} is left out: {done.stderr.strip().splitlines()[-1]}")
            return
        found = json.loads(target.read_text(encoding="utf-8"))
    for name in dict.fromkeys(each["contender"] for each in found):
        grid = {each["threshold"]: each for each in found if each["contender"] == name}
        best = at_best({threshold: set(map(tuple, each["pairs"])) for threshold, each in grid.items()}, true)
        yield {"contender": name, "seconds": grid[best["threshold"]]["seconds"]} | best


def blocked_product(unit: np.ndarray, max_distance: float, block: int = 2048) -> PairSet:
    """All pairs by products of blocks of rows: what is left without an index."""
    found: PairSet = set()
    for start in range(0, len(unit), block):
        products = unit[start : start + block] @ unit[start:].T
        first, second = np.nonzero(products >= 1 - max_distance)
        apart = first < second
        found.update(zip((start + first[apart]).tolist(), (start + second[apart]).tolist()))
    return found


def faiss_range(faiss: Any, unit: np.ndarray, max_distance: float) -> PairSet:
    index = faiss.IndexFlatIP(unit.shape[1])
    index.add(unit)
    found: PairSet = set()
    for start in range(0, len(unit), 4096):
        limits, _, ids = index.range_search(unit[start : start + 4096], 1 - max_distance)
        first = start + np.repeat(np.arange(len(limits) - 1), np.diff(limits).astype(np.int64))
        found.update((a, b) for a, b in zip(first.tolist(), ids.tolist()) if a < b)
    return found


def rows_of(found: Any) -> PairSet:
    return {pair for pairs in found.all_pairs() for pair in zip(pairs.first.tolist(), pairs.second.tolist())}


def judged(found: PairSet, true: PairSet) -> dict[str, float]:
    hits = len(found & true)
    return {"pairs": len(found), "recall": hits / max(1, len(true)), "precision": hits / max(1, len(found))}


def at_best(grid: Grid, true: PairSet) -> dict[str, float]:
    """The threshold with the best F1, and what is found there."""

    def f1(found: PairSet) -> float:
        return 2 * len(found & true) / max(1, len(found) + len(true))

    threshold = max(grid, key=lambda each: f1(grid[each]))
    return judged(grid[threshold], true) | {"f1": f1(grid[threshold]), "threshold": threshold}


def cnn_features(folder: Path) -> np.ndarray | None:
    path = folder / "cifar10_cnn1280.npz"
    return 6 * (np.load(path)["V"].astype(np.float32) / 255) ** 2 if path.is_file() else None


def imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed: left out")
        return None


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data files")
    parser.add_argument("--texts", type=Path, nargs="+", default=[], help="CSV files with a column 'text'")
    parser.add_argument("--descriptions", type=Path, help="a file with what apt-cache dumpavail prints")
    parser.add_argument("--paragraphs", type=Path, nargs="+", default=[], help="text files, such as licenses")
    parser.add_argument("--embeddings", type=Path, nargs="+", default=[], help=".npy files of further embeddings")
    parser.add_argument(
        "--minilm", type=Path, help="an .npy file of the descriptions through MiniLM, made if it is missing"
    )
    parser.add_argument("--peers", default=sys.executable, help="the Python interpreter that has the peers")
    parser.add_argument("--n-texts", type=int, default=1_000_000, help="of texts_streamed")
    parser.add_argument("--n-vectors", type=int, default=10_000_000, help="of vectors_streamed")
    parser.add_argument("--scratch", help="folder for the file of vectors_streamed; by default that of temporary files")
    parser.add_argument("--only", nargs="+", choices=SETS)
    add_out_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
