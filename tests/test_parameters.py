"""A function has at most seven parameters, or a reason: docs/explanation/architecture.md says which reasons count."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hashlearn

ROOT = Path(hashlearn.__file__).parent
MOST = 7
MOST_BY_POSITION = 4
KERNELS = {"compiled", "fast", "lean", "spliced", "inlined", "intrinsic"}

CALLED_BY_KEYWORDS = {
    "adapters/hub.py push_to_hub": 8,
    "client.py AsyncClient.search": 15,
    "client.py Client.search": 15,
    "datasets/load.py load": 8,
    "duplicates/find.py check_against": 8,
    "duplicates/find.py find_duplicate_texts": 8,
    "duplicates/find.py find_duplicates": 12,
    "experiments/judge.py evaluate_real_queries": 8,
    "metrics/evaluate.py evaluate": 13,
    "search/bulk.py search_in_bulk": 9,
    "search/similarity.py SimilaritySearch.add": 8,
    "search/reading.py SearchReading.search": 19,
    "search/similarity.py SimilaritySearch.upsert": 8,
    "search/tune.py tune": 8,
    "stores/loading.py load_codes": 9,
    "stores/uri.py open_store": 8,
}
"""Functions that people call, and how many parameters each has: they set a few of them, by name."""


class Function(NamedTuple):
    """A function of the package."""

    name: str
    parameters: list[str]
    n_by_position: int
    decorators: set[str]

    @property
    def may_have_many(self) -> bool:
        """Whether it is a constructor, a verb of the command line or a kernel."""
        file, name = self.name.split()
        is_verb = file.startswith("cli/") and (name == "run" or "command" in self.decorators)
        return name.endswith("__init__") or is_verb or bool(self.decorators & KERNELS)


def functions() -> Iterator[Function]:
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from functions_of(tree, f"{path.relative_to(ROOT).as_posix()} ")


def functions_of(node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from functions_of(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            by_position = [each.arg for each in child.args.posonlyargs + child.args.args]
            by_position = [name for name in by_position if name not in ("self", "cls")]
            parameters = by_position + [each.arg for each in child.args.kwonlyargs]
            yield Function(prefix + child.name, parameters, len(by_position), set(map(name_of, child.decorator_list)))
            yield from functions_of(child, f"{prefix}{child.name}.")
        else:
            yield from functions_of(child, prefix)


def name_of(decorator: ast.expr) -> str:
    """The last name of a decorator: "command" of ``@app.command("embed")``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def test_functions_with_more_than_seven_parameters_are_those_that_people_call_by_keywords():
    many = {f.name: f for f in functions() if len(f.parameters) > MOST and not f.may_have_many}
    assert {name: len(f.parameters) for name, f in many.items()} == CALLED_BY_KEYWORDS
    by_position = {name: f.n_by_position for name, f in many.items() if f.n_by_position > MOST_BY_POSITION}
    assert not by_position


def test_a_function_is_found_with_all_its_parameters():
    source = "class A:\n @app.command('x')\n def f(self, a, /, b, *, c):\n  def g(): pass"
    inside = [("A.f", ["a", "b", "c"], 2, {"command"}), ("A.f.g", [], 0, set())]
    assert list(functions_of(ast.parse(source), "")) == inside
