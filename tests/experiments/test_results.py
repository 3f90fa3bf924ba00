"""Whatever is left of a file after a kill, whole lines are kept, and nothing else is read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashlearn.experiments.results import ResultFolder, read_lines


def a_line(i):
    return {"key": str(i), "config": {"dataset": "d", "text": "é\n" * i}, "data": {"digest": "x"}}


@given(st.integers(0, 5), st.data())
def test_a_cut_file_reads_as_its_whole_lines_and_is_appended_to_after_them(tmp_path_factory, n, data):
    results = ResultFolder(tmp_path_factory.mktemp("results"))
    for i in range(n):
        results.append("d", a_line(i))
    path = results.folder / "d.jsonl"
    whole = path.read_bytes() if n else b""
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    path.write_bytes(cut)

    survivors = [a_line(i) for i in range(cut.count(b"\n"))]
    assert list(results.lines(["d"])) == survivors
    results.append("d", a_line(99))
    assert list(results.lines(["d"])) == [*survivors, a_line(99)]
    assert path.read_bytes().endswith(b"\n")


def test_a_torn_line_longer_than_what_is_read_at_once_is_cut_off(tmp_path):
    results = ResultFolder(tmp_path)
    results.append("d", a_line(1))
    with (tmp_path / "d.jsonl").open("ab") as file:
        file.write(b"x" * 200_000)
    results.append("d", a_line(2))
    assert list(results.lines(["d"])) == [a_line(1), a_line(2)]


def test_every_dataset_has_its_file(tmp_path):
    results = ResultFolder(tmp_path / "new")
    results.append("b", a_line(1))
    results.append("a", a_line(2))
    assert sorted(path.name for path in results.folder.iterdir()) == ["a.jsonl", "b.jsonl"]
    assert [line["key"] for line in results.lines(["a", "b", "c"])] == ["2", "1"]


def test_what_else_lies_in_the_folder_does_not_matter(tmp_path):
    results = ResultFolder(tmp_path)
    results.append("a", a_line(1))
    (tmp_path / "search.jsonl").write_text('{"kind": "run"}\n')
    assert [line["key"] for line in results.lines(["a"])] == ["1"]


@pytest.mark.parametrize("damage", ["{not json}\n", json.dumps({"some": "thing"}) + "\n", "[1]\n"])
def test_a_damaged_line_in_the_middle_is_named(damage, tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(a_line(0)) + "\n" + damage + json.dumps(a_line(1)) + "\n")
    with pytest.raises(ValueError, match=r"d\.jsonl line 2 is n"):
        list(read_lines(path))
