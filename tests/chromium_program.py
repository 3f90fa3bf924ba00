"""The Chromium of the system, for the tests that look at pages."""

import os
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
VARIABLE = "HASHLEARN_BROWSER"


def missing(reason):
    """Skip, but not where ``HASHLEARN_BROWSER=required`` says that the tests in a browser must run."""
    if os.environ.get(VARIABLE) == "required":
        pytest.fail(f"{reason} ({VARIABLE}=required)")
    pytest.skip(reason)


def chromium_program():
    """Its path."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing("no Chromium found; on Debian: apt-get install chromium")
    return program
