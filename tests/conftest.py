"""What tests of several rooms use."""

import gc
import os
from pathlib import Path

import pytest
from chromium_program import FLAGS, chromium_program, missing
from hypothesis import settings
from one_compiler import compile_once

settings.register_profile("without deadlines", deadline=None)  # on a busy machine an example may take any time
settings.load_profile("without deadlines")
compile_once()
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # Haystack sends statistics of its use otherwise

AXE = Path(__file__).resolve().parents[1] / ".venv" / "axe" / "axe.min.js"


def pytest_collection_finish():
    """What the imports and the collection have left is there until the end: the collector need not look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def chromium():
    """A browser for the tests of a module: while there is one, no test of its process can run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_program(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serious_problems():
    """A function that has axe-core look at a page for what people with a screen reader or a keyboard cannot use."""
    path = Path(os.environ.get("HASHLEARN_AXE", AXE))
    if not path.is_file():
        missing("axe-core is not there; make test fetches it with npm")
    axe = path.read_text(encoding="utf-8")

    def problems(page):
        page.add_script_tag(content=axe)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        serious = [violation for violation in found if violation["impact"] in ("serious", "critical")]
        return [(violation["id"], violation["nodes"][0]["html"]) for violation in serious]

    return problems
