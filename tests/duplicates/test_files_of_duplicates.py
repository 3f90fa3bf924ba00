"""Tables of groups, and pictures that are encoded once."""

import csv

import numpy as np
import pytest

from hashlearn import find_duplicates
from hashlearn.duplicates.pictures import encoded_folder
from hashlearn.duplicates.tables import group_rows, write_clean, write_list, write_rows
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
        write_rows(group_rows(found), as_csv, False)
        write_rows(group_rows(found), as_parquet, True)
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


def test_names_and_texts_with_a_carriage_return_stay_one_value(tmp_path):
    names = ["a", "cr\ra", "lf\na", "b"]
    found = find_duplicates([[0.0], [0.1], [0.2], [5.0]], 0.5, metric="euclidean", ids=names, keep="first")
    with (tmp_path / "source.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([name, "x\ry"] for name in names)])
    with replacing(tmp_path / "g.csv", tmp_path / "clean.csv") as (table, clean):
        write_rows(group_rows(found), table, False)
        write_clean(tmp_path / "source.csv", clean, {"lf\na"}, "id", True)
    with (tmp_path / "g.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == names[:3]
    with (tmp_path / "clean.csv").open(newline="") as file:
        assert [(row["id"], row["text"]) for row in csv.DictReader(file)] == [
            (name, "x\ry") for name in names if name != "lf\na"
        ]


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
