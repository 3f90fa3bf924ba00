"""The report is printed from the built site alone."""

import importlib
from pathlib import Path


def test_a_site_that_is_not_built_is_not_printed(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "docs")
    printer = importlib.import_module("print_report")
    page = tmp_path / "report.html"
    monkeypatch.setattr(printer, "PAGE", page)
    assert printer.main() == 1
    assert capsys.readouterr().out == f"{page} is missing. Build the documentation with: make docs\n"
