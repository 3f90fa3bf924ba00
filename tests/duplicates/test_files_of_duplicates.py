"""Tables of groups, files that are moved or linked, pictures that are encoded once."""

import csv
from pathlib import Path

import numpy as np
import pytest

from hashlearn import find_duplicates
from hashlearn.duplicates.apply import check_apply, link_files, move_files
from hashlearn.duplicates.pictures import encoded_folder
from hashlearn.duplicates.tables import write_groups, write_list
from hashlearn.durable.files import replacing
from hashlearn.features import encoder_named


@pytest.fixture
def found():
    return find_duplicates(
        [[0.0], [0.1], [5.0], [5.0], [9.0]], 0.5, metric="euclidean", ids=["a", "b,c", "d", "e", "f"], keep="first"
    )


def test_the_table_of_groups(found, tmp_path):
    pandas = pytest.importorskip("pandas")
    with replacing(tmp_path / "g.csv", tmp_path / "g.parquet") as (as_csv, as_parquet):
        write_groups(found, as_csv, False)
        write_groups(found, as_parquet, True)
    rows = list(csv.reader((tmp_path / "g.csv").open()))
    assert rows[0] == ["group", "id", "decision", "duplicate_of", "distance", "is_copy"]
    assert rows[1:] == [
        ["1", "a", "keep", "a", "0", "0"],
        ["1", "b,c", "drop", "a", "0.1", "0"],
        ["2", "d", "keep", "d", "0", "0"],
        ["2", "e", "drop", "d", "0", "1"],
    ]
    assert pandas.read_parquet(tmp_path / "g.parquet")["id"].tolist() == ["a", "b,c", "d", "e"]


def test_the_lists(found, tmp_path):
    with replacing(tmp_path / "keep", tmp_path / "drop") as (keep, drop):
        write_list(found.kept, keep)
        write_list(found.dropped, drop)
    assert (tmp_path / "keep").read_text().split() == ["a", "d", "f"]
    assert (tmp_path / "drop").read_text().splitlines() == ["b,c", "e"]


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.png", "b.png", "sub/c.png"):
        (folder / name).write_text(name)
    return folder


def test_files_are_moved_and_listed_and_a_second_run_goes_on(photos, tmp_path):
    target = tmp_path / "aside"
    assert move_files(["a.png"], photos, target) == 1
    assert move_files(["a.png", "sub/c.png"], photos, target) == 1
    assert (target / "a.png").read_text() == "a.png"
    assert (target / "sub/c.png").read_text() == "sub/c.png"
    assert not (photos / "a.png").exists()
    assert (photos / "b.png").exists()
    moved = list(csv.reader((target / "moved.csv").open()))
    assert [row[1] for row in moved] == [str(target / "a.png"), str(target / "sub/c.png")]


def test_a_name_that_is_taken_moves_nothing(photos, tmp_path):
    target = tmp_path / "aside"
    target.mkdir()
    (target / "b.png").write_text("other")
    with pytest.raises(ValueError, match=r"has a file b\.png already"):
        move_files(["a.png", "b.png"], photos, target)
    assert (photos / "a.png").exists()
    assert (target / "b.png").read_text() == "other"


def test_files_are_linked(photos, tmp_path):
    for wanted in (2, 0):
        assert link_files(["a.png", "sub/c.png"], photos, tmp_path / "links") == wanted
    assert (tmp_path / "links/sub/c.png").read_text() == "sub/c.png"
    assert (photos / "sub/c.png").exists()


def test_places_that_cannot_be_moved_to(photos, tmp_path):
    for target in (photos, photos / "sub", tmp_path):
        with pytest.raises(ValueError, match="a folder outside"):
            check_apply("move", photos, target)
    with pytest.raises(ValueError, match="must be one of 'move', 'link', got 'delete'"):
        check_apply("delete", photos, tmp_path / "x")


def test_pictures_are_encoded_once(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    folder, done = tmp_path / "photos", tmp_path / "done"
    folder.mkdir()
    done.mkdir()
    for number in range(3):
        pixels = np.random.RandomState(number).randint(0, 255, (40, 40, 3)).astype(np.uint8)
        image.fromarray(pixels).save(folder / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"no")
    encoder = encoder_named("gist", "image")
    first = encoded_folder(folder, encoder, done)
    assert first.names == ["0.png", "1.png", "2.png"]
    assert [name for name, _ in first.skipped] == ["broken.jpg"]
    monkeypatch.setattr(encoder, "encode", None)
    again = encoded_folder(folder, encoder, done)
    np.testing.assert_array_equal(again.vectors, first.vectors)
    assert again.skipped == first.skipped
    monkeypatch.undo()
    for path in done.iterdir():
        path.write_bytes(b"damaged")
    np.testing.assert_array_equal(encoded_folder(folder, encoder, done).vectors, first.vectors)
    assert encoded_folder(folder, encoder, None, first.names).names == []


def test_moving_to_another_disk_is_refused_before_anything_is_done(photos):
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == photos.stat().st_dev:
        pytest.skip("needs a second file system")
    with pytest.raises(ValueError, match="on the disk of"):
        check_apply("move", photos, memory / "aside")
    assert check_apply("link", photos, memory / "aside") == memory / "aside"
