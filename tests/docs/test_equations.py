"""The table "equation by equation" of the JPSH page is true: each function is there and names its equation."""

import inspect
import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from hashlearn.hashers.jpsh import JPSH

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "methods" / "jpsh.md"
ROW = re.compile(r"^\| eq\. (\d+) \|.*\| `([\w.]+):([\w.]+)` \|$", re.MULTILINE)
CITATION = re.compile(r"\beqs?\. (\d+(?:(?:, | and )\d+)*)", re.IGNORECASE)
EQUATIONS = {2, 6, 7, 11, 13, 14, 16, 17, 19, 21, 23}

rows = [(int(number), module, name) for number, module, name in ROW.findall(PAGE.read_text(encoding="utf-8"))]


def cited(thing):
    """The equations that the source of a function or class names."""
    return {int(number) for found in CITATION.findall(inspect.getsource(thing)) for number in re.findall(r"\d+", found)}


def test_the_table_has_every_equation_that_is_computed():
    assert {number for number, _, _ in rows} == EQUATIONS


@pytest.mark.parametrize(("number", "module", "name"), rows)
def test_the_function_names_its_equation(number, module, name):
    assert number in cited(attrgetter(name)(import_module(f"hashlearn.{module}")))


def test_the_loop_names_no_equation_that_the_table_lacks():
    assert cited(JPSH.fit_summary) <= EQUATIONS
    assert cited(JPSH.fit_summary) >= EQUATIONS - {2}, "every step of Algorithm 1 has its equation beside it"


@pytest.mark.parametrize(("variable", "number"), [("P", 14), ("W", 16), ("Q", 17), ("R", 19), ("V", 21), ("B", 23)])
def test_the_line_of_a_step_has_its_number(variable, number):
    assert re.search(rf"^\s+{variable} = .*# eq\. {number}$", inspect.getsource(JPSH.fit_summary), re.MULTILINE)
