"""Texts are duplicates by their words: what the rule promises, in numbers."""

import re
from collections import Counter
from itertools import pairwise
from math import log

import numpy as np
import pytest
from duplicates.near_pairs import group_sets
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import Duplicates
from hashlearn.duplicates import find_duplicate_texts
from hashlearn.duplicates.texts import Rarity, TextRows, TextWords


def differing_share(a, b):
    """The share of the different words of two texts that only one of them has."""
    one, two = set(a.lower().split()), set(b.lower().split())
    return 1 - len(one & two) / len(one | two)


def distance(a, b, texts):
    """The rule of the module's text, word by word."""
    one, two = Counter(a.lower().split()), Counter(b.lower().split())
    n_texts_of = Counter(word for text in texts for word in set(text.lower().split()))
    weights = {word: log((len(texts) + 1) / max(1, n_texts_of[word])) for word in one | two}

    def weight(words):
        return sum(weights[word] * count for word, count in words.items())

    longest = max(one.total(), two.total())
    share = max(0, max((one - two).total(), (two - one).total()) - 0.5) / longest
    weighted = max(weight(one - two), weight(two - one)) / max(weight(one), weight(two))
    apart = differing_share(a, b)
    of_both = 2 * apart if longest < 20 else np.interp(apart, [0, 0.1, 0.25, 1], [0, 0.08, 0.1, 0.4])
    pairs = [Counter(pairwise(text.lower().split())) for text in (a, b)]
    most = max(each.total() for each in pairs)
    neighbors = (most - (pairs[0] & pairs[1]).total()) / most if most else 0
    return max(share, weighted / 2, of_both, neighbors / 3)


WORDS = ["the", "a", "of", "Fox", "dog", "1.2", "1.3", "x", "y", "ß", "ﬁ"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=8))
def test_the_distance_is_what_the_rule_says(texts):
    rows = TextRows(TextWords.of(texts))
    first, second = np.triu_indices(len(texts), 1)
    wanted = [distance(texts[a], texts[b], texts) for a, b in zip(first, second)]
    np.testing.assert_allclose(rows.distances(first, second), wanted, atol=1e-12)


OTHER_TEXTS = [f"other text {number}" for number in range(500)]
"""With them the words of the other texts are about equally rare, so that no text is far because of its rare words."""


@st.composite
def edited_texts(draw):
    """Texts with many repeated words, and copies of them in which some words are other words."""
    word = st.sampled_from([f"w{i}" for i in range(40)])
    texts = draw(st.lists(st.lists(word, min_size=1, max_size=60), min_size=1, max_size=4))
    for words in list(texts):
        copy = list(words)
        for _ in range(draw(st.integers(0, 6))):
            copy[draw(st.integers(0, len(copy) - 1))] = draw(word)
        texts.append(copy)
    return [" ".join(words) for words in texts] + OTHER_TEXTS


@settings(max_examples=300, deadline=None)
@given(edited_texts())
def test_what_is_dropped_differs_from_what_is_kept_in_at_most_the_promised_share(texts):
    """The promises of the page, for any texts."""
    for max_distance, promised in ((0.1, {20: 0, 10**9: 0.25}), (0.08, {20: 0, 10**9: 0.1})):
        for group in find_duplicate_texts(texts, max_distance).groups:
            for row in group.members.tolist():
                kept, dropped = texts[group.kept], texts[row]
                longest = max(len(kept.split()), len(dropped.split()))
                assert (
                    differing_share(kept, dropped) <= min(s for below, s in promised.items() if longest < below) + 1e-9
                )
                one, two = Counter(kept.split()), Counter(dropped.split())
                differing = max((one - two).total(), (two - one).total())
                assert differing <= max_distance * longest + 0.5 + 1e-9


def test_words_that_are_repeated_count_once_among_the_different_words():
    """Two of twenty words are replaced, but these are two of the three that the text has."""
    texts = [" ".join(18 * ["tick"] + words) for words in (["red", "fox"], ["big", "dog"])]
    assert len(find_duplicate_texts(texts + OTHER_TEXTS).dropped) == 0


def test_rarity_does_not_depend_on_the_blocks():
    words = TextWords.of([f"a b{i % 7} c{i % 3} a" for i in range(100)])
    for left, right in zip(Rarity.of(words), Rarity.of(words, at_once=9)):
        np.testing.assert_array_equal(left, right)


NAMES = [f"lib{number}" for number in range(200)]


@pytest.mark.parametrize(
    "boilerplate",
    [
        "Development files for {}",
        "{} shared library",
        "Python 3 bindings for the {} library, version 2.1",
        "This package contains the header files and static libraries that you need to compile programs which use {} "
        "and some examples of how to do that in practice",
    ],
)
def test_boilerplate_does_not_merge_different_things(boilerplate):
    others = [f"{word}{i} does something else entirely" for i, word in enumerate(300 * ["thing"])]
    found = find_duplicate_texts([boilerplate.format(name) for name in NAMES] + others)
    assert len(found.dropped) == 0


@pytest.mark.parametrize(
    ("one", "two"), [("version 1.2 of the program", "version 1.3 of the program"), ("5 red dogs", "6 red dogs")]
)
def test_numbers_and_versions_count(one, two):
    assert len(find_duplicate_texts([one, two]).dropped) == 0


@pytest.mark.parametrize(
    "text",
    [
        "Web content engine library for Qt - [private] development files",
        "GHC [profiling] library of the POSIX regex backend for regex-base",
        "[Low-level] Rust bindings for the Zircon kernel - Rust source code",
        "stylesheets for processing DocBook [5] XML to various output formats",
    ],
)
def test_one_word_makes_a_short_text_another_one(text):
    one, two = text.replace("[", "").replace("]", ""), re.sub(r"\[.*?\] ", "", text)
    assert len(find_duplicate_texts([one, two, *OTHER_TEXTS]).dropped) == 0
    assert len(find_duplicate_texts([one, one.upper(), *OTHER_TEXTS]).dropped) == 1


def test_a_tenth_of_the_words_of_a_long_text_may_differ():
    rng = np.random.RandomState(0)
    vocabulary = [f"word{i}" for i in range(3000)]
    originals = [rng.choice(vocabulary, 50).tolist() for _ in range(200)]

    def replaced(words, n):
        words = list(words)
        for place in rng.choice(len(words), n, replace=False):
            words[place] = f"new{rng.randint(10**9)}"
        return words

    near = [replaced(words, 5) for words in originals[:50]]
    far = [replaced(words, 6) for words in originals[50:100]]
    found = find_duplicate_texts([" ".join(words) for words in [*originals, *near, *far]])
    assert group_sets(found) == {frozenset({i, 200 + i}) for i in range(50)}


def test_case_and_spaces_make_exact_copies():
    found = find_duplicate_texts(["A red  fox", "a RED fox", "fox a red"])
    assert found.n_copies == 1


def test_a_state_of_texts_goes_on(tmp_path):
    rng = np.random.RandomState(0)
    texts = [" ".join(f"w{i}" for i in rng.randint(0, 400, 30)) for _ in range(300)]
    found = find_duplicate_texts(texts[:200])
    found.save(tmp_path / "state")
    opened = Duplicates.open(tmp_path / "state")
    assert opened.metric == "words"
    new = [*texts[200:], texts[3] + " more", texts[4]]
    checked = opened.check(new)
    assert checked.is_new.tolist() == 100 * [True] + [False, False]
    assert checked.duplicate_of[-2:].tolist() == [3, 4]
    opened.add(new).save(tmp_path / "state")
    again = Duplicates.open(tmp_path / "state")
    assert group_sets(again) == {frozenset({3, 300}), frozenset({4, 301})}


def test_damaged_words_are_refused(tmp_path):
    find_duplicate_texts(["one two three", "four five six"]).save(tmp_path / "state")
    path = next(tmp_path.glob("state/generation-*/vectors.npy"))
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    with pytest.raises(ValueError, match="was changed"):
        Duplicates.open(tmp_path / "state")


def test_bad_texts():
    with pytest.raises(ValueError, match="text 1 has none"):
        find_duplicate_texts(["a", " \n"])
    with pytest.raises(TypeError, match="text 0 is int"):
        find_duplicate_texts([3])
    with pytest.raises(ValueError, match="got none"):
        find_duplicate_texts([])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=45), min_size=2, max_size=6),
    st.data(),
)
def test_every_pair_within_the_distance_is_found(originals, data):
    """The prefix filter misses nothing: texts and edited copies of them, against all pairs."""
    copies = []
    for words in originals:
        copy = list(words)
        for _ in range(data.draw(st.integers(0, 4))):
            place = data.draw(st.integers(0, len(copy) - 1))
            kind = data.draw(st.sampled_from(["replace", "drop", "double", "swap"]))
            if kind == "drop" and len(copy) > 1:
                del copy[place]
            elif kind == "double":
                copy.insert(place, copy[place])
            elif kind == "swap":
                copy[place], copy[place - 1] = copy[place - 1], copy[place]
            else:
                copy[place] = data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
        copies.append(copy)
    texts = [" ".join(words) for words in [*originals, *copies]]
    limit = data.draw(st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.4]))
    found = find_duplicate_texts(texts, limit)
    wanted = {
        (a, b)
        for a in range(len(texts))
        for b in range(a + 1, len(texts))
        if distance(texts[a], texts[b], texts) <= limit or texts[a].split() == texts[b].split()
    }
    assert {pair for pairs in found.all_pairs() for pair in zip(pairs.first.tolist(), pairs.second.tolist())} == wanted
    known = find_duplicate_texts(texts[: len(originals)], limit)
    checked = known.check(texts[len(originals) :])
    near = [
        any(distance_of_known(known, new, old) <= limit for old in range(len(originals)))
        for new in texts[len(originals) :]
    ]
    assert (~checked.is_new).tolist() == near


def distance_of_known(known, text, row):
    rows = known.state.vectors
    return rows.distances(np.array([row]), np.array([0]), others=rows.new([text]))[0]


def test_the_same_words_in_another_order_are_another_text():
    assert len(find_duplicate_texts(["dog bites man", "man bites dog"]).dropped) == 0
