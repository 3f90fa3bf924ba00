"""Counting all pairs of queries and database items by distance, with the kernels.

For relevance by class the database is sorted by class, and relevant items are a range of positions. Relevance by labels
is a test of shared bits. Any other relevance is computed block by block.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from hashlearn.codes import paired_distances
from hashlearn.index.kernels.histograms import (
    Labels,
    buffer_for,
    count_distances,
    count_distances_in,
    count_distances_sharing,
)
from hashlearn.index.kernels.tiles import as_tile_words, tiled, word_layout
from hashlearn.metrics.relevance import Relevance, SharedClass, SharedLabel
from hashlearn.progress import track

_QUERIES_PER_BLOCK = 128
_ITEMS_PER_BLOCK = 2**14


def count_pairs(
    queries: NDArray[np.uint8], items: NDArray[np.uint8], n_bits: int, relevance: Relevance
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Items, and relevant items, at every distance 0..n_bits of every query: two arrays (n_queries, n_bits + 1)."""
    everything, relevant = np.zeros((2, len(queries), n_bits + 1), np.int64)
    first = last = np.empty(0, np.int64)
    if isinstance(relevance, SharedClass):
        order = np.argsort(relevance.classes, kind="stable")
        items, ascending = items[order], relevance.classes[order]
        first, last = (np.searchsorted(ascending, relevance.query_classes, side) for side in ("left", "right"))
    tiles, words, buffer = tiled(items, n_bits), as_tile_words(queries, word_layout(n_bits)), buffer_for(n_bits)
    for rows in track(list(gen_batches(len(queries), _QUERIES_PER_BLOCK)), "ranking"):
        count_distances(tiles, words[rows], buffer, everything[rows])
        if isinstance(relevance, SharedClass):
            count_distances_in(tiles, words[rows], first[rows], last[rows], buffer, relevant[rows])
        elif isinstance(relevance, SharedLabel):
            labels = Labels(relevance.query_words[rows], relevance.words)
            count_distances_sharing(tiles, words[rows], labels, buffer, relevant[rows])
        else:
            relevant[rows] = _relevant_by_block(queries, items, n_bits, relevance, rows)
    return everything, relevant


def _relevant_by_block(
    queries: NDArray[np.uint8], items: NDArray[np.uint8], n_bits: int, relevance: Relevance, rows: slice
) -> NDArray[np.int64]:
    width, n_rows = n_bits + 1, rows.stop - rows.start
    counts = np.zeros(n_rows * width, np.int64)
    for block in gen_batches(len(items), _ITEMS_PER_BLOCK):
        query, item = np.nonzero(relevance.block(rows, block))
        distances = paired_distances(queries[rows][query], items[block][item], n_bits)
        counts += np.bincount(query * width + distances, minlength=counts.size)
    return counts.reshape(n_rows, width)
