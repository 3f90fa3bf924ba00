"""Texts on the command line: looked for in a saved search, and judged."""

import json

import pytest

from hashlearn import LSH, SimilaritySearch

TEXTS = ["a red fox", "a red dog", "the blue sky", "the blue sea", "green grass and a fox"]


@pytest.fixture
def texts(folder):
    """A search of texts, queries and judgements of TREC and of BEIR, in the folder where commands run."""
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), encoder="tfidf", metric="cosine").fit(texts=TEXTS)
    search.add(texts=TEXTS, ids=list("abcde")).save("texts")
    search.close()
    (folder / "queries.tsv").write_text("1\tfox\n2\tblue sea\n3\tunjudged\n")
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "fox"}\n{"_id": "2", "text": "blue sea"}\n')
    (folder / "qrels.txt").write_text("1 0 a 1\n1 0 e 1\n2 0 d 1\n")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n1\te\t1\n2\td\t1\n")
    return folder


def test_rows_are_found_by_a_text(run, texts):
    found = run("search", "texts", "--text", "fox", "--by", "words", "-k", 5)
    assert found.code == 0
    assert [line.split("\t")[::2] for line in found.out.splitlines()] == [["a", TEXTS[0]], ["e", TEXTS[4]]]
    assert len(run("search", "texts", "--text", "fox").out.splitlines()) == 5
    nothing = run("search", "texts", "--text", "?!")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing found" in nothing.err
    found = run("search", "texts", "--text", "red -dog", "--by", "words", "--operators")
    assert [line[0] for line in found.out.splitlines()] == ["a"]


def test_both_says_what_each_part_has_given(run, texts):
    first = run("search", "texts", "--text", "fox", "--weights", "words=3,meaning=1").out.splitlines()[0].split("\t")
    assert first[2].startswith("words 0.7")
    assert " meaning 0." in first[2]
    assert first[3] in (TEXTS[0], TEXTS[4])


def test_rows_like_others_and_unlike_each_other(run, refused, texts, folder):
    found = run("search", "texts", "--like", "a", "--unlike", "c", "--unlike", "d", "-k", 2)
    assert [line.split("\t")[0] for line in found.out.splitlines()] == ["b", "e"]
    all_found = run("search", "texts", "--text", "red fox", "--diversity", 1, "-k", 2).out.splitlines()
    assert all_found[1].split("\t")[0] != "b"
    assert "like" in refused("search", "texts", "--like", "zz")
    assert "--unlike needs --like" in refused("search", "texts", "--unlike", "a")
    assert "diversity must be" in refused("search", "texts", "--like", "a", "--diversity", 2)
    assert "--weights must be as in words=2,meaning=1" in refused("search", "texts", "--text", "a", "--weights", "2")
    assert "weights must be a dict with 'words' and 'meaning'" in refused(
        "search", "texts", "--text", "a", "--weights", "sound=2"
    )
    numbers = SimilaritySearch(LSH(n_bits=32, random_state=0), metric="cosine", encoder="tfidf").fit(texts=TEXTS)
    numbers.add(texts=TEXTS).save(folder / "numbers")
    assert run("search", "numbers", "--like", "0", "-k", 1).out.split("\t")[0] == "1"
    assert "--like must be integers" in refused("search", "numbers", "--like", "a")


@pytest.mark.parametrize(("queries", "relevance"), [("queries.tsv", "qrels.txt"), ("queries.jsonl", "qrels.tsv")])
def test_a_search_is_judged(run, texts, queries, relevance):
    judged = run("evaluate", "texts", "--texts", queries, "--relevance", relevance, "--by", "words", "--json", "s.json")
    assert judged.code == 0
    assert judged.out.split() == ["queries", "2", "nDCG@10", "1.0000", "recall@100", "1.0000", "MRR", "1.0000"]
    assert json.loads((texts / "s.json").read_text()) == {"n_queries": 2, "ndcg_10": 1, "recall_100": 1, "mrr": 1}


def test_bad_arguments_get_a_line(refused, texts):
    assert "CODES must be given" in refused("search", "texts")
    assert "--text and --like are for a saved search alone" in refused("search", "texts", "codes.npy", "--text", "a")
    assert "--by, --operators and --weights need --text" in refused("search", "texts", "codes.npy", "--by", "words")
    assert "by must be" in refused("search", "texts", "--text", "a", "--by", "sound")
    assert "come together" in refused("evaluate", "texts", "--texts", "queries.tsv")
    assert "QUERY_CODES must be given" in refused("evaluate", "texts")
    (texts / "other.txt").write_text("9 0 a 1\n")
    assert "got none of them" in refused("evaluate", "texts", "--texts", "queries.tsv", "--relevance", "other.txt")
    assert "queries.tsv" in refused("evaluate", "texts", "--texts", "queries.tsv", "--relevance", "queries.tsv")


def test_judgements_of_rows_that_are_not_there(run, refused, texts):
    (texts / "some.txt").write_text("1 0 a 1\n1 0 zz 1\n")
    judged = run("evaluate", "texts", "--texts", "queries.tsv", "--relevance", "some.txt", "--by", "words")
    assert "some.txt: 1 of 2 judged rows are not in the search, such as 'zz'; they count as not found" in judged.err
    assert judged.out.split()[-3:] == ["0.5000", "MRR", "1.0000"]
    (texts / "none.txt").write_text("1 0 zz 1\n")
    assert "must judge rows of the search" in refused(
        "evaluate", "texts", "--texts", "queries.tsv", "--relevance", "none.txt"
    )
