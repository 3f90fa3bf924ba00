"""Without a browser the tests that need one are skipped, whatever else is set; a variable of their own insists."""

import pytest
from chromium_program import chromium_program


@pytest.fixture
def no_browser(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HASHLEARN_BROWSER", raising=False)
    return monkeypatch


@pytest.mark.parametrize("ci", ["", "true"])
def test_no_browser_is_a_reason_to_skip(no_browser, ci):
    no_browser.setenv("CI", ci)
    with pytest.raises(pytest.skip.Exception, match="no Chromium found"):
        chromium_program()


def test_the_variable_insists(no_browser):
    no_browser.setenv("HASHLEARN_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="no Chromium found"):
        chromium_program()
