import numpy as np
import pytest

from hashlearn.features import encoder_named, load_encoder, save_encoder
from hashlearn.features.shingles import ShingleEncoder, shingles

RNG = np.random.RandomState(0)
WORDS = [f"word{i}" for i in range(500)]
TEXTS = [" ".join(RNG.choice(WORDS, 60)) for _ in range(200)]


def test_the_cosine_is_the_share_of_words_and_pairs_in_common():
    words = TEXTS[0].split()
    changed = [" ".join([*words[:n], *TEXTS[1].split()[n:]]) for n in range(0, 60, 5)]
    vectors = ShingleEncoder(4096).encode([TEXTS[0], *changed])
    first = shingles(TEXTS[0])
    shared = [len(first & shingles(text)) / np.sqrt(len(first) * len(shingles(text))) for text in changed]
    np.testing.assert_allclose(vectors[0] @ vectors[1:].T, shared, atol=0.05)


def test_edited_texts_are_nearer_than_any_others():
    encoder = encoder_named("shingles", "text").fit([])
    edited = [" ".join([*text.split()[:-3], "other", "words", "here"]) for text in TEXTS]
    similarity = encoder.encode(TEXTS) @ encoder.encode(edited).T
    assert np.diag(similarity).min() > 0.9
    np.fill_diagonal(similarity, 0)
    assert similarity.max() < 0.5


def test_a_vector_depends_on_its_text_alone_and_not_on_case_or_spaces(tmp_path):
    encoder = ShingleEncoder()
    save_encoder(encoder, tmp_path / "encoder")
    alone = load_encoder(tmp_path / "encoder").encode([TEXTS[5].upper().replace(" ", "\n ")])
    np.testing.assert_array_equal(alone[0], encoder.encode(TEXTS)[5])
    assert not encoder.encode(["  "]).any()
    assert encoder.encode([]).shape == (0, encoder.n_features)


def test_the_number_of_features_is_checked():
    with pytest.raises(ValueError, match="n_features"):
        ShingleEncoder(0)
