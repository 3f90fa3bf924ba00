"""Every public name says what it takes, what it returns, and gives an example."""

import dataclasses
import inspect
import re
from itertools import pairwise

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import hashlearn
import hashlearn.stores
from hashlearn.checks import Range

ASKED = {
    "GL08": "a docstring",
    "PR01": "every parameter",
    "PR02": "no parameter that is not there",
    "PR03": "parameters in their order",
    "PR04": "a type for every parameter",
    "PR07": "a description for every parameter",
    "RT01": "what is returned",
    "RT03": "a description of what is returned",
}
"""Codes of numpydoc's checks, and what they ask for."""

WITH_SHARED_TYPE = {"PR04"}
"""Asked only where the parameter does not refer to another docstring ("As in ...")."""


MODULES = {
    hashlearn: hashlearn.__all__,
    hashlearn.stores: ["Store", "open_store", "load_codes", "to_faiss", "to_numpy", "to_parquet", "to_usearch"],
}


MADE_BY_FUNCTIONS = (hashlearn.stores.Store, hashlearn.Duplicates)


def public_objects():
    for module, names in MODULES.items():
        for name in names:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing


def is_result(thing):
    """Results of functions list their attributes; nobody calls their constructors."""
    return (
        thing in MADE_BY_FUNCTIONS
        or dataclasses.is_dataclass(thing)
        or (inspect.isclass(thing) and issubclass(thing, tuple))
    )


def public_methods():
    for path, cls in public_objects():
        if inspect.isclass(cls):
            for name, method in inspect.getmembers(cls, lambda member: inspect.isroutine(member)):
                ours = getattr(method, "__module__", None) or ""
                # A method without a docstring of its own has that of the class below it, in help() as on the site.
                if not name.startswith("_") and ours.startswith("hashlearn") and method.__doc__:
                    yield f"{path}.{name}"


def is_explained_elsewhere(path):
    """Whether the docstring is "As :meth:`Client.get`.", of a method with the same parameters."""
    method = _find(path)
    other = re.fullmatch(r"As :meth:`(\w+\.\w+)`\.", (inspect.getdoc(method) or "").strip())
    if other is None:
        return False
    return inspect.signature(method).parameters == inspect.signature(_find(f"hashlearn.{other[1]}")).parameters


def complaints(path):
    if is_explained_elsewhere(path):
        return []
    errors = validate(path)["errors"]
    return [f"{code}: {text}" for code, text in errors if code in ASKED and not _refers(path, code, text)]


def _refers(path, code, text):
    """Whether the type is missing because the parameter is explained elsewhere."""
    named = re.search(r'"(.+)"', text)
    lines = inspect.getdoc(_find(path)).splitlines()
    return code in WITH_SHARED_TYPE and any(
        named[1] in line.split(", ") and after.strip().startswith("As in ") for line, after in pairwise(lines)
    )


def _find(path):
    thing = hashlearn
    for name in path.split(".")[1:]:
        thing = getattr(thing, name)
    return thing


CALLED = sorted(path for path, thing in public_objects() if not is_result(thing))


@pytest.mark.parametrize("path", [*CALLED, *sorted(set(public_methods()))])
def test_the_docstring_is_complete(path):
    assert complaints(path) == []


@pytest.mark.parametrize("path", CALLED)
def test_there_is_an_example(path):
    assert "EX01" not in [code for code, _ in validate(path)["errors"]]


@pytest.mark.parametrize("name", sorted(hashlearn.METHODS))
def test_the_docstring_says_the_ranges_that_fit_checks(name):
    cls = hashlearn.METHODS[name]
    said = {parameter.name: parameter.type for parameter in NumpyDocString(inspect.getdoc(cls))["Parameters"]}
    for parameter, allowed in {"n_bits": Range(int, 1), **cls._ranges}.items():
        if allowed.kind is not None and said.get(parameter, "").startswith(("int", "float")):
            limits = f"{allowed.low:g} to {allowed.high:g}" if allowed.high is not None else f"at least {allowed.low:g}"
            assert f"({limits})" in said[parameter], (parameter, said[parameter])
