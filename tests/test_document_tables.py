"""The numbers in README and docs are those of the files that commands wrote."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("document_tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_what_the_files_say(tables, capsys):
    assert tables.main(["--check"]) == 0, capsys.readouterr().out


def test_a_number_changed_by_hand_is_found(tables):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = re.sub(r"\| \*\*JPSH\*\* \| 0\.\d", "| **JPSH** | 0.9", text)
    assert changed != text
    assert tables.with_tables(changed) == text


def test_a_table_without_a_maker_is_named(tables):
    with pytest.raises(ValueError, match=r"table must be one of .*measured, .* got 'nothing'"):
        tables.with_tables("<!-- table: nothing -->\n<!-- end -->\n")


def test_what_stands_outside_the_marks_is_left_alone(tables):
    text = "# A page\n\n| typed | 1 |\n"
    assert tables.with_tables(text) == text


def test_every_maker_has_its_table_in_a_page(tables):
    shown = {found["name"] for page in tables.pages() for found in tables.MARKED.finditer(page.read_text("utf-8"))}
    assert set(tables.TABLES) == shown
