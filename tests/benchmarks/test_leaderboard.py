"""The leaderboard, on digits and without peers."""

import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "leaderboard"
SMALL = ["digits", "--rows", "300", "--queries", "20", "--seeds", "1"]


@pytest.fixture(scope="module")
def board():
    """The modules of the leaderboard, which is a folder that is run, not a package."""
    sys.path.insert(0, str(FOLDER))
    names = ("board_data", "board_runs", "board_method", "board_page")
    yield {name: importlib.import_module(name) for name in names} | {"main": _main()}
    sys.path.remove(str(FOLDER))


def _main():
    spec = importlib.util.spec_from_file_location("leaderboard_main", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.fixture(scope="module")
def made(board, tmp_path_factory):
    """Runs of two methods and of the one in the documentation."""
    out = tmp_path_factory.mktemp("board")
    text = (ROOT / "docs/howto/leaderboard.md").read_text(encoding="utf-8")
    own = out / "halves.py"
    own.write_text(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")
    board["main"]([*SMALL, "--methods", "float32,sign bits,float16", "--method", f"{own}:Halves", "--out", str(out)])
    return out


def test_measures_of_stored_results_are_those_of_brute_force(board, made):
    data = board["board_data"].board_data("digits", 300, 20, False)
    lines = {line["config"]["method"]: line for line in board["board_runs"].results_of(made)}
    signs, asked = data.rows > 0, data.queries > 0
    true = np.linalg.norm(data.queries[:, None].astype(float) - data.rows, axis=2)
    hamming = (asked[:, None] != signs).sum(axis=2)
    order = np.argsort(hamming, axis=1, kind="stable")
    tenth = np.sort(true, axis=1)[:, 9:10]
    near = np.take_along_axis(true, order, axis=1) <= tenth + 1e-9
    raw = board["board_runs"].stored(made / "raw" / f"{lines['sign bits']['key']}.npz")
    measures = board["board_runs"].measures_of(raw)
    assert measures == lines["sign bits"]["measures"]
    for n in (10, 100):
        expected = np.minimum(near[:, :n].sum(axis=1), 10).mean() / 10
        assert measures[f"recall_at_{n}"] == pytest.approx(expected, abs=1e-4)
    # The floats have hardly any equal distances, so that a plain sum gives their average precision.
    right = data.labels[np.argsort(true, axis=1, kind="stable")] == data.query_labels[:, None]
    precision = np.cumsum(right, axis=1) / np.arange(1, 301)
    expected = ((precision * right).sum(axis=1) / right.sum(axis=1)).mean()
    assert lines["float32"]["measures"]["mAP"] == pytest.approx(expected, abs=2e-3)
    assert lines["float32"]["measures"]["recall_at_10"] == 1


def test_a_run_that_is_there_is_not_made_again(board, made):
    before = (made / "results.jsonl").read_bytes()
    board["main"]([*SMALL, "--methods", "float32", "--out", str(made)])
    assert (made / "results.jsonl").read_bytes() == before


def test_measures_can_be_computed_again_from_what_is_stored(board, made):
    before = board["board_runs"].results_of(made)
    board["main"](["--measure-again", "--out", str(made)])
    assert board["board_runs"].results_of(made) == before


def test_a_damaged_file_gets_one_line(board, made, tmp_path):
    whole = (made / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("{broken\n" + whole[0], encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^leaderboard: .*results\.jsonl line 1 is not JSON[^\n]*$"):
        board["main"](["--out", str(tmp_path)])


def test_damaged_raw_results_get_one_line(board, made, tmp_path):
    line = json.loads((made / "results.jsonl").read_text(encoding="utf-8").splitlines()[0])
    raw = tmp_path / "raw" / f"{line['key']}.npz"
    raw.parent.mkdir(parents=True)
    raw.write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^leaderboard: .*\.npz is no raw result[^\n]*$"):
        board["main"](["--measure-again", "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("distance", "metric"), [("angular", "cosine"), ("normalized", "cosine"), ("euclidean", "euclidean")]
)
def test_a_file_of_ann_benchmarks_says_its_distance(board, tmp_path, distance, metric):
    rows = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    path = hdf5(tmp_path / "small.hdf5", distance, rows)
    data = board["board_data"].board_data(str(path), 100, 10, False)
    assert data.metric == metric
    assert np.allclose(np.linalg.norm(data.rows, axis=1), 1) == (metric == "cosine")


def test_a_file_with_another_distance_is_refused(board, tmp_path):
    path = hdf5(tmp_path / "small.hdf5", "ip", np.ones((40, 6), np.float32))
    with pytest.raises(SystemExit, match=r"^leaderboard: .*small\.hdf5 compares by ip; [^\n]*$"):
        board["main"]([str(path), "--out", str(tmp_path)])


def hdf5(path, distance, rows):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = distance
        file["train"], file["test"] = rows[5:], rows[:5]
    return path


def test_the_page_has_every_run_and_the_method_of_the_documentation(board, made):
    page = (made / "leaderboard.html").read_text(encoding="utf-8")
    lines = board["board_runs"].results_of(made)
    shown = re.findall(r'<tr data-family="(.*?)" data-name=".*?"><th>(.*?)</th>', page)
    assert sorted(shown) == sorted((line["config"]["family"], line["config"]["method"]) for line in lines)
    assert ("mine", "float16") in shown
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_a_family_that_is_not_checked_leaves_the_page(board, made, chromium):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto((made / "leaderboard.html").as_uri())
        assert page.locator("circle").count() == page.locator("tbody tr:visible").count() == 3
        page.locator(".family[value=plain]").focus()
        page.keyboard.press("Space")
        assert page.locator("circle").count() == page.locator("tbody tr:visible").count() == 1
        assert "float16" in page.locator(".front").inner_text()
