"""Models and searches on the Hugging Face Hub: a repository is the folder that ``save`` writes, and a model card."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hashlearn.extras import require
from hashlearn.hashers.pipelines import as_hasher
from hashlearn.model import load, save
from hashlearn.search import SimilaritySearch
from hashlearn.version import __version__

CARD = "README.md"
MODEL_FILE = "config.json"
"""A folder with this file at its top is a model, not a search."""


def push_to_hub(
    model: Any,
    repo_id: str,
    *,
    data: str | None = None,
    recall: dict[str, float] | None = None,
    private: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
    commit_message: str | None = None,
) -> str:
    """Save a model or a search to a repository of the Hub, which is created if needed.

    Parameters
    ----------
    model : Hasher, sklearn.pipeline.Pipeline or SimilaritySearch
        Fitted.
    repo_id : str
        Such as ``"me/news-itq-64"``.
    data : str or None
        The training data, for the card.
    recall : dict or None
        Measured recall, for the card: ``{"10@10 on 10,000 held-out rows": 0.93}``. What ``search.tune`` has measured is
        in the card without being passed.
    private : bool
        Whether a new repository is private.
    token : str or None
        None takes the token of ``hf auth login``.
    endpoint : str or None
        The address of another Hub.
    commit_message : str or None

    Returns
    -------
    str
        The address of the commit.
    """
    api = require("huggingface_hub", "hub").HfApi(endpoint=endpoint, token=token)
    with tempfile.TemporaryDirectory() as folder:
        write_for_hub(model, folder, data=data, recall=recall)
        api.create_repo(repo_id, private=private, exist_ok=True)
        message = commit_message or f"hashlearn {__version__}"
        return str(api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message))


def from_pretrained(
    repo_id: str | Path,
    folder: str | Path | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
    cache_dir: str | Path | None = None,
) -> Any:
    """The model or the search of a repository of the Hub, or of a folder.

    Parameters
    ----------
    repo_id : str or Path
        A repository, such as ``"me/news-itq-64"``, or an existing folder.
    folder : str, Path or None
        A new or empty folder for a search, which you may then change. None takes a temporary folder.
    revision : str or None
        A branch, tag or commit.
    token, endpoint
        As for :func:`push_to_hub`.
    cache_dir : str, Path or None
        Folder for downloads; None takes the folder of huggingface_hub.

    Returns
    -------
    Hasher, sklearn.pipeline.Pipeline or SimilaritySearch
        As it was pushed. Files of the Hub are never unpickled.
    """
    if Path(repo_id).is_dir():
        return load(repo_id)
    api = require("huggingface_hub", "hub").HfApi(endpoint=endpoint, token=token)
    kept = api.snapshot_download(str(repo_id), revision=revision, cache_dir=cache_dir)
    if folder is None and (Path(kept) / MODEL_FILE).exists():
        return load(kept)
    # The cache is shared: a search that is opened there could be changed there.
    target = tempfile.mkdtemp(prefix="hashlearn-") if folder is None else folder
    shutil.copytree(kept, target, dirs_exist_ok=True)
    return load(target)


def write_for_hub(
    model: Any, folder: str | Path, *, data: str | None = None, recall: dict[str, float] | None = None
) -> None:
    """Write the files of a repository of the Hub to a folder: the model or search, and its card.

    Parameters
    ----------
    model : Hasher, sklearn.pipeline.Pipeline or SimilaritySearch
    folder : str or Path
        New or empty.
    data, recall
        For the card, as for :func:`push_to_hub`.
    """
    save(model, folder)
    (Path(folder) / CARD).write_text(model_card(model, data, recall), encoding="utf-8")


def model_card(model: Any, data: str | None = None, recall: dict[str, float] | None = None) -> str:
    """The card of a model or search: its method, bits and data, what was measured, and how to use it.

    Parameters
    ----------
    model : Hasher, sklearn.pipeline.Pipeline or SimilaritySearch
    data, recall
        As for :func:`push_to_hub`.

    Examples
    --------
    >>> from hashlearn import LSH
    >>> print(model_card(LSH(8, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]]), data="two points").split("---")[2])
    <BLANKLINE>
    <BLANKLINE>
    # LSH, 8 bits
    ...
    """
    is_search = isinstance(model, SimilaritySearch)
    hasher = as_hasher(model.hasher if is_search else model)
    last = hasher.pipeline[-1] if hasattr(hasher, "pipeline") else hasher
    method = type(last).__name__
    facts = {
        "method": f"{method}, {json.dumps(last.get_params(), default=str)}",
        "bits": str(hasher.n_bits),
        "features": str(hasher.n_features_in_),
        "data": data or "not said",
    }
    if is_search:
        facts |= {"rows": f"{len(model):,}", "metric": model.metric, "vectors kept": model.keep_vectors or "none"}
    measured = {**_tuned_recall(model.tuning if is_search else None), **(recall or {})}
    call = "search.search(queries, k=10)" if is_search else "model.transform(vectors)"
    return _CARD.format(
        title=f"{method}, {hasher.n_bits} bits",
        kind="A search" if is_search else "A model",
        version=__version__,
        facts="\n".join(f"| {name} | {value} |" for name, value in facts.items()),
        measured="\n".join(f"- {name}: {value:.4g}" for name, value in measured.items()) or "Nothing was said.",
        name="search" if is_search else "model",
        call=call,
    )


def _tuned_recall(tuning: Any) -> dict[str, float]:
    """What :meth:`SimilaritySearch.tune` has measured for the number of candidates that it chose."""
    if tuning is None:
        return {}
    recall = tuning.recalls[tuning.candidates.index(tuning.chosen)]
    return {f"{tuning.k}@{tuning.k} with {tuning.chosen} candidates, measured by tune": recall}


_CARD = """---
library_name: hashlearn
tags:
- learning-to-hash
- similarity-search
---

# {title}

{kind} of hashlearn {version}.

|  |  |
|---|---|
{facts}

## Measured

{measured}

## Use

```python
from hashlearn.adapters.hub import from_pretrained

{name} = from_pretrained("<this repository>")
{call}
```
"""
