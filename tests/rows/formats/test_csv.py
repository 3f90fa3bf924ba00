"""Tables of text are read as the numbers that were written."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.rows.formats import FileProblem, read_array, read_vectors

finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(finite, min_size=d, max_size=d), min_size=1, max_size=6)),
    st.sampled_from([",", ";", "\t"]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_written_numbers_come_back(tmp_path_factory, rows, delimiter, titled, end):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    lines = [delimiter.join(f"c{place}" for place in range(len(rows[0])))] * titled
    lines += [delimiter.join(map(repr, row)) for row in rows]
    path.write_bytes((end.join(lines) + end).encode())
    np.testing.assert_array_equal(read_vectors(path), np.array(rows))


def test_a_column_by_its_name(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('\ufeff"first one"\ty\n1\t2\n\n3\t4\n', encoding="utf-8")
    np.testing.assert_array_equal(read_array(path, "y"), [2, 4])
    np.testing.assert_array_equal(read_array(path, "first one"), [1, 3])
    with pytest.raises(FileProblem, match=r"a\.tsv: no column named 'z'; it has first one, y"):
        read_array(path, "z")


def test_long_fields(tmp_path):
    text, vector = "word " * 200_000, list(range(40_000))
    (tmp_path / "a.csv").write_text(f'text,embedding\n"{text}","{vector}"\n')
    csv.field_size_limit(131_072)  # of a new process
    assert read_array(tmp_path / "a.csv", "text").tolist() == [text]
    assert read_vectors(tmp_path / "a.csv").tolist() == [vector]


@pytest.mark.parametrize("names", [["01067", "80331"], ["1_23", "12_3"], ["7", "007"]])
def test_names_of_digits_are_no_numbers(tmp_path, names):
    (tmp_path / "a.csv").write_text("place,a\n" + "".join(f"{name},1\n" for name in names))
    assert read_array(tmp_path / "a.csv", "place").tolist() == names


def test_numbers_between_0_and_1_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("share,a\n0,1\n0.5,2\n00.5,2\n")
    assert read_array(tmp_path / "a.csv", "share").tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "no row of numbers"),
        ("\n\n", "no row of numbers"),
        ("1,2\n3\n", "number of columns"),
        ("1,2\n3,x\n", "'x'"),
        ("a,b\n1,2\nc,d\n", "'c'"),
        ("1;2,5\n", "'2,5'"),
        ("a,b,\n1,2,\n", "''"),
    ],
)
def test_what_is_no_table_of_numbers(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FileProblem, match=message):
        read_vectors(tmp_path / "a.csv")


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,2\n\xff\xfe,3\n")
    with pytest.raises(FileProblem, match=r"a\.csv: not a readable csv file"):
        read_vectors(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("größe;b\n1;2\n".encode("latin-1"), r"not a readable csv file \(its text must be UTF-8\)"),
        (b"a;b\n0,5;1,5\n", "no column of numbers; it has a, b; write decimal points instead of decimal commas"),
    ],
)
def test_tables_of_other_countries(tmp_path, content, line):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FileProblem, match=line):
        read_vectors(tmp_path / "a.csv")
