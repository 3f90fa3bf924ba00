"""Rows of which some are changed copies of others: images that are shifted, noisy or paler, texts with other words."""

import inspect
import pkgutil
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import numpy as np

from hashlearn.features import texts_of_csv

PairSet = set[tuple[int, int]]
PACKAGES = ("numpy", "scipy.stats", "scipy.sparse", "scipy.signal", "scipy.optimize", "sklearn", "pandas")
SHORTEST = 20  # words of a text


def moved_images(images: np.ndarray, n_copies: int) -> tuple[np.ndarray, PairSet]:
    """Images and changed copies of some: a third moved by a pixel, a third with noise, a third with less contrast."""
    rng = np.random.RandomState(0)
    chosen = rng.choice(len(images), n_copies, replace=False)
    copies = images[chosen].astype(np.float64)
    third = n_copies // 3
    for number in range(third):
        copies[number] = np.roll(copies[number], rng.choice([-1, 1]), axis=rng.choice([0, 1]))
    copies[third : 2 * third] += 10 * rng.standard_normal(copies[third : 2 * third].shape)
    copies[2 * third :] = 0.8 * copies[2 * third :] + 20
    true = {(int(a), len(images) + b) for b, a in enumerate(chosen)}
    return np.concatenate([images, np.clip(copies, 0, 255).astype(np.uint8)]), true


def edited(texts: list[str], n_copies: int) -> tuple[list[str], PairSet]:
    """Texts and copies of some in which 1 to 10 % of the words were replaced, left out or doubled."""
    rng = np.random.RandomState(1)  # the default distance of texts was chosen with another one
    words = sorted({word for text in texts for word in text.split()})
    chosen = rng.choice(len(texts), n_copies, replace=False)
    copies = []
    for row in chosen:
        copy = texts[row].split()
        for place in rng.choice(len(copy), max(1, round(len(copy) * rng.uniform(0.01, 0.1))), replace=False):
            copy[place] = [words[rng.randint(len(words))], "", f"{copy[place]} {copy[place]}"][rng.randint(3)]
        copies.append(" ".join(word for word in copy if word))
    return [*texts, *copies], {(int(a), len(texts) + b) for b, a in enumerate(chosen)}


def texts_of_file(path: Path, n: int) -> list[str]:
    """Texts of at least :data:`SHORTEST` words that are unlike each other."""
    texts = dict.fromkeys(texts_of_csv(path, "text").texts)
    return _unlike_each_other([text for text in texts if len(text.split()) >= SHORTEST], n)


def documentation_paragraphs(n: int) -> list[str]:
    """Paragraphs of the documentation strings of installed packages, each once, in a fixed order."""
    found: dict[str, None] = {}
    for name in PACKAGES:
        for module in _modules(name):
            for _, member in sorted(vars(module).items(), key=lambda item: item[0]):
                text = inspect.getdoc(member) if callable(member) else None
                for paragraph in (text or "").split("\n\n"):
                    if len(paragraph.split()) >= SHORTEST:
                        found[" ".join(paragraph.split())] = None
    return _unlike_each_other(found, n)


def paragraphs_of_files(paths: Iterable[Path]) -> list[str]:
    """The paragraphs of text files, each once: the parts between empty lines."""
    found: dict[str, None] = {}
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        found |= dict.fromkeys(" ".join(each.split()) for each in re.split(r"\n\s*\n", text) if each.split())
    return list(found)


def _unlike_each_other(texts: Iterable[str], n: int) -> list[str]:
    """The first n texts of which most triples of words are in none before: documentation and news repeat themselves."""
    seen: set[tuple[str, ...]] = set()
    kept = []
    for text in texts:
        words = text.lower().split()
        triples = set(zip(words, words[1:], words[2:]))
        if len(triples & seen) < 0.3 * len(triples):
            kept.append(text)
        seen |= triples
    return kept[:n]


def _modules(name: str):
    package = import_module(name)
    yield package
    for each in pkgutil.iter_modules(package.__path__):
        if not each.name.startswith(("_", "conftest", "test")):
            try:
                yield import_module(f"{name}.{each.name}")
            except Exception:  # a module that needs something optional
                continue
