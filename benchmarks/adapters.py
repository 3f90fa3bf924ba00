"""How many tests of each framework's own suite our adapter passes, and why others do not apply.

The table is in docs/howto/integrations.md.

    pip install 'mteb>=2.0' umap-learn
    python benchmarks/adapters.py

It runs the suites among our tests, and adds a line to ``results/adapters.jsonl``. mteb and umap-learn are not among the
packages of the tests: where one is missing, its row says that it did not run.
"""

import argparse
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from runs import add_out_option, append_run
from suites import outcome_of


class Suite(NamedTuple):
    """Tests of a framework that run among ours."""

    framework: str
    package: str
    module: str
    name: str
    tests: tuple[str, ...]


SUITES = (
    Suite(
        "LangChain",
        "langchain-tests",
        "langchain_tests",
        "`VectorStoreIntegrationTests`, sync and async, on a new store",
        ("test_langchain.py::TestStandard",),
    ),
    Suite(
        "LangChain",
        "langchain-tests",
        "langchain_tests",
        "the same on a saved search that was fitted",
        ("test_langchain.py::TestStandardByALearnedMethod",),
    ),
    Suite(
        "Haystack",
        "haystack-ai",
        "haystack",
        "`DocumentStoreBaseExtendedTests`",
        ("test_haystack.py::TestStandard",),
    ),
    Suite(
        "Haystack",
        "haystack-ai",
        "haystack",
        "count, write, delete and filter of `document_store_async`",
        ("test_haystack.py::TestStandardInAsyncCode",),
    ),
    Suite(
        "scikit-learn",
        "scikit-learn",
        "sklearn",
        "`parametrize_with_checks`",
        ("test_sklearn_neighbors.py::test_the_rules_of_scikit_learn",),
    ),
    Suite(
        "UMAP",
        "umap-learn",
        "umap",
        '`precomputed_knn`, `KNeighborsClassifier(metric="precomputed")` and `Isomap` take a search\'s neighbors',
        ("test_sklearn_neighbors.py::TestSearch::test_before_a_classifier_isomap_and_umap",),
    ),
    Suite(
        "LlamaIndex", "llama-index-core", "llama_index", "none is published: tests of ours", ("test_llama_index.py",)
    ),
    Suite(
        "Hugging Face Hub",
        "huggingface_hub",
        "huggingface_hub",
        "none is published: push and pull against a local endpoint",
        ("test_hub.py",),
    ),
    Suite("MTEB", "mteb", "mteb", "none is published: a task of ours runs in `mteb.evaluate`", ("test_mteb.py",)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out_option(parser)
    options = parser.parse_args()
    rows = [counted(suite) for suite in SUITES]
    append_run(options.out, "adapters", {"suites": rows})


def counted(suite: Suite) -> dict:
    """What became of the tests of a suite."""
    row = {"framework": suite.framework, "suite": suite.name}
    if find_spec(suite.module) is None:
        return row | {"tests": 0, "passed": 0, "left out": ["the package is not installed"]}
    # scikit-learn's check of the array API runs where this is set.
    outcome = outcome_of([f"tests/adapters/{each}" for each in suite.tests], {"SCIPY_ARRAY_API": "1"})
    row |= {"version": f"{suite.package} {version(suite.package)}", "tests": outcome.n_tests}
    row |= {"passed": outcome.n_passed, "left out": outcome.left_out}
    print(row)
    return row


if __name__ == "__main__":
    main()
