"""Pages that are made from the code: the list of methods from the registry, the reference from the public names.

A new method, or a new public name, is in them without an edit.
"""

from importlib import import_module
from pathlib import Path

from hashlearn import METHODS

METHOD_INDEX = """\
# The methods

One page for each: its idea, objective, algorithm, cost, and when to use it.

| method | what it does |
|---|---|
{rows}
| [HasherUnion](union.md) | Concatenate the bits of several hashers. |

```{{toctree}}
:hidden:

{pages}
union
```
"""

REFERENCE = """\
{title}
{line}

{text}

.. currentmodule:: {module}

.. autosummary::
   :toctree: generated

{names}
"""

PACKAGES = {
    "search": "Find the nearest codes, or the nearest vectors by their codes.",
    "codes": "What a code is: packing, bit order, distances.",
    "metrics": "Measure how good codes are.",
    "rows": "Where vectors are, and how a pass goes over them. You need this to write a method.",
    "features": "Images and texts to vectors.",
    "datasets": "Named data with labels and splits.",
    "duplicates": "Near-duplicates among vectors and texts.",
    "stores": "Codes in LanceDB, PostgreSQL, Milvus, SQLite and DuckDB.",
    "experiments": "Experiments described in TOML files.",
    "recommend": "Which method, length and search to take for some vectors.",
}
"""Package -> what its page of the reference says first."""

ADAPTERS = {
    "langchain": ["LangChainVectorStore"],
    "llama_index": ["LlamaIndexVectorStore"],
    "haystack": ["HaystackDocumentStore", "HaystackEmbeddingRetriever"],
    "sklearn_neighbors": ["HashNeighborsTransformer"],
    "hub": ["push_to_hub", "from_pretrained", "write_for_hub", "model_card"],
    "mteb": ["MTEBCodes"],
}
"""Module of ``hashlearn.adapters`` -> its public names."""


def write_pages(docs: Path) -> None:
    """Write the pages, those that have changed."""
    pages = {"explanation/methods/index.md": method_index(), "reference/hashers.rst": hashers_reference()}
    pages |= {f"reference/{name}.rst": package_reference(name) for name in PACKAGES}
    pages["reference/adapters.rst"] = adapters_reference()
    for place, text in pages.items():
        path = docs / place
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def method_index() -> str:
    """The page that leads to the pages of the methods."""
    rows = "\n".join(f"| [{cls.__name__}]({name}.md) | {first_line(cls)} |" for name, cls in METHODS.items())
    return METHOD_INDEX.format(rows=rows, pages="\n".join(METHODS))


def hashers_reference() -> str:
    """The page of the reference with the classes of the methods."""
    names = ["Hasher", *(cls.__name__ for cls in METHODS.values()), "HasherUnion", "fit_lengths", "load"]
    return reference(
        "hashers", "hashlearn", "Learn codes. Every method follows the contract of :class:`Hasher`.", names
    )


def package_reference(name: str) -> str:
    """The page of the reference with the public classes and functions of a package."""
    module = import_module(f"hashlearn.{name}")
    return reference(name, module.__name__, PACKAGES[name], [n for n in module.__all__ if callable(getattr(module, n))])


def adapters_reference() -> str:
    """The page of the reference with the adapters: what is inherited from their frameworks is documented there."""
    lines = ["adapters", "========", "", "A search in other frameworks; see :doc:`../howto/integrations`.", ""]
    for module, names in ADAPTERS.items():
        lines += [module, "-" * len(module), ""]
        for name in names:
            kind = "autoclass" if name[0].isupper() else "autofunction"
            lines += [f".. {kind}:: hashlearn.adapters.{module}.{name}", *["   :members:"] * name[0].isupper(), ""]
    return "\n".join(lines)


def reference(title: str, module: str, text: str, names: list[str]) -> str:
    lines = "\n".join(f"   {name}" for name in names)
    return REFERENCE.format(title=title, line="=" * len(title), text=text, module=module, names=lines)


def first_line(cls: type) -> str:
    """What a class says about itself in one line."""
    return (cls.__doc__ or "").strip().partition("\n")[0]
