"""Texts as queries of a saved search: printed, or judged."""

import json
import warnings
from typing import Any

import typer

from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.places import check_places

BY = "What texts are compared by: words, meaning or both; by default both, as far as the search has them."
_SHOWN = 100


def search_text(folder: str, text: str, by: str | None, k: int, operators: bool, recall: float | None) -> None:
    """Print the rows of a saved search that match a text: id, distance, and the beginning of the row's text."""
    from hashlearn.search import SimilaritySearch

    search = SimilaritySearch.open(folder)
    found: Any = search.search(
        text=text, by=by, k=min(k, max(1, len(search))), operators=operators, recall=recall, include=["payload"]
    )
    for id, distance, payload in zip(found.ids.tolist(), found.distances.tolist(), found.payloads):
        if payload is not None:
            shown = " ".join(str(payload.get(search.text_field, "")).split())
            typer.echo(f"{id}\t{distance:.6g}\t{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' ...'}")


def evaluate_texts(folder: str, texts: str, relevance: str, by: str | None, out: str | None) -> None:
    """Print how well a saved search answers texts, by relevance judgements."""
    from hashlearn.durable.files import write_text
    from hashlearn.metrics import read_queries, read_relevance, score_judged
    from hashlearn.metrics.judged import RECALL_DEPTH
    from hashlearn.search import SimilaritySearch

    check_places({"--json": out}, [texts, relevance])
    queries, judged = read_queries(texts), read_relevance(relevance)
    asked = [query for query in queries if query in judged]
    if not asked:
        raise ValueError(f"--relevance must judge queries of {texts}, got none of them in {relevance}")
    search = SimilaritySearch.open(folder)
    _check_known(set(map(str, search.ids.tolist())), {row for query in asked for row in judged[query]}, relevance)
    depth = min(RECALL_DEPTH, max(1, len(search)))
    with progress_bars():
        found = search.search(text=[queries[query] for query in asked], by=by, k=depth)
    listed = [[str(id) for id in row if id not in (-1, None)] for row in found.ids.tolist()]
    scores = score_judged(listed, [judged[query] for query in asked])
    if out is not None:
        write_text(out, json.dumps(scores._asdict()) + "\n")
    typer.echo(scores.table())


def _check_known(ids: set[str], judged: set[str], relevance: str) -> None:
    """Warn of judged rows that the search does not have: they count as not found."""
    unknown = sorted(judged - ids)
    if len(unknown) == len(judged):
        raise ValueError(f"--relevance must judge rows of the search, got none of them, but {unknown[0]!r:.60}")
    if unknown:
        warnings.warn(
            f"{relevance}: {len(unknown):,} of {len(judged):,} judged rows are not in the search, such as "
            f"{unknown[0]!r:.60}; they count as not found",
            UserWarning,
            stacklevel=1,
        )
