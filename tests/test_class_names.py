"""A class name means one thing in the package."""

import ast
from collections import defaultdict
from pathlib import Path

import hashlearn


def places_of_classes():
    root, places = Path(hashlearn.__file__).parent, defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return places


def test_a_class_name_is_defined_once():
    twice = {name: places for name, places in places_of_classes().items() if len(places) > 1}
    assert not twice
