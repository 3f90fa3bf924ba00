"""Files that are moved aside and put back: links, hard links, files that change, and a process that is killed."""

import os
from pathlib import Path
from threading import Thread

import pytest
from faults.operations import count_operations, killed_at
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.duplicates import apply
from hashlearn.duplicates.apply import (
    FileStamp,
    Move,
    check_apply,
    link_files,
    move_files,
    plan_moves,
    read_record,
    read_stamps,
    undo_moves,
    write_stamps,
)
from hashlearn.duplicates.pictures import files_of_pictures


@pytest.fixture
def photos(tmp_path):
    """Files, hard links, and links of every kind."""
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in ("a.png", "b.png", "c.png", "sub/d.png", 'odd\nname, "q".png'):
        (folder / name).write_text(f"content of {name}")
    os.link(folder / "a.png", folder / "sub/a-again.png")
    (folder / "sub/to-b.png").symlink_to("../b.png")
    (folder / "absolute.png").symlink_to(folder.absolute() / "c.png")
    (folder / "through.png").symlink_to("album/to-b.png")
    (folder / "album").symlink_to("sub")
    (folder / "dangling.png").symlink_to("nowhere.png")
    (folder / "cycle1.png").symlink_to("cycle2.png")
    (folder / "cycle2.png").symlink_to("cycle1.png")
    (folder / "up").symlink_to("..")
    (folder / "outside.png").symlink_to("/etc/hostname")
    return folder


def state_of(folder):
    """Every name below a folder: what it is, its content and its inode."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(parent, name)
            if path.is_symlink():
                found[str(path)] = ("link", os.readlink(path))
            elif path.is_dir():
                found[str(path)] = ("folder",)
            else:
                found[str(path)] = ("file", path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def stamps_of(folder):
    return {name: FileStamp.of(folder / name) for name in files_of_pictures(folder).names}


def moves_of(folder, target, dropped):
    return plan_moves(dropped, folder, target, stamps_of(folder), files_of_pictures(folder).other_names)


def test_a_link_is_no_row_and_a_file_with_two_names_is_one(photos):
    found = files_of_pictures(photos)
    assert found.names == ["a.png", "b.png", "c.png", 'odd\nname, "q".png', "sub/d.png"]
    assert found.other_names == {"a.png": ["sub/a-again.png"]}
    reasons = dict(found.skipped)
    assert reasons["sub/to-b.png"] == "a link to ../b.png"
    assert reasons["sub/a-again.png"] == "another name of the file a.png (a hard link)"
    assert files_of_pictures(photos, ["sub/a-again.png"]).other_names == {"sub/a-again.png": ["a.png"]}


def test_after_move_and_undo_the_folder_is_what_it_was(photos, tmp_path):
    before = state_of(photos)
    good_links = [path for path in photos.rglob("*") if path.is_symlink() and path.exists()]
    target = tmp_path / "aside"
    dropped = dict.fromkeys(("a.png", "b.png", "c.png", 'odd\nname, "q".png'), "sub/d.png")
    plan = moves_of(photos, target, dropped)
    assert [move.target for move in plan.moves] == ["a.png", "sub/a-again.png", 'odd\nname, "q".png']
    assert dict(plan.stays) == {
        "b.png": "the link sub/to-b.png leads to it",
        "c.png": "the link absolute.png leads to it",
    }
    assert plan.n_bytes == len("content of a.png") + len('content of odd\nname, "q".png')
    assert not target.exists()
    assert move_files(plan, target).n_files == 3
    assert all(path.exists() for path in good_links)
    assert (photos / "sub/d.png").exists()
    assert os.path.samefile(target / "a.png", target / "sub/a-again.png")
    assert (target / 'odd\nname, "q".png').read_text() == 'content of odd\nname, "q".png'
    assert undo_moves(target / "moved.csv").n_files == 3
    assert state_of(photos) == before
    assert not target.exists()


def test_a_file_that_changed_stays(photos, tmp_path):
    stamps = stamps_of(photos)
    (photos / "a.png").write_text("another picture now")
    others = files_of_pictures(photos).other_names
    plan = plan_moves({"a.png": "sub/d.png"}, photos, tmp_path / "aside", stamps, others)
    assert (plan.moves, plan.stays) == ([], [("a.png", "it changed since it was compared")])
    (photos / "a.png").unlink()
    assert plan_moves({"a.png": "sub/d.png"}, photos, tmp_path / "aside", stamps, others).stays == []


@pytest.mark.parametrize("what", ["changed", "gone", "a link"])
@pytest.mark.parametrize("when", ["before the plan", "after it"])
def test_nothing_moves_whose_kept_file_changed_or_is_gone(photos, tmp_path, what, when):
    stamps, others = stamps_of(photos), files_of_pictures(photos).other_names

    def spoil():
        (photos / "sub/d.png").unlink()
        if what == "changed":
            (photos / "sub/d.png").write_text("other")
        elif what == "a link":
            (photos / "sub/d.png").symlink_to("../a.png")

    if when == "before the plan":
        spoil()
    plan = plan_moves({"a.png": "sub/d.png"}, photos, tmp_path / "aside", stamps, others)
    if when == "after it":
        spoil()
    moved = move_files(plan, tmp_path / "aside")
    assert moved.n_files == 0
    assert "sub/d.png, which is kept in its place, changed or is gone" in moved.stays[0].reason
    assert (photos / "a.png").exists()
    assert read_record(tmp_path / "aside/moved.csv") == []


def test_two_names_of_one_file_never_stand_for_each_other(photos, tmp_path):
    """A state may know both names from a time when they were two files."""
    stamps = {name: FileStamp.of(photos / name) for name in ("a.png", "sub/a-again.png", "c.png", "b.png")}
    plan = plan_moves({"sub/a-again.png": "a.png"}, photos, tmp_path / "aside", stamps, {})
    assert plan.stays == [("sub/a-again.png", "it is another name of a.png, which is kept in its place")]
    plan = plan_moves({"a.png": "b.png"}, photos, tmp_path / "aside", stamps, {"a.png": ["sub/a-again.png"]})
    assert plan.stays == [("a.png", "it is another name of sub/a-again.png, which is kept")]


def test_bytes_are_saved_only_where_no_other_name_is_left(photos, tmp_path):
    os.link(photos / "a.png", tmp_path / "elsewhere.png")
    assert moves_of(photos, tmp_path / "aside", {"a.png": "sub/d.png"}).n_bytes == 0


def test_a_name_that_is_taken_moves_nothing(photos, tmp_path):
    target = tmp_path / "aside"
    target.mkdir()
    (target / "a.png").write_text("other")
    with pytest.raises(ValueError, match=r"has a file a\.png already"):
        moves_of(photos, target, {"a.png": "sub/d.png"})


def test_undo_never_writes_over_a_file(photos, tmp_path):
    target = tmp_path / "aside"
    move_files(moves_of(photos, target, {"a.png": "sub/d.png"}), target)
    (photos / "a.png").write_text("new")
    undone = undo_moves(target / "moved.csv")
    assert undone.n_files == 1
    assert undone.stays == [(str(photos / "a.png"), "its old name is taken")]
    assert (photos / "a.png").read_text() == "new"
    assert (target / "a.png").read_text() == "content of a.png"
    (photos / "a.png").unlink()
    assert undo_moves(target / "moved.csv").n_files == 1
    assert not target.exists()


def test_a_folder_that_was_renamed_is_undone_too(photos, tmp_path):
    before = state_of(photos)
    move_files(moves_of(photos, tmp_path / "aside", {"a.png": "sub/d.png"}), tmp_path / "aside")
    (tmp_path / "aside").rename(tmp_path / "renamed")
    (tmp_path / "renamed/mine.txt").write_text("mine")
    undo_moves(tmp_path / "renamed/moved.csv")
    assert state_of(photos) == before
    assert os.listdir(tmp_path / "renamed") == ["mine.txt"]


def test_a_refused_move_leaves_no_folder_behind(photos, tmp_path, monkeypatch):
    """As in a folder that may not be written to; the tests may run as a user who may write everywhere."""
    before, target, rename = state_of(photos), tmp_path / "aside", os.rename

    def refusing(old, new):
        if old == photos / "sub/a-again.png":
            raise PermissionError(13, "Permission denied")
        rename(old, new)

    monkeypatch.setattr(os, "rename", refusing)
    moved = move_files(moves_of(photos, target, DROPPED), target)
    assert moved.stays == [("sub/a-again.png", "the system refuses to move it: Permission denied")]
    assert not (target / "sub").exists()
    undo_moves(target / "moved.csv")
    assert state_of(photos) == before
    assert not target.exists()


def test_a_folder_that_cannot_be_read_is_told(photos, monkeypatch):
    scandir = os.scandir

    def refusing(path):
        if Path(path) == photos / "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = files_of_pictures(photos)
    assert ("sub", "a folder: Permission denied") in found.skipped
    assert "sub/d.png" not in found.names
    assert "a.png" in found.names


def test_a_file_that_the_system_refuses_to_move_keeps_no_other_back(photos, tmp_path):
    before, target = state_of(photos), tmp_path / "aside"
    target.mkdir()
    (target / "sub").write_text("no folder")  # where sub/a-again.png would go
    moved = move_files(moves_of(photos, target, DROPPED), target)
    assert moved.n_files == 2
    assert [stay.name for stay in moved.stays] == ["sub/a-again.png"]
    assert moved.stays[0].reason.startswith("the system refuses to move it: ")
    assert [move.target for move in read_record(target / "moved.csv")] == ["a.png", 'odd\nname, "q".png']
    undo_moves(target / "moved.csv")
    assert state_of(photos) == before


def test_paths_that_are_too_long_for_the_system_keep_no_file_back(photos, tmp_path):
    folder = os.open(photos, os.O_RDONLY)
    for _ in range(25):
        os.close(os.open("n" * 240 + ".png", os.O_CREAT, dir_fd=folder))
        os.mkdir("d" * 200, dir_fd=folder)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    moved = move_files(moves_of(photos, tmp_path / "aside", DROPPED), tmp_path / "aside")
    assert moved.n_files == 3


def test_a_file_that_cannot_be_put_back_keeps_no_other_back(photos, tmp_path):
    before, target = state_of(photos), tmp_path / "aside"
    move_files(moves_of(photos, target, DROPPED), target)
    (photos / "sub").rename(tmp_path / "sub")
    (photos / "sub").write_text("no folder now")
    undone = undo_moves(target / "moved.csv")
    assert undone.n_files == 2
    assert [stay.name for stay in undone.stays] == [str(photos / "sub/a-again.png")]
    (photos / "sub").unlink()
    (tmp_path / "sub").rename(photos / "sub")
    assert undo_moves(target / "moved.csv").n_files == 1
    assert state_of(photos) == before


def test_two_runs_with_other_wishes_do_not_move_a_file_and_its_kept_one(photos, tmp_path, monkeypatch):
    """Each keeps what the other one drops, and both plans were made before either moved a file."""
    for link in ("sub/to-b.png", "absolute.png"):
        (photos / link).unlink()
    kept = {"b.png": "c.png", "c.png": "b.png"}
    plans = {name: moves_of(photos, tmp_path / name, {name: kept[name]}) for name in kept}
    rename, others = os.rename, []

    def after_the_other_one_tried(old, new):
        if not others:
            others.append(Thread(target=move_files, args=(plans["c.png"], tmp_path / "c.png")))
            others[0].start()
            others[0].join(0.2)
        rename(old, new)

    monkeypatch.setattr(os, "rename", after_the_other_one_tried)
    move_files(plans["b.png"], tmp_path / "b.png")
    others[0].join()
    assert [(photos / name).exists() for name in ("b.png", "c.png")] == [False, True]


@pytest.mark.parametrize("text", ["", "from,to\n", "a,b,c\n1,2,3\n", '"'])
def test_another_file_is_no_record(tmp_path, text):
    (tmp_path / "moved.csv").write_text(text)
    with pytest.raises(ValueError, match="is no record of moved files"):
        undo_moves(tmp_path / "moved.csv")


def test_a_record_that_is_not_there_is_named(tmp_path):
    for record in (tmp_path / "moved.csv", Path("/no-such-record")):
        with pytest.raises(FileNotFoundError, match=str(record)):
            undo_moves(record)


def test_a_record_cannot_name_files_outside_its_folder(photos, tmp_path):
    target = tmp_path / "aside"
    move_files(moves_of(photos, target, {"a.png": "sub/d.png"}), target)
    text = (target / "moved.csv").read_text()
    (target / "moved.csv").write_text(text.replace('"a.png"', '"../photos/b.png"'))
    with pytest.raises(ValueError, match="below its folder"):
        undo_moves(target / "moved.csv")


DROPPED = {"a.png": "sub/d.png", 'odd\nname, "q".png': "sub/d.png"}


def everything_is_somewhere(before, photos, target):
    """Each file of before is in its place or in its new one, named by the record, and no kept name is missing."""
    now = state_of(photos)
    moved = {} if not (target / "moved.csv").exists() else {m.source: m for m in read_record(target / "moved.csv")}
    for path, what in before.items():
        if path not in now:
            there = target / moved[path].target
            assert ("file", there.read_bytes(), there.stat().st_ino, there.stat().st_mtime_ns) == what
        else:
            assert now[path] == what
    assert set(now) <= set(before)


def test_killed_at_every_step_of_a_move_nothing_is_lost(photos, tmp_path):
    before, target = state_of(photos), tmp_path / "aside"

    def run():
        move_files(moves_of(photos, target, DROPPED), target)

    n_steps = count_operations(run)
    undo_moves(target / "moved.csv")
    assert n_steps > 8
    for step in range(1, n_steps + 1):
        assert killed_at(run, step)
        everything_is_somewhere(before, photos, target)
        if step % 2:  # put back what was moved, or go on
            if (target / "moved.csv").exists():
                undo_moves(target / "moved.csv")
        else:
            run()
            assert not (photos / "a.png").exists()
            undo_moves(target / "moved.csv")
        assert state_of(photos) == before


def test_killed_at_every_step_of_an_undo_nothing_is_lost(photos, tmp_path):
    before, target = state_of(photos), tmp_path / "aside"

    def run():
        move_files(moves_of(photos, target, DROPPED), target)

    run()
    n_steps = count_operations(lambda: undo_moves(target / "moved.csv"))
    assert n_steps > 5
    for step in range(1, n_steps + 1):
        run()
        assert killed_at(lambda: undo_moves(target / "moved.csv"), step)
        everything_is_somewhere(before, photos, target)
        if (target / "moved.csv").exists():
            undo_moves(target / "moved.csv")
        assert state_of(photos) == before


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, st.integers(0, 2**40), min_size=1))
def test_a_record_reads_as_it_was_written(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("records")
    stamps = {name: FileStamp(number, number, number) for name, number in names.items()}
    write_stamps(folder / "stamps.json", stamps)
    assert read_stamps(folder / "stamps.json") == stamps
    moves = [Move(f"/x/{name}", name, "/x/kept", 1, stamp) for name, stamp in stamps.items()]
    apply._write_record(folder / "moved.csv", moves)
    assert read_record(folder / "moved.csv") == moves


def test_files_are_linked(photos, tmp_path):
    for wanted in (2, 0):
        assert link_files(["a.png", "sub/d.png"], photos, tmp_path / "links") == wanted
    assert (tmp_path / "links/sub/d.png").read_text() == "content of sub/d.png"
    assert (photos / "sub/d.png").exists()


def test_places_that_cannot_be_moved_to(photos, tmp_path):
    for target in (photos, photos / "sub", tmp_path):
        with pytest.raises(ValueError, match="a folder outside"):
            check_apply("move", photos, target)
    with pytest.raises(ValueError, match="must be one of 'move', 'link', got 'delete'"):
        check_apply("delete", photos, tmp_path / "x")


def test_moving_to_another_disk_is_refused_before_anything_is_done(photos):
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == photos.stat().st_dev:
        pytest.skip("needs a second file system")
    with pytest.raises(ValueError, match="on the disk of"):
        check_apply("move", photos, memory / "aside")
    assert check_apply("link", photos, memory / "aside") == memory / "aside"
