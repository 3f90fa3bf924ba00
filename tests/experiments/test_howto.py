"""The example of the how-to page runs."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "experiments.md"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with the files that the page's example names."""
    X, y = load_digits(return_X_y=True)
    np.save(tmp_path / "vectors.npy", X[:600].astype(np.float32))
    np.save(tmp_path / "kinds.npy", y[:600])
    text = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    (tmp_path / "shop.toml").write_text(text.replace("runs = 3", "runs = 1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_of_the_page_runs(shop, capsys):
    for arguments in (["run", "shop.toml", "--workers", "1"], ["show", "shop.toml"], ["report", "shop.toml"]):
        with pytest.raises(SystemExit) as ended:
            main(["experiment", *arguments])
        assert ended.value.code == 0
    printed = capsys.readouterr().out
    for title in ("Codes for my shop", "My shop, mAP", "JPSH, four rounds", "ITQ, real queries", "10@100"):
        assert title in printed
    assert "<h1>Codes for my shop</h1>" in (shop / "shop.html").read_text(encoding="utf-8")
