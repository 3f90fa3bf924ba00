"""What a release says of itself is said once, and the same everywhere."""

import re
import tomllib
from pathlib import Path

import pytest

from hashlearn import __version__

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_comes_from_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert re.search(r"^version: (.+)$", text_of("CITATION.cff"), re.MULTILINE)[1] == __version__
    assert re.search(r"^## ([0-9.]+)", text_of("CHANGELOG.md"), re.MULTILINE)[1] == __version__


def test_the_conda_recipe_wants_what_the_wheel_wants():
    run = text_of("conda/meta.yaml").split("  run:\n")[1].split("\n\n")[0]
    wanted = {line.strip().removeprefix("- ").replace(" ", "") for line in run.splitlines()}
    assert wanted == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}


def test_the_classifiers_name_the_pythons_that_are_tested():
    named = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    matrix = re.search(r"python: \[(.+)\]", text_of(".github/workflows/tests.yml"))
    assert matrix is not None
    assert named == set(re.findall(r"3\.\d+", matrix[1]))


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", ".github/ISSUE_TEMPLATE/bug.yml", "LICENSE"])
def test_what_a_user_looks_for_is_there(name):
    assert text_of(name).strip()


def test_setuptools_is_held_back_for_milvus_alone():
    extras = PROJECT["optional-dependencies"]
    holding = {name for name, wanted in extras.items() if any(each.startswith("setuptools") for each in wanted)}
    assert holding == {"milvus"}
    assert any(each.startswith("setuptools>=78.1.1,<81;") for each in extras["milvus"])
