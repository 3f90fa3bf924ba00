"""The check of the built site finds what is broken."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def check_site():
    path = Path(__file__).resolve().parents[2] / "docs" / "check_site.py"
    spec = importlib.util.spec_from_file_location("check_site", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_broken_links_and_foreign_hosts_are_found(check_site, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<h1 id="here">B</h1><a href="../a.html">A</a>')
    (tmp_path / "a.html").write_text(
        '<a href="sub/b.html#here">right</a><a href="sub/b.html#there">no anchor</a><a href="c.html">no page</a>'
        '<a href="https://example.org">a link may lead elsewhere</a><script src="https://example.org/x.js"></script>'
    )
    assert check_site.broken_links(tmp_path) == [
        "a.html: no anchor sub/b.html#there",
        "a.html: no c.html",
        "a.html: fetches https://example.org/x.js",
    ]
