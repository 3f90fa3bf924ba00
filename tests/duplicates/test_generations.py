"""A folder with generations has a whole state at every moment, and nothing in it is lost that others put there."""

import json
import os
import shutil
import stat

import pytest

from hashlearn.duplicates import generations
from hashlearn.duplicates.generations import FolderFormat
from hashlearn.durable.files import LEFTOVER
from hashlearn.durable.locks import LOCK, exclusive_folder

FORMAT = FolderFormat(title="test state", version=2, manifest="state.json")


def writing(text):
    """A state of two files with the same text."""

    def write(folder):
        (folder / "part").mkdir()
        (folder / "one").write_text(text)
        (folder / "part" / "two").write_text(text)
        return {"text": text}

    return write


def failing(folder):
    writing("half of it")(folder)
    raise OSError(28, "No space left on device")


def read(folder, manifest):
    found = {manifest["text"], (folder / "one").read_text(), (folder / "part" / "two").read_text()}
    assert len(found) == 1
    return found.pop()


def state(folder):
    return FORMAT.open(folder, read)


@pytest.fixture
def folder(tmp_path):
    FORMAT.save(tmp_path / "folder", writing("first"))
    return tmp_path / "folder"


def generations_in(folder):
    return [path for path in folder.iterdir() if path.name.startswith("generation-")]


def test_a_save_replaces_the_state_and_leaves_no_other(folder):
    assert state(folder) == "first"
    FORMAT.save(folder, writing("second"))
    assert state(folder) == "second"
    assert sorted(path.name for path in folder.iterdir()) == [generations_in(folder)[0].name, "state.json"]
    assert sorted(path.name for path in generations_in(folder)[0].iterdir()) == ["one", "part"]


def test_a_save_that_fails_leaves_the_folder_as_it_was(folder, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    for place in (folder, tmp_path / "new"):
        with pytest.raises(OSError, match="No space"):
            FORMAT.save(place, failing)
    assert sorted(tmp_path.rglob("*")) == before
    assert state(folder) == "first"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": "test state"}'])
@pytest.mark.parametrize("write", [failing, writing("new")])
def test_a_damaged_manifest_makes_no_save_remove_what_is_there(folder, damage, write):
    (folder / "state.json").write_text(damage)
    before = generations_in(folder)
    with pytest.raises(ValueError, match=r"state\.json"):
        state(folder)
    if write is failing:
        with pytest.raises(OSError, match="No space"):
            FORMAT.save(folder, write)
        assert generations_in(folder) == before
    else:
        FORMAT.save(folder, write)
        assert state(folder) == "new"


def test_a_manifest_that_cannot_be_read_for_once_costs_nothing(folder, monkeypatch):
    """The failing save does not know which generation is in use, and so removes none, not even its own."""

    def broken(path):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(generations, "read_json", broken)
        with pytest.raises(OSError, match="Input/output"):
            FORMAT.save(folder, writing("second"))
    assert state(folder) == "first"


def test_a_folder_of_a_newer_version_is_not_saved_to(folder):
    newer = FORMAT._replace(version=3)
    newer.save(folder, writing("of a newer version"))
    for use in (state, lambda place: FORMAT.save(place, writing("older"))):
        with pytest.raises(ValueError, match=r"version 3, this hashlearn reads up to 2; update"):
            use(folder)
    assert newer.open(folder, read) == "of a newer version"


@pytest.mark.parametrize("change", [{"text": "forged"}, {"generation": ".."}, {"format_version": 0}, {"more": 1}])
def test_an_edited_manifest_is_refused(folder, change):
    path = folder / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match="edited or damaged"):
        state(folder)


def test_a_forged_manifest_cannot_point_outside_its_folder(folder):
    forged = json.loads((folder / "state.json").read_text()) | {"generation": "../generation-1-0123456789abcdef"}
    forged["manifest_sha256"] = generations._checksum(forged)
    (folder / "state.json").write_text(json.dumps(forged))
    with pytest.raises(ValueError, match="names no generation of its folder"):
        state(folder)


def test_files_of_others_are_left_alone(folder):
    ours = generations_in(folder)[0]
    (folder / "generation-backup").mkdir()
    (folder / f"{ours.name}.bak").mkdir()
    (folder / f"{ours.name}.bak" / "one").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    (folder / "generation-1-0123456789abcdef").write_text("a file, no folder")
    if os.name != "nt":
        (folder / "generation-1-fedcba9876543210").symlink_to(folder / "generation-backup")
    others = set(os.listdir(folder)) - {ours.name}
    FORMAT.save(folder, writing("second"))
    assert others < set(os.listdir(folder))
    assert (folder / f"{ours.name}.bak" / "one").read_text() == "mine"


def test_a_folder_of_others_is_not_saved_to(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="with other files in it"):
        FORMAT.save(tmp_path, writing("text"))
    with pytest.raises(ValueError, match="got the file"):
        FORMAT.save(tmp_path / "notes.txt", writing("text"))
    with pytest.raises(ValueError, match="no folder"):
        FORMAT.save(tmp_path / "no" / "where", writing("text"))
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_first_save_that_was_killed_can_be_repeated(tmp_path):
    dead = tmp_path / "generation-1-0123456789abcdef"
    dead.mkdir()
    (dead / LOCK).touch()
    (dead / "one").write_text("half of it")
    (tmp_path / f".state.json.1-2{LEFTOVER}").touch()
    with pytest.raises(FileNotFoundError, match=r"has no state\.json"):
        state(tmp_path)
    FORMAT.save(tmp_path, writing("whole"))
    assert state(tmp_path) == "whole"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_generation_that_is_being_written_is_left_alone(folder):
    """A second saver begins and ends while the first is writing; the first, who ends last, is what is read."""

    def write(generation):
        FORMAT.save(folder, writing("second"))
        assert state(folder) == "second"
        return writing("slow")(generation)

    FORMAT.save(folder, write)
    assert state(folder) == "slow"
    assert len(generations_in(folder)) == 1


def test_a_reader_whose_generation_is_removed_reads_the_next(folder):
    seen = []

    def slow(generation, manifest):
        seen.append(generation)
        if len(seen) == 1:
            FORMAT.save(folder, writing("second"))
        return read(generation, manifest)

    assert FORMAT.open(folder, slow) == "second"
    assert len(set(seen)) == 2


def test_a_generation_that_is_missing_is_an_error_and_no_endless_search(folder):
    generations_in(folder)[0].rename(folder / "away")
    with pytest.raises(FileNotFoundError):
        state(folder)


def test_a_collector_that_is_earlier_than_the_lock_costs_a_second_try(folder, monkeypatch):
    """A folder is made, and another saver removes it before it is locked."""
    calls = []

    def late(path, **options):
        calls.append(path)
        if len(calls) == 1:
            path.rmdir()
        return exclusive_folder(path, **options)

    monkeypatch.setattr(generations, "exclusive_folder", late)
    FORMAT.save(folder, writing("second"))
    assert state(folder) == "second"
    assert calls[0] != calls[1]


@pytest.mark.skipif(os.name == "nt", reason="no folder is renamed there while a file in it is open")
def test_who_waits_for_the_lock_of_a_generation_that_goes_cannot_lock_it_again(folder, monkeypatch):
    """A folder is made, a collector locks it before its maker does, and the maker waits while it is removed."""
    made = folder / f"generation-1-{'0' * 16}"
    made.mkdir()
    refused, remove = [], shutil.rmtree

    def rmtree(path, **options):
        with pytest.raises(FileNotFoundError) as problem, exclusive_folder(made):
            pass
        refused.append(problem)
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    FORMAT.collect(folder)
    assert len(refused) == 1
    assert len(generations_in(folder)) == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_files_keep_their_permissions_from_one_generation_to_the_next(folder):
    (generation,) = generations_in(folder)
    (generation / "one").chmod(0o600)
    (generation / "part").chmod(0o711)
    (folder / "state.json").chmod(0o640)
    generation.chmod(0o750)

    def write(new):
        assert stat.S_IMODE(new.stat().st_mode) == 0o700  # while the files are not yet as closed as those before
        return writing("second")(new)

    FORMAT.save(folder, write)
    (generation,) = generations_in(folder)
    modes = {name: stat.S_IMODE((generation / name).stat().st_mode) for name in ("", "one", "part", "part/two")}
    assert modes == {"": 0o750, "one": 0o600, "part": 0o711, "part/two": modes["part/two"]}
    assert stat.S_IMODE((folder / "state.json").stat().st_mode) == 0o640
