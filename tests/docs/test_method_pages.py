"""Every method of the registry has its page, every page its sections; the reference has every adapter."""

import runpy
from importlib import import_module
from pathlib import Path

import pytest

import hashlearn.adapters
from hashlearn import METHODS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "methods"
SECTIONS = ("Idea", "Algorithm", "Complexity", "When to use it")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_a_page_with_its_name_and_sections(name):
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {METHODS[name].__name__}: ")
    assert not [section for section in SECTIONS if f"\n## {section}\n" not in page]


def test_the_lists_have_every_method():
    pages = runpy.run_path(str(FOLDER.parents[1] / "registry_pages.py"))
    for name, cls in METHODS.items():
        assert f"| [{cls.__name__}]({name}.md) | " in pages["method_index"]()
        assert f"   {cls.__name__}\n" in pages["hashers_reference"]()


def test_the_reference_has_every_adapter():
    pages = runpy.run_path(str(FOLDER.parents[1] / "registry_pages.py"))
    found = {path.stem for path in Path(hashlearn.adapters.__path__[0]).glob("*.py")} - {"__init__", "documents"}
    assert set(pages["ADAPTERS"]) == found
    for module, names in pages["ADAPTERS"].items():
        for name in names:
            assert callable(getattr(import_module(f"hashlearn.adapters.{module}"), name))
            assert f":: hashlearn.adapters.{module}.{name}\n" in pages["adapters_reference"]()
