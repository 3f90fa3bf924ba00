"""Groups of rows that are alike, and what they are called: their most telling words or payload values."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

MOST_CLUSTERS = 24
TEXT_FIELD = "text"
_WORDS_OF_NAME = 3
_LEAST_SHARE = 0.05
_CLEAR_SHARE = 0.6
_MOST_VALUES = 200
_WORD = re.compile(r"[^\W\d_]{3,}")


def clusters_of(vectors: NDArray, random_state: int = 0) -> NDArray[np.uint8]:
    """The cluster of each row by k-means, the largest cluster first; about sqrt(n) / 4 clusters."""
    n_clusters = int(np.clip(round(np.sqrt(len(vectors)) / 4), 1, MOST_CLUSTERS))
    found = KMeans(n_clusters, n_init=1, max_iter=50, random_state=random_state).fit(vectors).labels_
    order = np.argsort(-np.bincount(found, minlength=n_clusters), kind="stable")
    ranks = np.empty(n_clusters, np.uint8)
    ranks[order] = np.arange(n_clusters)
    return ranks[found]


def cluster_names(clusters: NDArray[np.uint8], ids: Sequence[Any], payloads: Sequence[dict[str, Any]]) -> list[str]:
    """A name for each cluster, none twice.

    Parameters
    ----------
    clusters : array of shape (n,)
    ids : list of n
        Where there are no texts, the words in names of files.
    payloads : list of n dicts

    Examples
    --------
    >>> payloads = [{"text": "red fox"}, {"text": "grey fox"}, {"text": "the bank fell"}, {"text": "a bank"}]
    >>> cluster_names(np.array([0, 0, 1, 1], np.uint8), range(4), payloads)
    ['fox, grey, red', 'bank, fell']
    """
    words = [_words(id, payload) for id, payload in zip(ids, payloads)]
    names: list[str] = []
    for cluster in range(int(clusters.max()) + 1 if len(clusters) else 0):
        inside = np.flatnonzero(clusters == cluster).tolist()
        name = _by_value(inside, payloads) or _by_words(inside, words) or f"Cluster {cluster + 1}"
        names.append(name if name not in names else f"{name} ({cluster + 1})")
    return names


def cluster_color(number: int) -> str:
    """The color of a cluster on the map: neighbors in number are far apart on the wheel of colors."""
    return f"hsl({number * 137.5 % 360:.0f} 62% {(48, 62, 54)[number % 3]}%)"


def _words(id: Any, payload: dict[str, Any]) -> set[str]:
    text = payload.get(TEXT_FIELD)
    if text is None:
        text = id.rpartition("/")[2].rpartition(".")[0] if isinstance(id, str) else ""
    return {word for word in _WORD.findall(str(text).lower()) if word not in ENGLISH_STOP_WORDS}


def _by_value(inside: list[int], payloads: Sequence[dict[str, Any]]) -> str | None:
    """The values that most rows of the cluster have and few others, of a field with few values."""
    best, best_share = None, _CLEAR_SHARE
    for field in sorted({field for row in inside[:100] for field in payloads[row] if field != TEXT_FIELD}):
        values = [payload.get(field) for payload in payloads]
        if not all(isinstance(value, (str, int, bool, type(None))) for value in values):
            continue
        everywhere = Counter(values)
        if len(everywhere) > _MOST_VALUES:
            continue
        shares = {
            value: count / len(inside)
            for value, count in Counter(values[row] for row in inside).most_common(_WORDS_OF_NAME)
            if value is not None and count / len(inside) >= max(0.2, 2 * everywhere[value] / len(values))
        }
        if sum(shares.values()) > best_share:
            best, best_share = f"{field} {', '.join(map(str, shares))}", sum(shares.values())
    return best


def _by_words(inside: list[int], words: list[set[str]]) -> str | None:
    """The words that are frequent in the cluster and rare elsewhere."""
    here = Counter(word for row in inside for word in words[row])
    if not here:
        return None
    everywhere = Counter(word for each in words for word in each)
    scores = {
        word: count / len(inside) * np.log(count / len(inside) * len(words) / everywhere[word])
        for word, count in here.items()
        if count >= max(1, _LEAST_SHARE * len(inside))
    }
    telling = sorted((-score, word) for word, score in scores.items() if score > 0)
    return ", ".join(word for _, word in telling[:_WORDS_OF_NAME]) or None
