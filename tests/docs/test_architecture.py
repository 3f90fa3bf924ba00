"""The layers that the page on architecture lists are those that the import contract enforces."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_lists_the_layers_of_the_contract():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"## The layers\n.*?\n\n((?:    \S[^\n]*\n)+)", page, re.DOTALL)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    assert listed
    assert [line.strip() for line in listed[1].splitlines()] == contract["layers"]


def test_the_page_names_every_package():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "src" / "hashlearn").glob("*/__init__.py")}
    assert not {name for name in packages if f"| `{name}` |" not in page}


def test_the_page_names_every_file_of_a_search():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    files = {path.name for path in (ROOT / "src" / "hashlearn" / "search").glob("*.py")} - {"__init__.py"}
    assert not {name for name in files if f"`{name}`" not in page}
