"""The Chromium of the system, for the tests that look at pages."""

import os
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


def missing(reason):
    """Skip, but not where the tests must all run."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def chromium_program():
    """Its path."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing("no Chromium found; on Debian: apt-get install chromium")
    return program
