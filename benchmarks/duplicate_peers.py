"""The peers of benchmarks/duplicates.py, each as a function that gives pairs of rows."""

import logging
import sys
import types
from collections.abc import Callable, Iterator, Sequence

import numpy as np

PairSet = set[tuple[int, int]]


def image_hashes(images: np.ndarray, radii: Sequence[int]) -> Iterator[tuple[str, Callable[[], dict[float, PairSet]]]]:
    """imagededup's hashes of images, each as a function that gives the pairs within several radii."""
    # imagededup imports torch for its networks, which are not measured here.
    for name, member in {"methods.cnn": "CNN", "utils.models": "CustomModel"}.items():
        sys.modules.setdefault(f"imagededup.{name}", types.SimpleNamespace(**{member: None}))  # type: ignore[arg-type]
    try:
        from imagededup.methods import AHash, DHash, PHash, WHash
    except ImportError as error:
        print(f"imagededup is left out: {error}")
        return
    logging.getLogger("imagededup").setLevel(logging.ERROR)
    for method in (PHash, DHash, AHash, WHash):
        yield method.__name__, lambda method=method: _hash_pairs(method(verbose=False), images, radii)


def _hash_pairs(method, images: np.ndarray, radii: Sequence[int]) -> dict[float, PairSet]:
    colored = np.repeat(images[..., None], 3, axis=-1)
    codes = {str(row): method.encode_image(image_array=image) for row, image in enumerate(colored)}
    widest = max(radii)
    found = method.find_duplicates(encoding_map=codes, max_distance_threshold=widest, scores=True, num_dist_workers=0)
    pairs = [(int(a), int(b), distance) for a, others in found.items() for b, distance in others]
    return {float(radius): {(a, b) for a, b, distance in pairs if a < b and distance <= radius} for radius in radii}


def minhash_pairs(texts: list[str], threshold: float) -> PairSet:
    """Pairs of MinHash-LSH over triples of words, as datasketch's documentation shows it."""
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(threshold=threshold, num_perm=128)
    found: PairSet = set()
    for row, text in enumerate(texts):
        words = text.lower().split()
        sketch = MinHash(num_perm=128)
        sketch.update_batch([" ".join(words[i : i + 3]).encode() for i in range(max(1, len(words) - 2))])
        found.update((int(other), row) for other in lsh.query(sketch))
        lsh.insert(str(row), sketch)
    return found


def semhash_pairs(X: np.ndarray, max_distance: float) -> PairSet:
    """Pairs that semhash removes: each duplicate with what it says it duplicates."""
    from semhash import SemHash

    names = [str(row) for row in range(len(X))]
    semhash = SemHash.from_embeddings(X, names, model=None)
    found: PairSet = set()
    for record in semhash.self_deduplicate(threshold=1 - max_distance).filtered:
        for other, _ in record.duplicates:
            a, b = sorted((int(record.record), int(other)))
            found.add((a, b))
    return found
