"""A journal gives back what was appended, whatever a killed process has left at its end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.search.journal import MAGIC, append_record, read_records, start_of

records_lists = st.lists(st.binary(max_size=50), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("journal") / "journal.hlj"


def written(path, records):
    path.write_bytes(MAGIC)
    ends = [start_of("name")]
    for record in records:
        ends.append(append_record(path, ends[-1], record))
    return ends


@given(records_lists, st.data())
@settings(deadline=None)
def test_a_cut_at_any_byte_leaves_the_whole_records_before_it(path, records, data):
    ends = written(path, records)
    size = path.stat().st_size
    assert size == ends[-1].offset
    cut = data.draw(st.integers(len(MAGIC), size))
    with path.open("r+b") as file:
        file.truncate(cut)
    n_whole = sum(end.offset <= cut for end in ends[1:])
    found, end = read_records(path, ends[0])
    assert found == records[:n_whole]
    assert end == ends[n_whole]
    append_record(path, end, b"next")
    assert read_records(path, ends[0])[0] == [*records[:n_whole], b"next"]
    since = data.draw(st.integers(0, n_whole))
    assert read_records(path, ends[since])[0] == [*records[since:n_whole], b"next"]


def test_zeros_behind_the_last_record_are_written_over(path):
    """What a power failure may leave of a record that was never reported as saved."""
    ends = written(path, [b"one", b"two"])
    with path.open("ab") as file:
        file.write(bytes(100))
    assert read_records(path, ends[0]) == ([b"one", b"two"], ends[2])
    append_record(path, ends[2], b"three")
    assert read_records(path, ends[0])[0] == [b"one", b"two", b"three"]


def test_a_record_that_was_damaged_in_the_middle_is_refused(path):
    ends = written(path, [b"one", b"two", b"three"])
    content = bytearray(path.read_bytes())
    content[ends[1].offset + 13] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="edited or damaged"):
        read_records(path, ends[0])


def test_a_journal_of_another_name_has_no_records(path):
    written(path, [b"one"])
    assert read_records(path, start_of("other"))[0] == []
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="no journal of hashlearn"):
        read_records(path, start_of("name"))
