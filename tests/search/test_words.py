"""Words of texts in the catalog: which rows they find, and in which order."""

import json
import math
import re
import sqlite3
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.deadline import Deadline, DeadlineExceeded, until
from hashlearn.search.catalog import Catalog, OutdatedError
from hashlearn.search.word_query import TOKENIZER, Term, parse_words, spaced, tokens_of
from hashlearn.search.word_tables import check_text_field
from hashlearn.search.words import K1, MOST_TERMS, B, Posting, Words, best_places

TEXTS = [
    "strong chess engine, to play chess against",
    "GUI for chess",
    "libfoo-dev: development files of foo",
    "foo, a library for dev boards",
    "Écoutez la radio café",
    "שלום עולם",
    "数据库, データ",
    "",
]


def catalog_of(texts, first=0, field="text"):
    catalog = Catalog.in_memory()
    catalog.begin()
    catalog.put_payloads((first + row, json.dumps({field: text})) for row, text in enumerate(texts))
    catalog.keep_words(field, first)
    catalog.commit()
    return catalog


def places(texts, query, n=10, first=0, **options):
    words = Words(catalog_of(texts, first), first)
    return words.best(parse_words(query, **options), n, len(texts)).places.tolist()


def bm25(texts, query, n):
    """The definition, term by term."""
    documents = [Counter(token for tokens in tokens_of([text]) for token in tokens) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    n_texts = sum(length > 0 for length in lengths)
    mean = sum(lengths) / max(1, n_texts)
    scores = np.zeros(len(texts))
    for term, count in parse_words(query).counts.items():
        (token,) = term.tokens
        n_with = sum(token in document for document in documents)
        idf = math.log(1 + (n_texts - n_with + 0.5) / (n_with + 0.5))
        for row, document in enumerate(documents):
            often = document[token]
            if often:
                scores[row] += count * idf * often * (K1 + 1) / (often + K1 * (1 - B + B * lengths[row] / mean))
    order = np.lexsort((np.arange(len(texts)), -scores))
    return order[scores[order] > 0][:n], scores


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12).map(" ".join), min_size=1, max_size=30),
    query=st.lists(st.sampled_from("abcdefghz"), min_size=1, max_size=6).map(" ".join),
    n=st.integers(1, 8),
)
def test_rows_are_ranked_by_bm25(texts, query, n):
    found = Words(catalog_of(texts), 0).best(parse_words(query), n, len(texts))
    wanted, scores = bm25(texts, query, n)
    np.testing.assert_allclose(found.scores, scores[found.places], rtol=1e-5)
    np.testing.assert_allclose(found.scores, scores[wanted], rtol=1e-5)  # equal scores may change places by rounding


@settings(max_examples=100, deadline=None)
@given(
    terms=st.lists(
        st.tuples(st.sampled_from([0.01, 0.1, 1.0]), st.sampled_from([0.125, 1.0, 8.0]), st.integers(1, 2)),
        min_size=1,
        max_size=5,
    ),
    n=st.integers(1, 12),
    masked=st.booleans(),
    seed=st.integers(0, 999),
)
def test_terms_held_by_few_and_by_many_rows_are_summed(terms, n, masked, seed):
    """Weights are eighths, so that sums of float32 are exact."""
    rng, n_places = np.random.default_rng(seed), 300
    sums, asked = np.zeros(n_places), []
    for share, scale, count in terms:
        held = np.flatnonzero(rng.random(n_places + 20) < share).astype(np.int32)  # some are behind the snapshot
        weights = (scale * rng.integers(1, 9, len(held)) / 8).astype(np.float32)
        asked.append((Posting(held, weights, float(weights.max(initial=0))), count))
        sums[held[held < n_places]] += count * weights[held < n_places]
    mask = rng.random(n_places) < 0.5 if masked else None
    sums = sums if mask is None else sums * mask
    wanted = np.lexsort((np.arange(n_places), -sums))[:n]
    wanted = wanted[sums[wanted] > 0]
    found = best_places(asked, n, n_places, mask)
    np.testing.assert_array_equal(found.places, wanted)
    np.testing.assert_array_equal(found.scores, sums[wanted])


def test_equal_texts_come_in_the_order_of_their_rows():
    assert places(["b a"] * 20, "a", n=5) == [0, 1, 2, 3, 4]


def test_case_and_accents_do_not_matter():
    assert places(TEXTS, "ECOUTEZ Cafe") == [4]


@pytest.mark.parametrize(
    "words",
    [
        ("café", "cafe\u0301", "CAFE"),
        ("Straße", "STRASSE", "STRA\u1e9eE"),
        ("ﬁnal 123 Ⅷ", "final １２３ viii"),
        ("İstanbul Iğdır", "istanbul ığdır", "ISTANBUL IĞDIR"),
        ("Ёлка", "елка"),
        ("Άλφα", "αλφα"),
        ("العَرَبِيَّة", "العربية", "العـــربية"),
        ("שָׁלוֹם", "שלום"),
        ("한국어", unicodedata.normalize("NFD", "한국어")),
        ("ガス", "ｶﾞｽ", unicodedata.normalize("NFD", "ガス")),
        ("Daten\u00adbank", "datenbank", "daten\u2060bank"),
        ("می\u200cخواهم", "میخواهم"),
        ("C++", "Ｃ＋＋"),
        ("Łódź Ærø Đà þing", "lodz aero da thing", "ŁÓDŹ ÆRØ ĐÀ ÞING"),
    ],
)
def test_a_word_is_found_however_it_is_written(words):
    for text in words:
        for query in words:
            assert places(["another text", text], query) == [1], (text, query)


@pytest.mark.parametrize("text", ["हिन्दी भाषा", "தமிழ் மொழி", "বাংলা ভাষা"])
def test_vowel_signs_do_not_end_a_word(text):
    assert tokens_of([text]) == [tuple(text.split())]


def test_a_stem_finds_korean_words_with_endings():
    assert places(["공유 라이브러리", "사용자는 게임을 한다"], "게임") == [1]


def test_two_characters_that_stand_together_count_more_than_apart():
    texts = ["据的数了库", "新的数据", "库房"]
    assert places(texts, "打开数据库") == [1, 0, 2]


def test_a_thai_word_is_found_inside_a_run():
    assert places(["โปรแกรมแก้ไขข้อความ", "ฐานข้อมูล"], "แก้ไข")[0] == 0


def test_a_long_query_keeps_its_telling_phrases(monkeypatch):
    monkeypatch.setattr("hashlearn.search.words.MOST_TERMS", 4)
    texts = ["one two", "two one", *["one"] * 5, *["two"] * 5]
    assert places(texts, "one-two")[0] == 0
    assert places(texts, "x y z one-two v w")[0] == 0


def test_scripts_without_spaces_are_found_by_a_part_of_a_run():
    assert places(TEXTS, "据库") == [6]
    assert places(TEXTS, "タ") == [6]


def test_a_letter_with_marks_is_another_word_than_the_letter():
    texts = ["a compiler for c", "a compiler for C++", "bindings of C#", "c/c++", "uses libc++6 of gtk+"]
    assert places(texts, "c++") == [3, 1]
    assert places(texts, "C#") == [2]
    assert set(places(texts, "c")) == {0, 3}
    assert places(texts, "gtk") == places(texts, "libc++") == [4]


def test_right_to_left_words_are_found():
    assert places(TEXTS, "עולם") == [5]


def test_a_name_with_marks_is_found_whole_first_and_in_its_parts():
    assert places(TEXTS, "libfoo-dev") == [2, 3]
    assert places(["dev of libfoo", "for libfoo dev use", "libfoo_dev"], "libfoo-dev")[0] == 2


@pytest.mark.parametrize("query", ["", "  ", "?!...", "☃", "❤\ufe0f", "👩\u200d💻", "\ud800", "\0", '"', "*", "(", "^"])
def test_a_query_without_a_letter_finds_nothing(query):
    assert places(TEXTS, query) == []
    assert places(TEXTS, query, operators=True) == []


@pytest.mark.parametrize(
    "query", ["chess AND zebra", 'chess" OR', "NOT chess", "text:chess", "chess*)", "NEAR(chess gui)"]
)
def test_operators_are_words(query):
    assert set(places(TEXTS, query)) == {0, 1}


def test_operators_that_were_asked_for():
    assert places(TEXTS, '"chess engine"', operators=True) == [0]
    assert places(TEXTS, "deve*", operators=True) == [2]
    assert places(TEXTS, "chess -gui", operators=True) == [0]
    assert places(TEXTS, "chess foo +gui", operators=True) == [1]
    assert places(TEXTS, "-chess", operators=True) == []


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60), operators=st.booleans())
def test_whatever_is_typed_is_a_query(text, operators):
    query = parse_words(text, operators=operators)
    assert all(term.tokens for term in (*query.counts, *query.must, *query.without))
    assert all(place in range(len(TEXTS)) for place in places(TEXTS, text, operators=operators))


def test_only_rows_of_the_mask_are_found():
    words = Words(catalog_of(["a b", "a", "a c", "b"]), 0)
    mask = np.array([False, False, True, True])
    assert words.best(parse_words("a b"), 9, 4, mask).places.tolist() == [3, 2]


def test_rows_behind_the_snapshot_are_not_found():
    words = Words(catalog_of(["a", "b", "a"]), 0)
    assert words.best(parse_words("a"), 9, 3).places.tolist() == [0, 2]
    assert words.best(parse_words("a"), 9, 2).places.tolist() == [0]


def test_new_rows_are_found():
    catalog = catalog_of(["a", "b"])
    words = Words(catalog, 0)
    assert words.best(parse_words("a"), 9, 2).places.tolist() == [0]
    catalog.begin()
    catalog.put_payloads([(2, '{"text":"a"}')])
    catalog.commit()
    assert words.best(parse_words("a"), 9, 3).places.tolist() == [0, 2]


def test_words_of_other_rows_are_refused():
    catalog = catalog_of(["a"])
    catalog.begin()
    catalog.clear(5)
    catalog.commit()
    with pytest.raises(OutdatedError):
        Words(catalog, 0).best(parse_words("a"), 1, 1)


def test_a_change_that_is_given_up_leaves_no_words():
    catalog = Catalog.in_memory()
    catalog.begin()
    catalog.keep_words("text", 0)
    catalog.roll_back()
    assert not catalog.has_words


def test_values_that_are_no_texts_have_no_words():
    catalog = Catalog.in_memory()
    catalog.begin()
    catalog.put_payloads(enumerate(['{"text":7}', '{"text":null}', '{"other":"a"}', '{"text":["a"]}', '{"text":"a"}']))
    catalog.keep_words("text", 0)
    catalog.commit()
    assert Words(catalog, 0).best(parse_words("a 7"), 9, 5).places.tolist() == [4]


def test_a_long_text_and_a_long_query():
    long = " ".join(f"word{i % 500}" for i in range(140_000)) + " needle"
    texts = [long, "needle", "word7"]
    assert len(long) > 1_000_000
    assert places(texts, "needle") == [1, 0]
    assert places(texts, long)[0] == 0
    assert len(parse_words(long).counts) > MOST_TERMS


def test_words_that_no_row_has_are_not_kept():
    words = Words(catalog_of(TEXTS), 0)
    words.best(parse_words("chess zebra " + "x" * 10_000), 10, len(TEXTS))
    assert list(words._texts.postings) == [Term(("chess",))]


def test_a_very_long_query_is_looked_up_in_part_and_has_a_deadline(monkeypatch):
    monkeypatch.setattr("hashlearn.search.words._MOST_LOOKED_UP", 3)
    others = " ".join(f"other{number}" for number in range(MOST_TERMS))
    assert places(TEXTS, f"{others} chess chess") == places(TEXTS, "chess chess")
    for query in ("chess", others):
        with until(Deadline(0)), pytest.raises(DeadlineExceeded):
            places(TEXTS, query)


def test_a_phrase_is_not_endless():
    long = "-".join(["chess"] * 100)
    assert list(parse_words(long).counts) == [Term(("chess",))]
    with pytest.raises(ValueError, match="text must have phrases of at most 64 words, got 100"):
        parse_words(long, operators=True)
    with pytest.raises(ValueError, match=r"text must have at most 64 words with \+ or -, got 100"):
        parse_words("+chess -go " * 50, operators=True)


def test_nul_ends_no_query():
    assert places(["before", "x"], "y\0before") == [0]


@pytest.mark.parametrize("field", ["", 'a"b', 7, None, "a\0"])
def test_names_of_fields(field):
    with pytest.raises(ValueError, match="text_field"):
        check_text_field(field)


def test_fields_with_marks_in_their_names():
    catalog = catalog_of(["a"], field="the [text].x'y")
    assert Words(catalog, 0).best(parse_words("a"), 1, 1).places.tolist() == [0]


def test_the_tokenizer_splits_as_the_table_does():
    text = "Don't stop_here: İstanbul e-mail x86_64 C++ C# ﬁne 12.5€"
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{TOKENIZER}')")
    db.execute("INSERT INTO t VALUES (?)", (spaced(text),))
    for (token,) in ((token,) for tokens in tokens_of([text]) for token in tokens):
        assert db.execute("SELECT count(*) FROM t WHERE t MATCH ?", (Term((token,)).match,)).fetchone() == (1,)
    assert re.sub(r"\W", "", "".join(tokens_of(["x86_64"])[0])) == "x8664"
