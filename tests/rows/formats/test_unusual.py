"""Files as other programs write them: read as they are meant, or refused with what to do, and never read wrongly."""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hashlearn.rows.formats import FileProblem, describe_file, read_array, read_vectors

WANTED = [[0.5, 1.5], [2.5, 3.5]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,a,b\n101,0.5,1.5\n102,2.5,3.5\n"),
        ("a.csv", "Unnamed: 0,a,b\n0,0.5,1.5\n1,2.5,3.5\n"),
        ("a.csv", "INDEX;a;b\n7;0.5;1.5\n9;2.5;3.5\n"),
        ("a.csv", "\n\na,b\n0.5,1.5\n2.5,3.5\n"),
        ("a.csv", 'id,v\n1,"(0.5, 1.5)"\n2,"(2.5, 3.5)"\n'),
        ("a.csv", 'id,v\n1,"{0.5,1.5}"\n2,"{2.5,3.5}"\n'),
        ("a.csv", 'id,v\n1,"array([0.5, 1.5], dtype=float32)"\n2,"np.array([2.5, 3.5])"\n'),
        ("a.csv", 'id,v\n1,"tensor([0.5, 1.5])"\n2,"tensor([2.5, 3.5])"\n'),
        ("a.csv", 'id,v\n1,"[np.float32(0.5), np.float32(1.5)]"\n2,"[np.float64(2.5), np.float64(3.5)]"\n'),
        ("a.txt", "1999 0.5 1.5\nthe 2.5 3.5\n"),
        ("a.txt", "nan 0.5 1.5\nthe 2.5 3.5\n"),
    ],
)
def test_what_is_meant_is_read(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    np.testing.assert_array_equal(read_vectors(tmp_path / name), WANTED)


def test_many_numbers_between_spaces_are_a_vector(tmp_path):
    (tmp_path / "a.csv").write_text("emotion,pixels\n3,1 2 3 4 5 6 7 8\n4,2 3 4 5 6 7 8 9\n")
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.csv"), [np.arange(1, 9), np.arange(2, 10)])


def test_an_id_that_is_no_integer_or_not_first_is_a_feature(tmp_path):
    (tmp_path / "a.csv").write_text("id,index\n0.5,1.5\n2.5,3.5\n")
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.csv"), WANTED)
    (tmp_path / "b.csv").write_text("id\n5\n")
    np.testing.assert_array_equal(read_array(tmp_path / "b.csv", "id"), [5])


def test_the_words_of_a_file_with_a_signature(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffthe 1 2\nof 3 4\n", encoding="utf-8")
    assert read_array(tmp_path / "a.txt", "word").tolist() == ["the", "of"]


def test_tables_of_arrow_leave_ids_out_and_take_decimals(tmp_path):
    path = tmp_path / "a.parquet"
    halves = pa.array([decimal.Decimal("0.5"), decimal.Decimal("2.5")])
    pq.write_table(pa.table({"ID": [7, 8], "a": halves, "b": [1.5, 3.5], "when": ["x", "y"]}), path)
    np.testing.assert_array_equal(read_vectors(path), WANTED)
    assert describe_file(path)["columns"].endswith("; no numbers of a vector: ID, when")
    np.testing.assert_array_equal(read_array(path, "ID"), [7, 8])
    np.testing.assert_array_equal(read_array(path, "a"), [0.5, 2.5])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "a,b\n1.5,NA\n2.5,4\n", "'NA'"),
        ("a.csv", 'a,b\n1.5,"2,000"\n2.5,"4,111"\n', "column 'b' has '2,000'; write numbers as 1234.5"),
        ("a.csv", "a,b\n1.5,5%\n2.5,7%\n", "column 'b' has '5%'; write numbers as 1234.5"),
        ("a.csv", "a,b\n$5,1\n$7,2\n", r"column 'a' has '\$5'; write numbers as 1234.5"),
        ("a.csv", '"[0.1, 0.2]"\n"[0.3, 0.4]"\n', "the first line must name the columns where a column has vectors"),
        ("a.csv", 'id,v\n1,[]\n2,"[1.0]"\n', "row 0 has no numbers in 'v'"),
        ("a.csv", "a|b\n1|2\n", "one column of texts, such as '1|2'; the delimiter of a table is a comma, a semicolon"),
        ("a.txt", "1,2,3\n", "one column of texts, such as '1,2,3'"),
        ("a.txt", "5 2\nthe 1 2\nof 3 4\n", "its first line says 5 words, and it has 2"),
        ("a.csv.gz", "x", "unknown format '.gz'; decompress it first"),
        ("a.json", "x", "unknown format '.json'; write JSON lines, an object a line, as .jsonl"),
        ("a.pkl", "x", "unknown format '.pkl'; files are never unpickled; save it as .npy or .safetensors"),
        ("a.xlsx", "x", "unknown format '.xlsx'; save the sheet as .csv"),
        ("a.bin", "x", "unknown format '.bin'; its type and shape are unknown; save it as .npy"),
    ],
)
def test_what_is_refused_says_what_to_do(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileProblem, match=message.replace("|", r"\|")):
        read_vectors(tmp_path / name)
