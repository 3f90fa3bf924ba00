from hypothesis import given
from hypothesis import strategies as st

from hashlearn.names import natural_key

names = st.text("01289aB-. /é²", max_size=12)


def test_numbers_by_value_and_a_name_before_its_copies():
    wanted = [
        "103.png",
        "a/2.png",
        "a/10.png",
        "im.png",
        "im2.png",
        "im2 (1).png",
        "im2-copy.png",
        "im02b.png",
        "im10.png",
    ]
    assert sorted(set(wanted), key=natural_key) == wanted


@given(first=names, second=names)
def test_different_names_have_different_keys(first, second):
    assert (natural_key(first) == natural_key(second)) == (first == second)
    assert natural_key(first) < natural_key(second) or natural_key(second) <= natural_key(first)


def test_numbers_of_any_length():
    assert natural_key("9" * 5000) < natural_key("1" + "0" * 5000)
