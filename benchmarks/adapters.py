"""How many tests of each framework's own suite our adapter passes, and why others do not apply.

The table is in docs/howto/integrations.md.

    python benchmarks/adapters.py

It runs the suites among our tests, and adds a line to ``results/adapters.jsonl``. mteb is not among the packages of the
tests: where it is missing, its row says that it did not run.
"""

import argparse
import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from runs import add_out_option, append_run

TESTS = Path(__file__).resolve().parents[1] / "tests" / "adapters"


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


class Counter:
    """A plugin of pytest that counts tests by their outcome."""

    def __init__(self) -> None:
        self.passed, self.failed, self.reasons = 0, 0, []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.reasons.append(str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.wasxfail))
        elif report.failed:
            self.failed += 1
        elif report.when == "call":
            self.passed += 1


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
        row |= {"tests": 0, "passed": 0, "left out": ["the package is not installed"]}
    else:
        counter = Counter()
        pytest.main(["-q", "-p", "no:cacheprovider", *(os.fspath(TESTS / each) for each in suite.tests)], [counter])
        n = counter.passed + counter.failed + len(counter.reasons)
        row |= {"version": version(suite.package), "tests": n, "passed": counter.passed, "left out": counter.reasons}
    print(row)
    return row


if __name__ == "__main__":
    main()
