"""The peers of benchmarks/duplicates.py. They run in an interpreter of their own, for they need other packages.

    python benchmarks/duplicate_peers.py imagededup IN.npz OUT.json

``IN.npz`` holds what is compared (``images``, ``texts`` or ``vectors``). ``OUT.json`` gets, for each contender and each
threshold of its grid, the seconds and the pairs of rows it found.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

Pairs = list[tuple[int, int]]

RADII = range(0, 13, 2)


class Found(NamedTuple):
    contender: str
    threshold: float
    seconds: float
    pairs: Pairs


def imagededup(data: dict[str, np.ndarray]) -> Iterator[Found]:
    """Its hashes of images, within several radii. Its network is left out: it wants a download."""
    from imagededup.methods import AHash, DHash, PHash, WHash

    logging.getLogger("imagededup").setLevel(logging.ERROR)
    images = data["images"]
    colored = images if images.ndim == 4 else np.repeat(images[..., None], 3, axis=-1)
    for method in (PHash, DHash, AHash, WHash):
        hasher = method(verbose=False)
        start = time.perf_counter()
        codes = {str(row): hasher.encode_image(image_array=image) for row, image in enumerate(colored)}
        found = hasher.find_duplicates(
            encoding_map=codes, max_distance_threshold=RADII[-1], scores=True, num_dist_workers=0
        )
        seconds = time.perf_counter() - start
        near = [(int(a), int(b), d) for a, others in found.items() for b, d in others if int(a) < int(b)]
        for radius in RADII:
            pairs = [(a, b) for a, b, distance in near if distance <= radius]
            yield Found(f"imagededup {method.__name__}", radius, seconds, pairs)


def datasketch(data: dict[str, np.ndarray]) -> Iterator[Found]:
    """MinHash-LSH as its documentation shows it, over triples of words, and over words and pairs of words."""
    from datasketch import MinHash, MinHashLSH

    for title, sizes in {"triples of words": (3,), "words and pairs": (1, 2)}.items():
        start = time.perf_counter()
        sketches = [MinHash(num_perm=128) for _ in data["texts"]]
        for sketch, text in zip(sketches, data["texts"].tolist()):
            sketch.update_batch([shingle.encode() for shingle in _shingles(text.lower().split(), sizes)])
        sketching = time.perf_counter() - start
        for threshold in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
            start = time.perf_counter()
            lsh = MinHashLSH(threshold=threshold, num_perm=128)
            pairs: Pairs = []
            for row, sketch in enumerate(sketches):
                pairs.extend((int(other), row) for other in lsh.query(sketch))
                lsh.insert(str(row), sketch)
            seconds = sketching + time.perf_counter() - start
            yield Found(f"datasketch MinHash-LSH, {title}", threshold, seconds, pairs)


def _shingles(words: list[str], sizes: tuple[int, ...]) -> set[str]:
    return {" ".join(words[i : i + size]) for size in sizes for i in range(max(1, len(words) - size + 1))}


def semhash(data: dict[str, np.ndarray]) -> Iterator[Found]:
    """Pairs that it removes, each duplicate with what it says it duplicates; on given vectors, as its own model wants
    a download."""
    from semhash import SemHash

    names = [str(row) for row in range(len(data["vectors"]))]
    for max_distance in data["distances"].tolist():
        start = time.perf_counter()
        semhash = SemHash.from_embeddings(data["vectors"], names, model=None)
        removed = semhash.self_deduplicate(threshold=1 - max_distance).filtered
        seconds = time.perf_counter() - start
        pairs = {tuple(sorted((int(each.record), int(other)))) for each in removed for other, _ in each.duplicates}
        yield Found("semhash, the same vectors", max_distance, seconds, sorted(pairs))  # type: ignore[arg-type]


PEERS: dict[str, Callable[[dict[str, np.ndarray]], Iterator[Found]]] = {
    "imagededup": imagededup,
    "datasketch": datasketch,
    "semhash": semhash,
}


def main(peer: str, source: str, target: str) -> None:
    with np.load(source) as file:
        data = dict(file)
    found = [each._asdict() for each in PEERS[peer](data)]
    with open(target, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
