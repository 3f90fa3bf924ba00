"""JSON that is none is one line that says so."""

import pytest

from hashlearn.durable.files import json_digest, parsed_json, read_json


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 10_000])
def test_what_is_no_json_is_a_line_that_names_the_file(tmp_path, content):
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"file\.json is truncated, damaged or no JSON") as caught:
        read_json(tmp_path / "file.json")
    assert "\n" not in str(caught.value)


def test_json_that_is_nested_too_deeply_is_a_value_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed_json("[" * 100_000)


def test_the_digest_does_not_depend_on_the_layout():
    one, other = parsed_json('{"a": 1, "b": [2, 3]}'), parsed_json('{"b":[2,3],\n"a":1}')
    assert json_digest(one) == json_digest(other)
    assert len({json_digest(one), json_digest(one, one), json_digest([one, one]), json_digest({"a": 1})}) == 4
