"""What tests of several rooms use."""

import pytest
from chromium_program import FLAGS, chromium_program


@pytest.fixture(scope="session")
def chromium():
    """A browser; one for all tests of a process, which can drive no second one beside it."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_program(), args=FLAGS)
        yield browser
        browser.close()
