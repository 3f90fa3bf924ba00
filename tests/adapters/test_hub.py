"""What is pushed to a Hub on this machine comes back the same."""

import numpy as np
import pytest
from adapters.hub_endpoint import hub_here
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hashlearn import ITQ, SimilaritySearch
from hashlearn.adapters.hub import from_pretrained, model_card, push_to_hub, write_for_hub

X = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    with hub_here() as server:
        yield server


@pytest.mark.parametrize(
    "make", [lambda: ITQ(16, random_state=0), lambda: make_pipeline(Normalizer(), ITQ(16, random_state=0))]
)
def test_a_model(hub, tmp_path, make):
    model = make().fit(X)
    commit = push_to_hub(model, "me/itq", data="random numbers", recall={"10@10": 0.5}, endpoint=hub.address, token="t")
    assert "me/itq" in commit
    assert set(hub.repos["me/itq"]) == {"README.md", "config.json", "model.safetensors"}
    again = from_pretrained("me/itq", endpoint=hub.address, cache_dir=tmp_path / "cache", token="t")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_a_search_that_is_then_changed(hub, tmp_path):
    search = SimilaritySearch(ITQ(16, random_state=0), metric="cosine", keep_vectors="float16").fit(X)
    search.add(X, [f"row {row}" for row in range(200)], [{"row": row} for row in range(200)])
    push_to_hub(search, "me/search", endpoint=hub.address, token="t")
    pull = {"endpoint": hub.address, "cache_dir": tmp_path / "cache", "token": "t"}
    for folder in (None, tmp_path / "mine"):
        again = from_pretrained("me/search", folder, **pull)
        np.testing.assert_array_equal(again.search(X[:5], 4).ids, search.search(X[:5], 4).ids)
        again.remove(["row 0"]).save()
    assert len(from_pretrained(tmp_path / "mine")) == 199
    assert len(from_pretrained("me/search", **pull)) == 200


def test_a_folder_that_is_here(tmp_path):
    write_for_hub(ITQ(8, random_state=0).fit(X), tmp_path / "model")
    assert from_pretrained(tmp_path / "model").n_bits == 8


def test_the_card_says_method_bits_data_and_recall():
    card = model_card(ITQ(8, random_state=0).fit(X), "random numbers", {"10@10 of 50 queries": 0.25})
    for said in (
        "# ITQ, 8 bits",
        "| data | random numbers |",
        "- 10@10 of 50 queries: 0.25",
        "library_name: hashlearn",
    ):
        assert said in card
    search = SimilaritySearch(ITQ(8, random_state=0), metric="cosine", keep_vectors="float32").fit(X).add(X)
    assert "| rows | 200 |\n| metric | cosine |\n| vectors kept | float32 |" in model_card(search)
    tuning = search.tune(X[:20], k=5, target_recall=0.8)
    assert f"- 5@5 with {tuning.chosen} candidates, measured by tune: " in model_card(search)


def test_a_repository_that_is_not_there(hub, tmp_path):
    with pytest.raises(Exception, match=r"404|not found|Repository"):
        from_pretrained("me/nothing", endpoint=hub.address, cache_dir=tmp_path, token="t")
