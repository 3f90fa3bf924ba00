"""Every test has a cache of its own and no data folder."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for the module originals, which writes small originals


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("HASHLEARN_CACHE", str(folder))
    monkeypatch.delenv("HASHLEARN_DATA", raising=False)
    return folder
