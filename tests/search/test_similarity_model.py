"""SimilaritySearch against a dict: whatever is added, replaced, removed, saved and opened, both hold the same."""

import tempfile
import warnings
from collections import Counter
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
        self.search, self.other = SimilaritySearch(HASHER, **self.options), None

    def vectors(self, n):
        return self.rng.standard_normal((n, N_FEATURES)).astype(np.float32)

    @rule(ids=st.lists(numbers, unique=True, max_size=12), payload=payloads)
    def upsert(self, ids, payload):
        ids = [self.id_of(id) for id in ids]
        X = self.vectors(len(ids))
        self.search.upsert(X, ids, None if payload is None else [payload] * len(ids))
        self.put({id: (x, payload or {}) for id, x in zip(ids, X)})

    @rule(ids=st.lists(numbers, unique=True, min_size=1, max_size=5))
    def add(self, ids):
        ids = [self.id_of(id) for id in ids]
        X = self.vectors(len(ids))
        if any(id in self.rows for id in ids):
            with pytest.raises(ValueError, match="ids must be new"):
                self.search.add(X, ids)
        else:
            self.search.add(X, ids)
            self.put({id: (x, {}) for id, x in zip(ids, X)})

    def put(self, new):
        """Rows that are replaced are new ones: ties go to those that were added first."""
        self.rows = {id: row for id, row in self.rows.items() if id not in new} | new

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
        self.search, self.other = SimilaritySearch.open(self.path), None

    @rule(ids=st.lists(numbers, unique=True, max_size=12))
    def another_process_changes_the_folder(self, ids):
        """The one here sees it after a refresh; the other one goes on, and this one catches up when it writes."""
        if self.search.folder is not None:
            self.other = SimilaritySearch.open(self.path) if self.other is None else self.other
            self.search, self.other = self.other, self.search
            self.upsert(ids, {"color": "red"})
            self.other.refresh()

    @rule()
    def compact(self):
        self.search.compact()

    @rule(ids=st.lists(numbers, unique=True, min_size=1, max_size=6), fails=st.booleans())
    def several_changes_at_once(self, ids, fails):
        ids = [self.id_of(id) for id in ids]
        X, before = self.vectors(len(ids)), dict(self.rows)
        try:
            with self.search.transaction():
                self.search.upsert(X, ids)
                self.search.remove(ids[:1])
                with pytest.raises(ValueError, match="which is not"):
                    self.search.remove([self.id_of(99)])
                self.search.upsert(X[:1], ids[:1], [{"color": "blue"}])
                if fails:
                    raise KeyError("given up")
        except KeyError:
            self.rows = before
        else:
            self.put({id: (x, {}) for id, x in zip(ids[1:], X[1:])})
            self.put({ids[0]: (X[0], {"color": "blue"})})

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
        ids = list(self.rows)
        stored = np.array([self.rows[id][0] for id in ids], np.float32).reshape(-1, N_FEATURES)
        distances = hamming_distances(HASHER.transform(queries), HASHER.transform(stored), N_BITS)
        for filter in (None, {"color": "red"}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no row may have had a color yet
                found = self.search.search(queries, 6, rerank="codes", filter=filter)
            for q in range(2):
                meeting = [i for i, id in enumerate(ids) if filter is None or self.rows[id][1].get("color") == "red"]
                wanted = [(int(distances[q, i]), ids[i]) for i in sorted(meeting, key=lambda i: distances[q, i])[:6]]
                n = len(wanted)
                assert list(zip(found.distances[q, :n].tolist(), found.ids[q, :n].tolist())) == wanted
                assert set(found.distances[q, n:].tolist()) <= {NO_DISTANCE}
        within = self.search.within(queries, 3, rerank="codes", subset=ids[::2])
        for q in range(2):
            near = [i for i in range(0, len(ids), 2) if distances[q, i] <= 3]
            wanted = [(int(distances[q, i]), ids[i]) for i in sorted(near, key=lambda i: distances[q, i])]
            assert list(zip(within[q].distances.tolist(), within[q].ids.tolist())) == wanted

    @invariant()
    def counts_facets_and_pages_are_those_of_the_dict(self):
        colors = [payload["color"] for _, payload in self.rows.values() if "color" in payload]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert {facet.value: facet.count for facet in self.search.facets("color")} == dict(Counter(colors))
            assert self.search.count({"color": {"$ne": "red"}}) == len(self.rows) - colors.count("red")
            seen, after = [], None
            while True:
                page = self.search.scroll({"color": "blue"}, limit=2, after=after)
                seen += [record.id for record in page.records]
                after = page.after
                if after is None:
                    break
        assert seen == [id for id, (_, payload) in self.rows.items() if payload.get("color") == "blue"]

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
