"""Every Python example of README and docs runs, those of a page one after the other."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?P<mark><!-- not run: .+? -->\n+)?^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def snippets(page):
    """The examples of a page; one that cannot run has a comment before it that says why."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [match["code"] for match in found if not match["mark"]]


TESTED_WITH_THEIR_DATABASES = {"experiments.md", "scale.md", "stores.md"}
"""How-to pages that tests of their own packages run."""


def pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    made = {"_build", "gallery"}
    return [
        page
        for page in found
        if not made & set(page.parts) and page.name not in TESTED_WITH_THEIR_DATABASES and snippets(page)
    ]


def test_no_python_stands_outside_the_blocks_that_run():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        outside = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"^ {4,}(from|import) \w+", outside, re.MULTILINE), page


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "leaderboard")
    digits = load_digits().data.astype(np.float32)
    names = {"X": digits, "vectors": digits[:-50], "queries": digits[-50:], "np": np}
    names |= {"texts": ["one text", "one  text", "another"], "train": digits[:-50], "test": digits[-50:]}
    np.save("vectors.npy", digits)
    for code in snippets(page):
        exec(compile(code, str(page), "exec"), names)
