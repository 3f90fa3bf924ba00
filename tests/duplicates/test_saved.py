import errno
import json
import os

import numpy as np
import pytest
from duplicates.near_pairs import group_sets, with_planted

from hashlearn import Duplicates, find_duplicates
from hashlearn.duplicates import plan as plans
from hashlearn.duplicates import saved

X = with_planted(600, 16, 200, step=0.5)


@pytest.fixture(params=["codes", "projection"])
def found(request, monkeypatch):
    if request.param == "codes":
        monkeypatch.setattr(plans, "_LOOK_AT_PRODUCT", 1.0)
    return find_duplicates(X, 0.05, ids=[f"row {i}" for i in range(600)], scores=np.arange(600) % 7)


def test_what_was_saved_is_opened_and_goes_on(found, tmp_path):
    found.save(tmp_path / "state")
    opened = Duplicates.open(tmp_path / "state")
    assert repr(opened) == repr(found)
    assert group_sets(opened) == group_sets(found)
    assert all_pairs_of_ids(opened) == all_pairs_of_ids(found)
    assert str(opened.plan) == str(found.plan)
    new = X[:50] + np.float32(0.001)
    assert opened.check(new).duplicate_of.tolist() == found.check(new).duplicate_of.tolist()
    names = [f"new {i}" for i in range(50)]
    opened.add(new, names, np.zeros(50)).save(tmp_path / "state")
    found.add(new, names, np.zeros(50))
    again = Duplicates.open(tmp_path / "state")
    assert group_sets(again) == group_sets(found)
    assert len(again) == 650
    assert len(list((tmp_path / "state").glob("generation-*"))) == 1


def all_pairs_of_ids(duplicates):
    return {pair for pairs in duplicates.all_pairs() for pair in zip(pairs.first.tolist(), pairs.second.tolist())}


def test_integer_ids_and_rows_of_bytes(tmp_path):
    rows = np.random.RandomState(0).randint(1, 255, (50, 6)).astype(np.uint8)
    find_duplicates(rows, 0.01, ids=np.arange(50) * 3).save(tmp_path / "state")
    opened = Duplicates.open(tmp_path / "state")
    assert opened.ids.tolist() == [3 * i for i in range(50)]
    assert np.load(next(tmp_path.glob("state/generation-*/vectors.npy"))).dtype == np.uint8
    assert opened.check(rows).is_copy.all()


@pytest.mark.parametrize("name", ["vectors.npy", "state.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_folder_is_refused(tmp_path, name, damage):
    find_duplicates(X, 0.05).save(tmp_path / "state")
    path = next(tmp_path.glob(f"state/generation-*/{name}"))
    content = path.read_bytes()
    path.write_bytes(
        content[:-100] if damage == "cut" else content[:-100] + bytes(255 - byte for byte in content[-100:])
    )
    with pytest.raises(ValueError, match=r"was changed|cannot be read|rows|mmap length|holds no duplicates"):
        Duplicates.open(tmp_path / "state")


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "duplicates.json").write_text(json.dumps({"format": "something"}))
    with pytest.raises(ValueError, match="does not say format"):
        Duplicates.open(tmp_path)
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="with other files in it"):
        find_duplicates(X, 0.05).save(tmp_path)
    with pytest.raises(FileNotFoundError, match="is no saved hashlearn duplicates"):
        Duplicates.open(tmp_path / "none")


def test_a_full_disk_leaves_the_state_before(tmp_path, monkeypatch):
    found = find_duplicates(X, 0.05)
    found.save(tmp_path / "state")
    before = group_sets(found)
    found.add(X + np.float32(0.001))

    def full(file, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(saved, "write_all", full)
    with pytest.raises(OSError, match="No space left on device"):
        found.save(tmp_path / "state")
    assert group_sets(Duplicates.open(tmp_path / "state")) == before
    assert len(list((tmp_path / "state").glob("generation-*"))) == 1
