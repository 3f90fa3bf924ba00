"""Ranked lists against judgements of people: which rows answer a query, and how well (TREC, BEIR).

A query's list has rows of relevance r_1, r_2, ...; all its judged rows have the relevances g_1 >= g_2 >= ...::

    nDCG@10    = sum_{i <= 10} r_i / log2(i + 1)  /  sum_{i <= 10} g_i / log2(i + 1)
    recall@100 = share of the relevant rows that are among the first 100
    MRR        = mean of 1 / place of the first relevant row, 0 where none is in the list

as trec_eval computes them; a row is relevant if its relevance is above 0.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashlearn.rows.formats.problems import FileProblem, reading

NDCG_DEPTH, RECALL_DEPTH = 10, 100


class JudgedScores(NamedTuple):
    """Means over the queries that have a relevant row; ``n_queries`` says how many these are."""

    n_queries: int
    ndcg_10: float
    recall_100: float
    mrr: float

    def table(self) -> str:
        """One line for each number."""
        named = {"nDCG@10": self.ndcg_10, "recall@100": self.recall_100, "MRR": self.mrr}
        return "\n".join([f"{'queries':<12}{self.n_queries}", *(f"{name:<12}{x:.4f}" for name, x in named.items())])


def score_judged(found: Sequence[Sequence[Any]], relevance: Sequence[Mapping[Any, float]]) -> JudgedScores:
    """Judge ranked lists.

    Parameters
    ----------
    found : list of lists of ids
        Of each query, the best first; give 100 for recall@100. An id that comes twice counts once.
    relevance : list of dicts
        Of each query, the relevance of ids. Those that are not there have 0.

    Returns
    -------
    JudgedScores
        The means.

    Examples
    --------
    >>> score_judged([["a", "b", "c"], ["d"]], [{"b": 1}, {"d": 2, "e": 1}])
    JudgedScores(n_queries=2, ndcg_10=0.695..., recall_100=0.75, mrr=0.75)
    """
    if len(found) != len(relevance):
        raise ValueError(f"found must have a list for each of the {len(relevance)} queries, got {len(found)}")
    each = [_of_query(ids, judged) for ids, judged in zip(found, relevance) if any(r > 0 for r in judged.values())]
    if not each:
        raise ValueError("relevance must have a row above 0 for at least one query, got none")
    ndcg, recall, reciprocal = np.mean(each, axis=0).tolist()
    return JudgedScores(len(each), ndcg, recall, reciprocal)


def _of_query(ids: Sequence[Any], judged: Mapping[Any, float]) -> tuple[float, float, float]:
    gains = [max(0.0, judged.get(id, 0.0)) for id in dict.fromkeys(ids)]
    best = sorted((gain for gain in judged.values() if gain > 0), reverse=True)
    first = next((place for place, gain in enumerate(gains, start=1) if gain > 0), None)
    recall = sum(gain > 0 for gain in gains[:RECALL_DEPTH]) / len(best)
    return _discounted(gains) / _discounted(best), recall, 0.0 if first is None else 1 / first


def _discounted(gains: list[float]) -> float:
    top = np.array(gains[:NDCG_DEPTH])
    return float((top / np.log2(np.arange(len(top)) + 2)).sum())


def read_queries(path: str | Path) -> dict[str, str]:
    """Queries by their ids: lines ``id<TAB>text``, or BEIR's ``.jsonl`` with ``_id`` and ``text``.

    Parameters
    ----------
    path : str or Path
        The file, UTF-8.

    Returns
    -------
    dict
        The texts, in the order of the file.
    """
    file = Path(path)
    queries: dict[str, str] = {}
    with reading(file, "queries"):
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # a text may have other ends of lines in it
    for number, line in enumerate(lines, start=1):
        if line.strip():
            query, text = _query_of(file, number, line)
            if query in queries:
                raise FileProblem(file, f"line {number}: the query {query!r:.60} is there twice")
            queries[query] = text
    if not queries:
        raise FileProblem(file, "there is no query in it")
    return queries


def _query_of(file: Path, number: int, line: str) -> tuple[str, str]:
    if file.suffix == ".jsonl":
        try:
            said = json.loads(line)
            return str(said["_id"]), str(said["text"])
        except (ValueError, KeyError, TypeError):
            raise FileProblem(file, f'line {number} must be JSON with "_id" and "text"') from None
    query, tab, text = line.partition("\t")
    if not tab or not text.strip():
        raise FileProblem(file, f"line {number} must be an id, a tab and a text")
    return query.strip(), text.strip()


def read_relevance(path: str | Path) -> dict[str, dict[str, float]]:
    """Judgements by query and row: TREC's ``query 0 row relevance``, or BEIR's ``query row relevance`` with a header.

    Parameters
    ----------
    path : str or Path
        The file, UTF-8; between its columns are tabs or spaces.

    Returns
    -------
    dict of dicts
        The relevance of rows, by the ids of queries.
    """
    file = Path(path)
    judged: dict[str, dict[str, float]] = {}
    with reading(file, "relevance"):
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # a text may have other ends of lines in it
    for number, line in enumerate(lines, start=1):
        parts = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or (number == 1 and not _is_number(parts[-1])):
            continue
        if len(parts) not in (3, 4) or not _is_number(parts[-1]):
            raise FileProblem(
                file, f"line {number} must be: query 0 row relevance (TREC) or query row relevance (BEIR)"
            )
        query, row, relevance = parts[0].strip(), parts[-2].strip(), float(parts[-1])
        if judged.setdefault(query, {}).setdefault(row, relevance) != relevance:
            raise FileProblem(file, f"line {number} judges row {row!r:.60} of query {query!r:.60} again, differently")
    if not judged:
        raise FileProblem(file, "there is no judgement in it")
    return judged


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
