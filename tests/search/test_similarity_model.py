"""SimilaritySearch against a dict: whatever is added, replaced, removed, saved and opened, both hold the same."""

import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hashlearn import LSH, SimilaritySearch
from hashlearn.codes import hamming_distances
from hashlearn.codes.results import NO_DISTANCE

N_BITS, N_FEATURES = 10, 4
TRAINING = np.random.default_rng(0).standard_normal((50, N_FEATURES)).astype(np.float32)
HASHER = LSH(n_bits=N_BITS, random_state=0).fit(TRAINING)
"""Few bits: there are many ties."""

numbers = st.integers(0, 40)
payloads = st.sampled_from([None, {}, {"color": "red", "size": 1}, {"color": "blue", "größe": 2.5}])


class Model(RuleBasedStateMachine):
    """Two processes, in turn, that have the same folder open, and what the rows must be."""

    id_of = staticmethod(int)
    options: ClassVar[dict] = {}

    def __init__(self):
        super().__init__()
        self.rows: dict = {}
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "search"
        self.rng = np.random.default_rng(0)

    def teardown(self):
        self.folder.cleanup()

    @initialize()
    def begin(self):
        self.search = SimilaritySearch(HASHER, **self.options)

    def vectors(self, n):
        return self.rng.standard_normal((n, N_FEATURES)).astype(np.float32)

    @rule(ids=st.lists(numbers, unique=True, max_size=12), payload=payloads)
    def upsert(self, ids, payload):
        ids = [self.id_of(id) for id in ids]
        X = self.vectors(len(ids))
        self.search.upsert(X, ids, None if payload is None else [payload] * len(ids))
        self.rows |= {id: (x, payload or {}) for id, x in zip(ids, X)}

    @rule(ids=st.lists(numbers, unique=True, min_size=1, max_size=5))
    def add(self, ids):
        ids = [self.id_of(id) for id in ids]
        X = self.vectors(len(ids))
        if any(id in self.rows for id in ids):
            with pytest.raises(ValueError, match="ids must be new"):
                self.search.add(X, ids)
        else:
            self.search.add(X, ids)
            self.rows |= {id: (x, {}) for id, x in zip(ids, X)}

    @rule(data=st.data())
    def remove(self, data):
        if self.rows:
            gone = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True))
            self.search.remove(gone)
            for id in gone:
                del self.rows[id]
        with pytest.raises(ValueError, match="which is not"):
            self.search.remove([*sorted(self.rows)[:1], self.id_of(99)])

    @rule()
    def save_and_open(self):
        self.search.save(self.path)
        self.search = SimilaritySearch.open(self.path)

    @rule()
    def save_for_another_that_refreshes(self):
        if self.path.exists() and self.search.folder is not None:
            other = SimilaritySearch.open(self.path)
            self.search.save()
            other.refresh()
            self.search = other

    @invariant()
    def it_holds_what_the_dict_holds(self):
        assert len(self.search) == len(self.rows)
        assert list(self.search) == sorted(self.rows)
        asked = [self.id_of(id) for id in (3, 99, 7, 20, 3)]
        found = self.search.get(asked)
        assert [record.id for record in found] == [id for id in asked if id in self.rows]
        for record in found:
            x, payload = self.rows[record.id]
            assert record.payload == payload
            assert np.array_equal(record.code, HASHER.transform(x[None])[0])
            if self.search.keep_vectors:
                assert np.array_equal(record.vector, x)
        assert all((id in self.search) == (id in self.rows) for id in asked)

    @invariant()
    def it_finds_what_a_sorted_list_finds(self):
        queries = self.vectors(2)
        ids = sorted(self.rows)
        stored = np.array([self.rows[id][0] for id in ids], np.float32).reshape(-1, N_FEATURES)
        distances = hamming_distances(HASHER.transform(queries), HASHER.transform(stored), N_BITS)
        for filter in (None, {"color": "red"}):
            found = self.search.search(queries, 6, rerank="codes", filter=filter)
            for q in range(2):
                meeting = [i for i, id in enumerate(ids) if filter is None or self.rows[id][1].get("color") == "red"]
                wanted = sorted((int(distances[q, i]), ids[i]) for i in meeting)[:6]
                n = len(wanted)
                assert list(zip(found.distances[q, :n].tolist(), found.ids[q, :n].tolist())) == wanted
                assert set(found.distances[q, n:].tolist()) <= {NO_DISTANCE}
        within = self.search.within(queries, 3, rerank="codes", subset=ids[::2])
        for q in range(2):
            wanted = sorted((int(distances[q, i]), ids[i]) for i in range(0, len(ids), 2) if distances[q, i] <= 3)
            assert list(zip(within[q].distances.tolist(), within[q].ids.tolist())) == wanted

    @invariant()
    def kept_vectors_order_by_distance(self):
        if self.search.keep_vectors and self.rows:
            query = self.vectors(1)
            ids = sorted(self.rows)
            exact = np.linalg.norm(np.array([self.rows[id][0] for id in ids]) - query, axis=1)
            found = self.search.search(query, len(ids), candidates=len(ids))
            np.testing.assert_allclose(found.distances[0], np.sort(exact), rtol=1e-4)
            assert set(found.ids[0]) == set(ids)


def text_of(number: int) -> str:
    """Strings whose order is not that of the numbers; some letters are beyond ASCII."""
    return f"{'aé漢'[number % 3]}{number * 7 % 41}"


class TextModel(Model):
    id_of = staticmethod(text_of)


class VectorModel(Model):
    options: ClassVar[dict] = {"keep_vectors": "float32"}


class TextVectorModel(TextModel):
    options: ClassVar[dict] = {"keep_vectors": "float32"}


SETTINGS = settings(max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))
for model in (Model, TextModel, VectorModel, TextVectorModel):
    model.TestCase.settings = SETTINGS

TestIntegers, TestTexts = Model.TestCase, TextModel.TestCase
TestIntegersWithVectors, TestTextsWithVectors = VectorModel.TestCase, TextVectorModel.TestCase
