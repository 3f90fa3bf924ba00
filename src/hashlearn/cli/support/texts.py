"""Texts as queries of a saved search: printed, or judged."""

import json
import warnings
from typing import Any, NamedTuple

import typer

from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.places import check_places

BY = "What texts are compared by: words, meaning or both; by default both, as far as the search has them."
WEIGHTS = "What words and meaning weigh in both, such as words=2,meaning=1; by default what the encoder says."
_SHOWN = 100


class Asking(NamedTuple):
    """The question to a saved search: a text, or rows that the results should be like."""

    text: str | None
    by: str | None
    weights: str | None
    operators: bool
    like: list[str] | None
    unlike: list[str] | None
    diversity: float
    recall: float | None


def ask(folder: str, asking: Asking, k: int) -> None:
    """Print the results of a saved search: id, distance, the shares of words and of meaning in the score, text."""
    from hashlearn.search import SimilaritySearch

    search = SimilaritySearch.open(folder)
    options: dict[str, Any] = asking._asdict()
    options["weights"] = None if asking.weights is None else _weights(asking.weights)
    for name in ("like", "unlike"):
        options[name] = _ids_of(search.ids, f"--{name}", getattr(asking, name))
    found: Any = search.search(None, min(k, max(1, len(search))), **options, include=["payload"])
    parts = found.parts if len(found.parts) > 1 else {}
    for place, (id, distance, payload) in enumerate(zip(found.ids.tolist(), found.distances.tolist(), found.payloads)):
        if payload is not None:
            shown = " ".join(str(payload.get(search.text_field, "")).split())
            given = " ".join(f"{name} {part[place]:.3f}" for name, part in parts.items())
            text = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + " ..."
            typer.echo("\t".join([str(id), f"{distance:.6g}", *([given] if given else []), text]))
    if not any(payload is not None for payload in found.payloads):
        typer.echo("nothing found", err=True)


def _weights(text: str) -> dict[str, float]:
    """Weights as a person writes them; the search knows their names."""
    try:
        return {name.strip(): float(value) for name, value in (each.split("=") for each in text.split(","))}
    except ValueError:
        raise ValueError(f"--weights must be as in words=2,meaning=1, got {text!r:.60}") from None


def _ids_of(ids: Any, option: str, texts: list[str] | None) -> list[Any] | None:
    """Ids as the search has them."""
    if not texts or ids.dtype == object:
        return texts or None
    if not all(text.isdecimal() for text in texts):
        raise ValueError(f"{option} must be integers, as the ids of this search, got {texts[0]!r:.60}")
    return list(map(int, texts))


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
