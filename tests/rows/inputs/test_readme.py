"""The lines of the README, with a frame that has an id, a text and an embedding of every row."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

README = Path(__file__).resolve().parents[3] / "README.md"
ROWS = np.random.default_rng(0).normal(size=(300, 24)).astype(np.float32)
COLUMNS = {"id": [f"item-{row}" for row in range(300)], "text": [f"text {row}" for row in range(300)]}


@pytest.mark.parametrize(
    "frame", [pd.DataFrame({**COLUMNS, "embedding": list(ROWS)}), pl.DataFrame({**COLUMNS, "embedding": ROWS})]
)
def test_the_five_lines_work_with_a_frame(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?ABH.*?)```", text, re.DOTALL)[1]
    add = re.search(r"`(search\.add\(frame.*?\))`", text)[1]
    code = re.sub(r"^vectors = .*$", 'vectors = frame["embedding"]', code, flags=re.MULTILINE)
    code = code.replace(".fit(vectors).add(vectors)", f".fit(vectors)\n{add}")
    names = {"frame": frame}
    exec(code, names)
    assert names["ids"][:, 0].tolist() == [f"item-{row}" for row in range(3)]
    assert names["search"].payloads(["item-7"]) == [{"text": "text 7"}]
    assert (tmp_path / "my-search").is_dir()
