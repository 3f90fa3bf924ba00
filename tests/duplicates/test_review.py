import io
import json
import re

import numpy as np
import pytest
from duplicates.near_pairs import group_sets, with_planted
from PIL import Image

from hashlearn import find_duplicates
from hashlearn.duplicates import write_review

X = with_planted(120, 4, 60, step=0.4)
X[110:] = X[:10]


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def gray_picture():
    file = io.BytesIO()
    Image.new("L", (40, 30), 128).save(file, "PNG")
    return file.getvalue()


def test_the_page_holds_everything_and_escapes_it(tmp_path):
    texts = [f"<b>text</b> {i} </script><script>alert(1)</script>" for i in range(len(X))]
    write_review(find_duplicates(X, 0.6, metric="euclidean"), tmp_path / "page.html", texts=texts, title="A <title>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "A &lt;title&gt;" in page
    assert "</script><script>alert" not in page
    assert "http://" not in page
    assert "https://" not in page
    shown = {row["text"] for rows in data_of(tmp_path / "page.html")["contents"] for row in rows}
    assert shown <= set(texts)
    assert len(shown) > 50


def test_pictures_are_inlined(tmp_path):
    write_review(find_duplicates([[1.0], [1.0]], 0.1), tmp_path / "page.html", picture=lambda row: b"\x89PNG%d" % row)
    rows = data_of(tmp_path / "page.html")["contents"][0]
    assert [row["picture"][:22] for row in rows] == 2 * ["data:image/png;base64,"]


def test_the_largest_groups_are_shown_where_there_are_too_many(tmp_path):
    found = find_duplicates(X, 0.6, metric="euclidean")
    write_review(found, tmp_path / "page.html", most_shown=12)
    data = data_of(tmp_path / "page.html")
    assert sum(map(len, data["contents"])) <= 12
    assert data["left_out"] > 0
    assert "are not on it" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_no_duplicates_make_a_page_too(tmp_path):
    write_review(find_duplicates(np.eye(4), 0.1), tmp_path / "page.html")
    assert data_of(tmp_path / "page.html")["contents"] == []


@pytest.mark.parametrize("grouping", ["leader", "components"])
@pytest.mark.parametrize("keep", ["center", "first", "last", "best"])
def test_the_page_groups_as_the_library_does(open_page, grouping, keep):
    found = find_duplicates(X, 0.9, metric="euclidean", grouping=grouping, keep=keep, scores=np.arange(120) % 7)
    page = open_page(found)
    for distance in (0.0, 0.3, 0.5, 0.9):
        shown = page.evaluate("(d) => grouped(d).map((members) => members.map((each) => each.row.id))", distance)
        wanted = found.at(distance)
        assert {frozenset(group) for group in shown} == group_sets(wanted)
        assert {group[0] for group in shown} == {group.kept for group in wanted.groups}


@pytest.fixture
def open_page(tmp_path, chromium):
    context = chromium.new_context()

    def opened(found, scheme="light", **shown):
        write_review(found, tmp_path / "page.html", **shown)
        page = context.new_page()
        page.emulate_media(color_scheme=scheme)
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield opened
    context.close()


def test_words_that_differ_are_marked_and_none_is_lost(open_page):
    long = " ".join(map(str, range(1000)))
    texts = [f"one two  three four {long}", f"one 2 three {long}"]
    page = open_page(
        find_duplicates([[1.0, 0.0], [1.0, 0.1]], 0.1, keep="first"), texts=texts, note=lambda row: f"no {row}"
    )
    card = page.locator(".card").nth(1)
    assert [each.inner_text() for each in card.locator("ins").all()] == ["2"]
    assert [each.inner_text() for each in card.locator("del").all()] == ["two", "four"]
    shown = card.locator(".text").inner_text().split()
    assert [word for word in shown if word not in ("two", "four")] == texts[1].split()
    assert card.locator(".note").inner_text() == "no 1"


def test_only_decisions_that_differ_are_counted_as_changed(open_page):
    page = open_page(find_duplicates(np.ones((3, 1)), 0.1))
    page.locator(".card").nth(0).focus()
    page.keyboard.press("k")
    assert "changed" not in page.inner_text("#counts")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")
    assert page.inner_text("#counts").endswith("2 to drop, 2 changed by you")
    page.keyboard.press("Space")
    assert page.inner_text("#counts").endswith("3 to drop, 1 changed by you")
    with page.expect_download() as download:
        page.click("#download")
    rows = download.value.path().read_text().splitlines()
    assert rows == ["group,id,decision,duplicate_of,distance", "1,0,drop,0,0", "1,1,drop,0,0", "1,2,drop,0,0"]
    assert page.locator("#marks").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("has_pictures", [False, True], ids=["texts", "pictures"])
def test_nothing_serious_keeps_anybody_from_using_it(open_page, serious_problems, has_pictures, scheme):
    found = find_duplicates([[1.0, 0.0], [1.0, 0.1], [1.0, 0.1]], 0.1)
    if has_pictures:
        page = open_page(found, scheme, picture=lambda row: gray_picture(), note=lambda row: "40 x 30")
        page.check("#marks")
    else:
        page = open_page(found, scheme, texts=["one two three", "one 2 three", "one 2 three"])
    assert page.locator(".card").count() == 3
    assert not serious_problems(page)
