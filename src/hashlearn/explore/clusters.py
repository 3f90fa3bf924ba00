"""Clusters of similar rows, and names for them from their most telling words or payload values."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import sklearn  # loads its parts at their first use: a page starts without them
from numpy.typing import NDArray

MOST_CLUSTERS = 24
TEXT_FIELD = "text"
_WORDS_OF_NAME = 3
_LEAST_FREQUENT = 0.25
"""A word of a name is in at least this many times the rows that have the most frequent word of the name."""
_NO_STOP_WORDS = {"bill", "computer", "cry", "fire", "interest", "mill", "system"}
"""Words that scikit-learn leaves out, although they tell what a text is about."""
_CLEAR_SHARE = 0.6
_MOST_VALUES = 200
_LONGEST_LABEL = 30
_TELLING_LIFT = 1.25
"""A value must be this many times as frequent in the cluster as in all rows to be a name: most pictures are wide."""
_FEW_ROWS = 2000
_WORD = re.compile(r"[^\W\d_]{3,}")


class _Share(NamedTuple):
    """The share of a cluster's rows that have a value, and this share divided by that of all rows."""

    value: Any
    share: float
    lift: float


class RowClusters(NamedTuple):
    """Clusters of rows.

    Attributes
    ----------
    labels : array of shape (n,)
        The cluster of each row, the largest cluster first.
    away : array of shape (n,)
        The distance of each row from the center of its cluster.
    """

    labels: NDArray[np.uint8]
    away: NDArray[np.float32]


def clusters_of(vectors: NDArray, random_state: int = 0) -> RowClusters:
    """Clusters by k-means. Their number is about the cube root of n: 6 for 261 rows, 20 for 8,000."""
    n_clusters = int(np.clip(round(np.cbrt(len(vectors))), 1, MOST_CLUSTERS))
    n_init = 5 if len(vectors) <= _FEW_ROWS else 1  # among few rows, one odd row may be a cluster by itself
    found = sklearn.cluster.KMeans(n_clusters, n_init=n_init, max_iter=50, random_state=random_state).fit(vectors)
    away = np.linalg.norm(vectors - found.cluster_centers_[found.labels_], axis=1)
    order = np.argsort(-np.bincount(found.labels_, minlength=n_clusters), kind="stable")
    ranks = np.empty(n_clusters, np.uint8)
    ranks[order] = np.arange(n_clusters)
    return RowClusters(ranks[found.labels_], away.astype(np.float32))


def cluster_names(clusters: RowClusters, ids: Sequence[Any], payloads: Sequence[dict[str, Any]]) -> list[str]:
    """A different name for each cluster.

    The name is a payload value that most rows of the cluster and few other rows have. If there is none, it is made of
    the words that are more frequent in the cluster than elsewhere. If most texts are one word, as for word vectors, or
    no word is in two rows of the cluster, the name is made of the texts of the central rows. Clusters without texts are
    named by the values that many of their rows share.

    Parameters
    ----------
    clusters : RowClusters
    ids : list of n
        File names, whose words are used if there are no texts.
    payloads : list of n dicts

    Examples
    --------
    >>> texts = ["red fox", "grey fox", "fox", "the bank fell", "a bank"]
    >>> clusters = RowClusters(np.array([0, 0, 0, 1, 1], np.uint8), np.zeros(5, np.float32))
    >>> cluster_names(clusters, range(5), [{"text": text} for text in texts])
    ['fox, grey, red', 'bank, fell']
    """
    texts = [_text(id, payload) for id, payload in zip(ids, payloads)]
    words = [_words(text) for text in texts]
    everywhere = Counter(word for each in words for word in each)
    has_texts = any(TEXT_FIELD in payload for payload in payloads)
    names: list[str] = []
    for cluster in range(int(clusters.labels.max()) + 1 if len(words) else 0):
        inside = np.flatnonzero(clusters.labels == cluster)
        central = inside[np.argsort(clusters.away[inside], kind="stable")]
        shares = _shares(inside.tolist(), payloads)
        by_value, traits = _by_value(shares), None if has_texts else _by_traits(shares)
        by_words = _by_words([words[row] for row in inside], everywhere, len(words)) or _by_texts(central, texts)
        name = by_value or traits or by_words or f"Cluster {cluster + 1}"
        if name in names and by_value and by_words:
            name = f"{by_value}: {by_words}"
        names.append(_other_than(names, name))
    return names


def typical_rows(clusters: RowClusters, vectors: NDArray, n: int) -> list[list[int]]:
    """Up to n rows of each cluster, the nearest to its center first, without rows that are nearly equal to another.

    >>> clusters = RowClusters(np.array([0, 0, 0, 1], np.uint8), np.array([2.0, 1.0, 1.1, 3.0], np.float32))
    >>> typical_rows(clusters, np.array([[2.0], [-1.0], [-1.1], [9.0]]), 2)
    [[1, 0], [3]]
    """
    found: list[list[int]] = [[] for _ in range(int(clusters.labels.max()) + 1 if len(clusters.labels) else 0)]
    for row in np.argsort(clusters.away, kind="stable").tolist():
        chosen = found[clusters.labels[row]]
        if len(chosen) < n and not _is_copy(vectors[row], vectors[chosen], clusters.away[row]):
            chosen.append(row)
    return found


def _is_copy(vector: NDArray, others: NDArray, away: float) -> bool:
    """Whether a row is much nearer to one of the others than to the center of its cluster."""
    return bool((np.linalg.norm(others - vector, axis=1) <= 0.5 * away).any())


def cluster_color(number: int) -> str:
    """The color of a cluster on the map. Consecutive numbers have very different colors."""
    return f"hsl({number * 137.5 % 360:.0f} 62% {(48, 62, 54)[number % 3]}%)"


def _other_than(names: list[str], name: str) -> str:
    numbered = (f"{name} ({number})" for number in range(2, len(names) + 2))
    return name if name not in names else next(each for each in numbered if each not in names)


def _text(id: Any, payload: dict[str, Any]) -> str:
    text = payload.get(TEXT_FIELD)
    if text is not None:
        return str(text)
    name = id.rpartition("/")[2] if isinstance(id, str) else ""
    return re.sub("[_-]+", " ", name.rpartition(".")[0] or name)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - (sklearn.feature_extraction.text.ENGLISH_STOP_WORDS - _NO_STOP_WORDS)


def _shares(inside: list[int], payloads: Sequence[dict[str, Any]]) -> dict[str, list[_Share]]:
    """The shares of the most frequent values in a cluster, for each field with few different values."""
    found: dict[str, list[_Share]] = {}
    for field in sorted({field for row in inside[:100] for field in payloads[row] if field != TEXT_FIELD}):
        values = [payload.get(field) for payload in payloads]
        if not all(isinstance(value, (str, int, bool, type(None))) for value in values):
            continue
        everywhere = Counter(values)
        if len(everywhere) > _MOST_VALUES:
            continue
        here = Counter(values[row] for row in inside).most_common(_WORDS_OF_NAME)
        found[field] = [
            _Share(value, count / len(inside), count * len(values) / (len(inside) * everywhere[value]))
            for value, count in here
            if value is not None
        ]
    return found


def _by_value(shares: dict[str, list[_Share]]) -> str | None:
    """The values of one field that most rows of the cluster and few other rows have."""
    best, best_share = None, _CLEAR_SHARE
    for field, values in shares.items():
        clear = [each for each in values if each.share >= 0.2 and each.lift >= 2]
        if sum(each.share for each in clear) > best_share:
            best_share = sum(each.share for each in clear)
            listed = ", ".join(str(each.value) for each in clear)
            best = listed if all(isinstance(each.value, str) for each in clear) else f"{field} {listed}"
    return best


def _by_traits(shares: dict[str, list[_Share]]) -> str | None:
    """Values of several fields that many rows of the cluster have, and more often than other rows."""
    traits = []
    for values in shares.values():
        words = [each for each in values if isinstance(each.value, str)]
        frequent = [each for each in words if each.share >= 0.2 and each.lift >= _TELLING_LIFT]
        traits += sorted((-each.share * np.log(each.lift), each.value) for each in frequent)[:1]
    return ", ".join(value for _, value in sorted(traits)[:_WORDS_OF_NAME]) or None


def _by_words(inside: list[set[str]], everywhere: Counter[str], n: int) -> str | None:
    """The words that are in more rows of the cluster than by chance; None if the texts are single words.

    The score of a word is its number of rows in the cluster times the logarithm of this number over the expected one.
    The largest cluster is often a mixture, and each of its words is in few of its rows.
    """
    here = Counter(word for words in inside for word in words)
    is_of_labels = np.median([len(words) for words in inside]) <= 1
    if not here or (len(inside) > 2 and (is_of_labels or max(here.values()) < 2)):
        return None
    scores = {word: count * np.log(count * n / (len(inside) * everywhere[word])) for word, count in here.items()}
    telling = sorted((-score, -here[word], word) for word, score in scores.items() if score >= 0)
    named = telling[:_WORDS_OF_NAME]
    least = _LEAST_FREQUENT * max((here[word] for _, _, word in named), default=0)
    return ", ".join(word for _, _, word in named if here[word] >= least) or None


def _by_texts(central: NDArray[np.int64], texts: list[str]) -> str | None:
    """Different short texts of the rows in the middle of the cluster, such as words of word vectors."""
    chosen: dict[frozenset[str], str] = {}
    for text in (texts[row] for row in central if 0 < len(texts[row]) <= _LONGEST_LABEL):
        chosen.setdefault(frozenset(_words(text)) or frozenset([text]), text)
        if len(chosen) == _WORDS_OF_NAME:
            break
    return ", ".join(chosen.values()) or None
