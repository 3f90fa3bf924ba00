"""Readers beside a writer: whatever a reader finds is what the rows were before or after a change.

``python -m faults.soak`` runs the same for as long as you like.
"""

import os

import pytest
from faults.soak import Reading, n_wrong, process_beside_a_writer, threads_beside_a_writer
from replay import HASHER, after, nearest, operation

from hashlearn import SimilaritySearch

SECONDS = 2


def test_readers_beside_a_writer_in_memory():
    soaked = threads_beside_a_writer(SimilaritySearch(HASHER), SECONDS)
    assert soaked.reads
    assert (soaked.wrong, soaked.errors) == (0, [])


def test_readers_beside_a_writer_over_a_store(tmp_path):
    pytest.importorskip("lancedb")
    soaked = threads_beside_a_writer(SimilaritySearch(HASHER, store=f"lance://{tmp_path}/rows"), SECONDS)
    assert soaked.reads
    assert (soaked.wrong, soaked.errors) == (0, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_reader_in_another_process_that_refreshes(tmp_path):
    soaked = process_beside_a_writer(tmp_path / "search", SECONDS)
    assert soaked.reads
    assert (soaked.wrong, soaked.errors) == (0, [])


def test_the_replayed_log_tells_what_cannot_be():
    first = after({}, operation(0))
    second = after(first, operation(1))
    now, later = nearest(first)[0], nearest(second)[0]
    assert now != later
    assert n_wrong([Reading(1, 1, 0, now), Reading(2, 2, 0, later), Reading(1, 2, 0, later)], 2) == 0
    assert n_wrong([Reading(1, 1, 0, later), Reading(2, 2, 0, now), Reading(1, 2, 0, now[::-1])], 2) == 3
