"""hashlearn dedup: vectors, pictures, texts; files out; nothing deleted."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from cli.conftest import snapshot
from forked import ForkedPython

from hashlearn import Duplicates, find_duplicates
from hashlearn.durable.locks import exclusive


@pytest.fixture
def vectors(folder):
    X = np.random.RandomState(1).standard_normal((60, 8))
    X[50:] = X[:10] + 0.001
    np.save("rows.npy", X)
    return X


@pytest.fixture
def photos(folder):
    image = pytest.importorskip("PIL.Image")
    (folder / "photos").mkdir()
    for number in range(6):
        pixels = np.random.RandomState(number).randint(0, 255, (8, 8, 3)).astype(np.uint8)
        picture = image.fromarray(pixels).resize((64, 64))
        picture.save(folder / "photos" / f"{number}.png")
        if number < 2:
            picture.save(folder / "photos" / f"{number}-again.jpg", quality=85)
    return folder / "photos"


@pytest.fixture
def texts(folder):
    rng = np.random.RandomState(0)
    words = [f"word{i}" for i in range(300)]
    rows = [" ".join(rng.choice(words, 40)) for _ in range(40)]
    rows.append(rows[7] + " more")
    with open("texts.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["name", "text"], *([f"t{i:02}", text] for i, text in enumerate(rows))])
    return rows


def test_vectors_to_tables_and_a_page(run, vectors):
    files = ["--out", "g.csv", "--kept", "keep.txt", "--dropped", "drop.txt", "--review", "page.html"]
    outcome = run("dedup", "rows.npy", "--max-distance", "0.01", "--keep", "first", *files)
    assert outcome.code == 0, outcome
    assert "60 rows, cosine distance <= 0.01: 10 groups, 50 to keep, 10 to drop (0 exact copies)" in outcome.out
    assert Path("drop.txt").read_text().split() == [str(i) for i in range(50, 60)]
    assert len(Path("keep.txt").read_text().split()) == 50
    assert len(list(csv.reader(Path("g.csv").read_text().splitlines()))) == 21
    assert "<html" in Path("page.html").read_text()


def test_a_clean_table_keeps_its_first_row_and_its_header(run, vectors):
    """A first line that is a row is compared and may be dropped; one of names stays."""
    lines = [",".join(map(str, row)) for row in vectors[::-1]]
    for header in ([], ["a,b,c,d,e,f,g,h"]):
        Path("rows.csv").write_text("\n".join([*header, *lines]) + "\n")
        clean = ("--keep", "last", "--clean", "clean.csv")
        assert "10 to drop" in run("dedup", "rows.csv", "--max-distance", "0.01", *clean).out
        assert Path("clean.csv").read_text().splitlines() == [*header, *lines[10:]]


def test_the_page_shows_the_payloads_of_vectors(run, refused, vectors):
    Path("known.csv").write_text("name,year\n" + "".join(f"row {i},{1900 + i}\n" for i in range(60)))
    arguments = ["dedup", "rows.npy", "--max-distance", "0.01", "--review", "page.html", "--payloads"]
    assert run(*arguments, "known.csv:name,year").code == 0
    page = Path("page.html").read_text()
    assert "name: row 3, year: 1903" in page
    assert "name: row 53, year: 1953" in page
    Path("few.csv").write_text("name\na\n")
    assert "--payloads must have a row for each of 60 vectors, got 1" in refused(*arguments, "few.csv:name")


def test_a_state_goes_on_with_new_rows(run, vectors):
    np.save("first.npy", vectors[:50])
    np.save("more.npy", vectors[50:])
    assert run("dedup", "first.npy", "--max-distance", "0.01", "--state", "known").code == 0
    outcome = run("dedup", "more.npy", "--state", "known", "--dropped", "drop.txt")
    assert "10 more rows: 0 new, 10 duplicates of known ones" in outcome.out
    assert len(Duplicates.open("known")) == 60
    assert len(Path("drop.txt").read_text().split()) == 10


def test_a_state_that_another_process_extends_is_not_read(refused, run, vectors, folder):
    """Both would add to the rows that were known, and one of them would be lost."""
    assert run("dedup", "rows.npy", "--max-distance", "0.01", "--state", "known").code == 0
    with exclusive(folder / "known"):
        assert "known is being written by another process" in refused("dedup", "rows.npy", "--state", "known")


def test_what_cannot_all_be_written_is_not_written_at_all(refused, vectors, folder):
    places = ["--out", "g.csv", "--kept", "keep.txt", "--review", "page.html"]
    (folder / "file").touch()
    line = refused("dedup", "rows.npy", "--max-distance", "0.01", *places, "--state", "file/known")
    assert "file/known" in line


def test_pictures_are_moved_aside_and_nothing_is_deleted(run, photos, folder):
    outcome = run("dedup", "photos", "--review", "page.html", "--work", "work", "--apply", "move", "aside")
    assert outcome.code == 0, outcome
    assert "8 rows" in outcome.out
    assert "2 to drop" in outcome.out
    assert "aside: 2 images moved there from photos" in outcome.out
    assert len(list(photos.iterdir())) == 6
    assert len(list((folder / "aside").glob("[01]*"))) == 2
    assert "data:image/" in Path("page.html").read_text()
    assert list((folder / "work").iterdir())


def test_a_plan_is_shown_a_move_is_undone_and_links_stay_whole(run, photos, folder):
    (photos / "a-link.png").symlink_to("1-again.jpg")
    os.link(photos / "0-again.jpg", photos / "0 second name.jpg")
    (photos / "unreadable.png").write_bytes(b"no picture")
    before = snapshot(folder)
    arguments = ["dedup", "photos", "--apply", "move", "aside"]
    outcome = run(*arguments, "--dry-run")
    assert outcome.code == 0, outcome
    assert snapshot(folder) == before
    assert "0.png  0 second name.jpg" in outcome.out
    assert "2 files would be" in outcome.out
    assert "skipped unreadable.png: " in outcome.err
    assert "skipped a-link.png: a link to 1-again.jpg" in outcome.err
    assert "why this distance: it was chosen so that hardly a pair is near by chance" in outcome.out
    assert "skipped 0-again.jpg: another name of the file 0 second name.jpg (a hard link)" in outcome.err
    assert "not moved: 1-again.jpg: the link a-link.png leads to it" in outcome.err
    assert run(*arguments).code == 0
    assert sorted(path.name for path in (folder / "aside").iterdir()) == [
        "0 second name.jpg",
        "0-again.jpg",
        "moved.csv",
    ]
    assert (photos / "a-link.png").read_bytes() == (photos / "1-again.jpg").read_bytes()
    outcome = run("dedup", "--undo", "aside/moved.csv")
    assert outcome.out == "aside/moved.csv: 2 files are back in their places\n"
    assert snapshot(folder) == before


def test_a_known_file_that_changed_is_not_moved(run, photos, folder):
    assert run("dedup", "photos", "--state", "known").code == 0
    (photos / "0-again.jpg").write_bytes((photos / "5.png").read_bytes())
    outcome = run("dedup", "photos", "--state", "known", "--apply", "move", "aside")
    assert "not moved: 0-again.jpg: it changed since it was compared" in outcome.err
    assert [path.name for path in (folder / "aside").iterdir() if path.suffix == ".jpg"] == ["1-again.jpg"]


def test_a_name_with_a_line_break_needs_the_list_with_nul(run, refused, photos):
    (photos / "0-again.jpg").rename(photos / "two\nlines.jpg")
    line = refused("dedup", "photos", "--dropped", "drop.txt")
    assert "--dropped has one name a line, got the name 'two\\nlines.jpg', which has two; use --dropped0" in line
    assert run("dedup", "photos", "--dropped0", "drop0").code == 0
    assert sorted(Path("drop0").read_text().split("\0")) == ["", "1-again.jpg", "two\nlines.jpg"]


def test_a_chosen_name_with_a_line_break_is_refused(refused, photos):
    (photos / "0-again.jpg").unlink()
    (photos / "0.png").rename(photos / "two\nlines.png")
    for option in ("--variety", "--outliers"):
        assert f"{option} has one name a line, got the name 'two\\nlines.png'" in refused(
            "dedup", "photos", option, "100", "some.txt"
        )


def test_the_picture_with_the_most_pixels_is_kept(run, photos):
    image = pytest.importorskip("PIL.Image")
    image.open(photos / "5.png").resize((128, 128)).save(photos / "a-large.png")
    image.open(photos / "4.png").save(photos / "4-copy.png")
    assert run("dedup", "photos", "--dropped", "drop.txt").code == 0
    assert Path("drop.txt").read_text().split() == ["0-again.jpg", "1-again.jpg", "4-copy.png", "5.png"]


def test_kept_pictures_are_linked(run, photos, folder):
    assert run("dedup", "photos", "--apply", "link", "clean").code == 0
    assert len(list((folder / "clean").iterdir())) == 6
    assert len(list(photos.iterdir())) == 8


def test_texts_of_a_column(run, texts):
    arguments = ["dedup", "texts.csv", "--text", "text", "--id", "name", "--keep", "first", "--dropped", "drop.txt"]
    outcome = run(*arguments, "--review", "page.html")
    assert outcome.code == 0, outcome
    assert Path("drop.txt").read_text().split() == ["t40"]
    assert texts[40] in Path("page.html").read_text()


def test_texts_of_a_parquet_file_and_rows_without_a_text(run, folder):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = ["red fox", None, "Red  fox", " ", "Development files for foo", "Development files for bar"]
    parquet.write_table(arrow.table({"body": texts, "key": list("abcdef")}), "texts.parquet")
    outcome = run("dedup", "texts.parquet", "--text", "body", "--keep", "first", "--dropped", "drop.txt")
    assert outcome.code == 0, outcome
    assert Path("drop.txt").read_text() == "2\n"
    assert "skipped 1: no word in it\nskipped 3: no word in it\n" in outcome.err
    assert run("dedup", "texts.parquet", "--text", "body", "--id", "key", "--dropped", "drop.txt").code == 0
    assert Path("drop.txt").read_text() in ("a\n", "c\n")


def test_a_state_of_texts_goes_on(run, texts):
    assert run("dedup", "texts.csv", "--text", "text", "--id", "name", "--state", "known").code == 0
    Path("more.csv").write_text(f"name,text\nnew,{texts[3]} more\nother,something else\n")
    outcome = run("dedup", "more.csv", "--text", "text", "--id", "name", "--state", "known", "--dropped", "drop.txt")
    assert "2 more rows: 1 new, 1 duplicates of known ones" in outcome.out
    assert set(Path("drop.txt").read_text().split()) & {"new", "t03"}


def test_decisions_are_followed_and_remembered_in_the_state(run, photos, folder):
    Path("decisions.csv").write_text(
        "id,decision,duplicate_of\n0-again.jpg,different,0.png\n1.png,drop,1.png\n1-again.jpg,keep,1.png\n"
    )
    outcome = run("dedup", "photos", "--state", "known", "--decisions", "decisions.csv", "--dropped", "drop.txt")
    assert outcome.code == 0, outcome
    assert Path("drop.txt").read_text() == "1.png\n"
    Path("known.decisions.csv").write_text("id,decision,duplicate_of\n1.png,keep,1.png\n")
    assert run("dedup", "photos", "--state", "known", "--dropped", "drop.txt").code == 0
    assert Path("drop.txt").read_text() == ""
    assert not Path("known.decisions.csv").exists()
    assert run("dedup", "photos", "--state", "known", "--dropped", "drop.txt").code == 0
    assert Path("drop.txt").read_text() == ""


def test_the_page_is_served_and_the_table_of_decisions_is_beside_the_state(photos, folder):
    command = [sys.executable, "-m", "hashlearn", "dedup", "photos", "--state", "known", "--serve"]
    with ForkedPython(command, stdout=subprocess.PIPE, text=True) as process:
        address = next(line for line in process.stdout if line.startswith("Open ")).split()[1]
        with urlopen(address) as answer:
            page = answer.read().decode()
        assert "Near-duplicates in photos" in page
        with urlopen(f"{address}picture/0") as answer:
            assert answer.headers["Content-Type"].startswith("image/")
        with urlopen(f"{address}file/0") as answer:
            assert answer.read() == (photos / "0-again.jpg").read_bytes()
        body = b'[["0-again.jpg", "different", "0.png"]]'
        with urlopen(Request(f"{address}decisions", body, {"Content-Type": "application/json"})) as answer:
            assert answer.read() == b"saved"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "known.decisions.csv: 1 decisions" in rest
    assert "0-again.jpg,different,0.png" in Path("known.decisions.csv").read_text()


def test_the_rows_or_judged_pairs_choose_the_distance(run, vectors):
    outcome = run("dedup", "rows.npy", "--dropped", "drop.txt")
    assert outcome.code == 0, outcome
    assert "why this distance: 10 pairs are within" in outcome.out
    assert len(Path("drop.txt").read_text().split()) == 10
    Path("yes.csv").write_text("".join(f"{i},{50 + i}\n" for i in range(10)))
    Path("no.csv").write_text("".join(f"{i},{i + 1}\n" for i in range(10)))
    outcome = run("dedup", "rows.npy", "--pairs", "yes.csv", "no.csv", "--dropped", "drop.txt")
    assert "10 pairs that you judged to be duplicates and 10 that are none; expected precision 1.000" in outcome.out
    assert len(Path("drop.txt").read_text().split()) == 10


def test_training_rows_that_are_in_the_test_set(run, vectors):
    np.save("train.npy", vectors[:55])
    np.save("test.npy", vectors[50:])
    files = ["--out", "g.csv", "--dropped", "drop.txt", "--clean", "clean.npy"]
    outcome = run("dedup", "train.npy", "--against", "test.npy", "--max-distance", "0.01", *files)
    assert outcome.code == 0, outcome
    assert "55 rows against test.npy: 15 are within distance 0.01 of one there (5 exact copies)" in outcome.out
    assert Path("drop.txt").read_text().split() == [str(i) for i in [*range(10), *range(50, 55)]]
    np.testing.assert_array_equal(np.load("clean.npy"), vectors[10:50])
    rows = list(csv.DictReader(Path("g.csv").read_text().splitlines()))
    assert [row["duplicate_of"] for row in rows] == [str(i) for i in [*range(10), *range(5)]]


def test_training_texts_that_are_in_the_test_set_of_parquet_files(run, folder, texts):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    train = arrow.table({"text": [*texts[:10], texts[20].upper(), None], "n": range(12), "key": list("abcdefghijkl")})
    parquet.write_table(train, "train.parquet")
    parquet.write_table(arrow.table({"text": texts[7:40], "key": [f"t{i}" for i in range(33)]}), "test.parquet")
    arguments = ["dedup", "train.parquet", "--against", "test.parquet", "--text", "text", "--id", "key"]
    outcome = run(*arguments, "--clean", "clean.parquet", "--out", "g.parquet")
    assert outcome.code == 0, outcome
    clean = parquet.read_table("clean.parquet")
    assert clean.schema == train.schema
    assert clean.column("key").to_pylist() == list("abcdefgl")
    assert parquet.read_table("g.parquet").column("duplicate_of").to_pylist() == ["t0", "t1", "t2", "t13"]


def test_the_table_without_dropped_rows(run, texts):
    arguments = ["dedup", "texts.csv", "--text", "text", "--id", "name", "--keep", "first", "--clean", "clean.csv"]
    assert run(*arguments).code == 0
    lines = Path("texts.csv").read_text().splitlines()
    assert Path("clean.csv").read_text().splitlines() == lines[:-1]


def test_some_rows_of_many(run, vectors):
    options = [("--variety", "v"), ("--representatives", "r"), ("--outliers", "o")]
    arguments = [word for option, file in options for word in (option, 5, file)]
    outcome = run("dedup", "rows.npy", "--max-distance", "0.01", *arguments)
    assert outcome.code == 0, outcome
    assert "o: rows that are like no other" in outcome.out
    kept = np.setdiff1d(np.arange(60), find_duplicates(vectors, 0.01).dropped)
    for _, file in options:
        rows = [int(line.split()[0]) for line in Path(file).read_text().splitlines()]
        assert len(set(rows)) == len(rows) == 5
        assert set(rows) <= set(kept.tolist())


BAD = [
    (["rows.npy", "--against", "rows.npy"], "--against needs --max-distance for vectors"),
    (["rows.npy", "--against", "rows.npy", "--state", "known"], "--against compares two sets"),
    (["rows.npy", "--clean", "clean.csv"], "--clean needs one .csv, .parquet or .npy file"),
    (["rows.npy", "--variety", "0", "some"], "--variety must be at least 1, got 0"),
    (["photos", "--payloads", "texts.csv:name"], "--payloads is for vectors"),
    (["photos", "--serve"], "--serve needs --state"),
    (["photos", "--decisions", "texts.csv"], "texts.csv must be a table of decisions"),
    ([], "give a folder of images, a file of texts, or files of vectors"),
    (["photos", "--dry-run"], "--dry-run shows what --apply would do"),
    (["photos", "--undo", "aside/moved.csv"], "--undo needs nothing but the record"),
    (["--undo", "aside/moved.csv"], "aside/moved.csv"),
    (["--undo", "texts.csv"], "texts.csv is no record of moved files"),
    (["rows.npy", "--max-distance", "near"], "--max-distance must be a number or auto, got 'near'"),
    (["rows.npy", "--max-distance", "1", "--pairs", "yes.csv", "no.csv"], "give either --max-distance or --pairs"),
    (["rows.npy", "--pairs", "texts.csv", "texts.csv"], "texts.csv: line 1 must be two ids"),
    (["texts.csv", "--text", "text", "--max-distance", "auto"], "the share that may differ"),
    (["rows.npy", "--max-distance", "-1"], "max_distance must be at least 0"),
    (["rows.npy", "--max-distance", "0.1", "--out", "rows.npy"], "--out must be a file of its own"),
    (["rows.npy", "--max-distance", "0.1", "--out", "g.xlsx"], "--out must be a .csv or .parquet file, got g.xlsx"),
    (["rows.npy", "--max-distance", "0.1", "--review", "page.txt"], "--review must be a .html file, got page.txt"),
    (["rows.npy", "--max-distance", "0.1", "--apply", "move", "aside"], "--apply is for a folder of images"),
    (["photos", "--apply", "delete", "aside"], "--apply must be one of 'move', 'link'"),
    (["photos", "--apply", "move", "photos/aside"], "--apply needs a folder outside"),
    (["rows.npy", "--max-distance", "0.1", "--keep", "best"], "--keep best needs --scores"),
    (["rows.npy", "--max-distance", "2", "--max-pairs", "9"], "more than max_pairs=9"),
    (["texts.csv", "--text", "title"], "no column named 'title'"),
    (["nan.npy", "--max-distance", "0.1"], "row 3 has NaN"),
    (["zero.npy", "--max-distance", "0.1"], "1 row of zeros, the first is row 2"),
    (["none.npy", "--max-distance", "0.1"], "none.npy"),
    (["cut.parquet", "--text", "text"], "cut.parquet: not a readable parquet file"),
    (["rows.npy", "--against", "narrow.npy", "--max-distance", "0.1"], "columns, as against has, got"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line_and_changes_nothing(refused, vectors, photos, texts, arguments, message):
    bad = vectors.copy()
    bad[3, 0] = np.nan
    np.save("nan.npy", bad)
    bad = vectors.copy()
    bad[2] = 0
    np.save("zero.npy", bad)
    np.save("narrow.npy", vectors[:, :3])
    Path("cut.parquet").write_bytes(b"PAR1 and no more")
    assert message in refused("dedup", *arguments)
