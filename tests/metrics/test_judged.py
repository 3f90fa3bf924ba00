"""Ranked lists against judgements."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from hashlearn.metrics import read_queries, read_relevance, score_judged


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30).filter(any), st.randoms(use_true_random=False))
def test_ndcg_is_that_of_scikit_learn(grades, rng):
    ids = list(range(len(grades)))
    rng.shuffle(ids)
    scores = np.zeros(len(grades))
    scores[ids] = np.arange(len(grades), 0, -1)
    ours = score_judged([ids], [dict(enumerate(grades))]).ndcg_10
    assert ours == pytest.approx(ndcg_score([grades], [scores], k=10))


def test_a_perfect_list_has_ones():
    assert score_judged([["a", "b"]], [{"a": 2, "b": 1, "c": 0}])[1:] == (1, 1, 1)


def test_numbers_by_hand():
    found = score_judged([["x", "a", "y", "b"], ["q"]], [{"a": 1, "b": 2, "c": 1}, {"z": 1}])
    best = 2 + 1 / math.log2(3) + 1 / 2
    assert found.ndcg_10 == pytest.approx((1 / math.log2(3) + 2 / math.log2(5)) / best / 2)
    assert found.recall_100 == pytest.approx(2 / 3 / 2)
    assert found.mrr == pytest.approx(0.25)


def test_what_comes_twice_counts_once():
    assert score_judged([["a", "a", "b"]], [{"a": 1, "b": 1}])[1:] == (1, 1, 1)


def test_queries_without_a_relevant_row_do_not_count():
    assert score_judged([["a"], ["b"]], [{"a": 1}, {"b": 0}]).n_queries == 1
    with pytest.raises(ValueError, match="relevance"):
        score_judged([["a"]], [{}])
    with pytest.raises(ValueError, match="found"):
        score_judged([], [{}])


def test_files_of_trec_and_beir_say_the_same(tmp_path):
    (tmp_path / "q.tsv").write_text("1\tplay chess\n2\tmake coffee\n")
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "play chess"}\n{"_id": "2", "text": "make coffee"}\n')
    (tmp_path / "trec.txt").write_text("1 0 a 2\n1 0 b 0\n2 0 c 1\n")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\tc\t1\n")
    queries = read_queries(tmp_path / "q.tsv")
    assert queries == read_queries(tmp_path / "q.jsonl") == {"1": "play chess", "2": "make coffee"}
    relevance = read_relevance(tmp_path / "trec.txt")
    (tmp_path / "twice.txt").write_text("1 0 a 2\n1 0 b 0\n2 0 c 1\n1 0 a 2\n")
    assert relevance == read_relevance(tmp_path / "twice.txt")
    assert relevance == read_relevance(tmp_path / "beir.tsv") == {"1": {"a": 2, "b": 0}, "2": {"c": 1}}


def test_a_text_may_have_the_ends_of_lines_of_other_alphabets(tmp_path):
    texts = {"1": "one\u2028two", "2": "three\x85four"}
    lines = [json.dumps({"_id": query, "text": text}, ensure_ascii=False) for query, text in texts.items()]
    (tmp_path / "q.jsonl").write_bytes("\r\n".join(lines).encode())
    assert read_queries(tmp_path / "q.jsonl") == texts


@pytest.mark.parametrize("content", ["", "no tab\n", "1\ta\n1\tb\n", "1\t \n", b"\xff\xfe\t"])
def test_bad_queries_get_a_line_that_names_the_file(tmp_path, content):
    path = tmp_path / "q.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"q\.tsv"):
        read_queries(path)


@pytest.mark.parametrize(
    "content",
    ["", "query-id corpus-id score\n", "1 0 a\n1 0 a x\n", "1 0 a 1 2\n", "1 a nan\n1 a nan", "1 0 a 1\n1 0 a 2\n"],
)
def test_bad_judgements_get_a_line_that_names_the_file(tmp_path, content):
    path = tmp_path / "rel.tsv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"rel\.tsv"):
        read_relevance(path)
