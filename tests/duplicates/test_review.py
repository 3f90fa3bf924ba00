import io
import json
import re
from threading import Thread
from time import sleep
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from duplicates.near_pairs import with_planted
from PIL import Image

from hashlearn import find_duplicates
from hashlearn.duplicates import write_review
from hashlearn.duplicates.decisions import read_decisions
from hashlearn.duplicates.review import RowDisplay
from hashlearn.duplicates.review_server import ReviewServer

X = with_planted(120, 4, 60, step=0.4)
X[110:] = X[:10]


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def pages_of(path):
    """The groups of all pages, from the page itself and the files beside it."""
    pages = [data_of(path)["first"]]
    for file in sorted(path.with_name(f"{path.stem}_files").glob("*.js")):
        assert file.stat().st_size < 5_000_000
        number, groups = re.fullmatch(
            r"reviewPage\((\d+), (.*)\);\n", file.read_text(encoding="utf-8"), re.DOTALL
        ).groups()
        assert int(number) == len(pages)
        pages.append(json.loads(groups))
    assert len(pages) == data_of(path)["n_pages"]
    return [group for page in pages for group in page]


def gray_picture():
    file = io.BytesIO()
    Image.new("L", (40, 30), 128).save(file, "PNG")
    return file.getvalue()


def test_the_page_escapes_what_it_shows(tmp_path):
    texts = [f"<b>text</b> {i} </script><script>alert(1)</script> <!--<script>" for i in range(len(X))]
    write_review(find_duplicates(X, 0.6, metric="euclidean"), tmp_path / "page.html", texts=texts, title="A <title>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "A &lt;title&gt;" in page
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<!--" not in page
    assert "http://" not in page
    assert "https://" not in page
    shown = {row["text"] for group in pages_of(tmp_path / "page.html") for row in group["rows"]}
    assert shown <= set(texts)
    assert len(shown) > 50


def test_pictures_are_inlined(tmp_path):
    write_review(find_duplicates([[1.0], [1.0]], 0.1), tmp_path / "page.html", picture=lambda row: b"\x89PNG%d" % row)
    rows = pages_of(tmp_path / "page.html")[0]["rows"]
    assert [row["picture"][:22] for row in rows] == 2 * ["data:image/png;base64,"]


@pytest.fixture(scope="module")
def many():
    """3,000 rows in groups: one of 1,201 rows, one of 300, and pairs."""
    rows = np.concatenate([np.zeros(1201), np.full(300, 7.0), 100.0 + np.repeat(np.arange(700), 2), [-5.0]])
    return find_duplicates(rows[:, None], 0.1, metric="euclidean")


def test_every_group_is_on_a_page_the_largest_first(many, tmp_path):
    texts = ["some text " * (1 + row % 50) for row in range(len(many))]
    write_review(many, tmp_path / "page.html", texts=texts)
    found = {}
    sizes = []
    for group in pages_of(tmp_path / "page.html"):
        found.setdefault(group["rows"][0]["id"], []).extend(row["id"] for row in group["rows"][1:])
        sizes.append(group["size"])
    assert found == {group.kept: group.members.tolist() for group in many.groups}
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 1201


def test_no_file_is_too_large_whatever_is_shown(tmp_path):
    found = find_duplicates(np.zeros((50, 1)), 0.1, metric="euclidean")
    texts = 25 * ["\x01" * 100_000, "語" * 30_000]
    write_review(found, tmp_path / "page.html", texts=texts, picture=lambda row: bytes(300_000))
    groups = pages_of(tmp_path / "page.html")
    assert sum(len(group["rows"]) - 1 for group in groups) == 49
    assert len(groups) > 3
    assert (tmp_path / "page.html").stat().st_size < 5_000_000
    with pytest.raises(ValueError, match="below 2 MB a row"):
        write_review(found, tmp_path / "page.html", picture=lambda row: bytes(4_000_000))


def test_a_new_review_removes_the_pages_of_the_one_before(many, tmp_path):
    for _ in range(2):
        write_review(many, tmp_path / "page.html")
        n_files = len(list((tmp_path / "page_files").iterdir()))
        assert n_files == data_of(tmp_path / "page.html")["n_pages"] - 1
    write_review(find_duplicates(np.eye(4), 0.1), tmp_path / "page.html")
    assert pages_of(tmp_path / "page.html") == []
    assert not (tmp_path / "page_files").exists()


@pytest.fixture
def open_page(tmp_path, chromium):
    context = chromium.new_context()

    def opened(found, scheme="light", **shown):
        write_review(found, tmp_path / "page.html", **shown)
        page = context.new_page()
        page.emulate_media(color_scheme=scheme)
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector(".card")
        return page

    yield opened
    context.close()


def test_all_pages_can_be_reached_and_searched(open_page, many):
    texts = ["a text" for _ in range(len(many))]
    texts[2900 - 1] = "the needle"
    page = open_page(many, texts=texts)
    n_pages = int(page.inner_text("#n-pages"))
    seen = set()
    for number in range(n_pages):
        page.wait_for_selector(f'#groups[data-page="{number}"]')
        seen |= set(page.evaluate("shown.map((group) => group.number)"))
        if number + 1 < n_pages:
            page.click("#next")
    assert seen == set(range(1, len(many.groups) + 1))
    page.fill("#search", "needle")
    page.wait_for_function("search && search.next === data.n_pages")
    assert page.locator(".group").count() == 1
    assert "the needle" in page.locator(".card").first.inner_text()
    page.fill("#search", "")
    page.select_option("#filter", "near")
    page.wait_for_selector("text=No group fits the search.")


def test_decisions_are_kept_undone_and_downloaded(open_page, tmp_path):
    found = find_duplicates([[0.0], [0.0], [0.1], [0.2]], 0.5, metric="euclidean", keep="first")
    page = open_page(found)
    for key in ("j", "j", "Space", "j", "x"):
        page.keyboard.press(key)
    decisions = page.locator(".card").evaluate_all("(cards) => cards.map((card) => card.dataset.decision)")
    assert decisions == ["keep", "keep", "different", "drop"]
    page.reload()
    page.wait_for_selector(".card")
    again = page.locator(".card").evaluate_all("(cards) => cards.map((card) => card.dataset.decision)")
    assert again == decisions
    assert "2 decided by you" in page.inner_text("#counts")
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "decisions.csv")
    found.decide(read_decisions(tmp_path / "decisions.csv", found.ids))
    ids = page.locator(".card").evaluate_all("(cards) => cards.map((card) => Number(card.dataset.id))")
    assert set(found.dropped.tolist()) == {i for i, decision in zip(ids, decisions) if decision == "drop"}


def test_keys_decide_and_undo(open_page):
    page = open_page(find_duplicates(np.concatenate([np.zeros(3), np.ones(2)])[:, None], 0.1, metric="euclidean"))

    def decisions():
        return page.locator(".card").evaluate_all("(cards) => cards.map((card) => card.dataset.decision).join(' ')")

    before = decisions()
    assert before == "keep drop drop keep drop"
    page.keyboard.press("n")
    page.keyboard.press("j")
    page.keyboard.press("o")
    assert decisions() == "drop keep drop keep drop"
    page.keyboard.press("u")
    assert decisions() == before
    page.keyboard.press("a")
    assert decisions() == "keep different different keep drop"
    page.keyboard.press("u")
    page.keyboard.press("Enter")
    assert page.locator(".group.decided").count() == 1
    assert page.evaluate("document.activeElement.closest('.group').querySelector('h2').textContent").startswith(
        "Group 2"
    )
    page.keyboard.press("z")
    assert page.locator("#large").is_visible()
    page.keyboard.press("z")
    assert not page.locator("#large").is_visible()
    assert page.evaluate("document.activeElement.className") == "card"
    page.select_option("#filter", "open")
    page.wait_for_function("shown.length === 1")
    assert page.locator(".card").count() == 2


@pytest.mark.parametrize("has_pictures", [False, True], ids=["texts", "pictures"])
def test_keys_decide_in_the_large_view(open_page, has_pictures):
    shown = {"picture": lambda row: gray_picture()} if has_pictures else {"texts": ["one two"] * 3}
    page = open_page(find_duplicates(np.zeros((3, 1)), 0.1, metric="euclidean"), **shown)
    for key in ("j", "z", "j", "Space"):
        page.keyboard.press(key)
    assert page.inner_text("#large-title").startswith("Group 1, row 3 of 3 · Keep")
    for key in ("u", "k", "x"):
        page.keyboard.press(key)
    assert page.inner_text("#large-title").startswith("Group 1, row 2 of 3 · No duplicate")
    if has_pictures:
        page.check("#large-marks")
        page.keyboard.press("j")
        page.keyboard.press("Space")  # the checkbox has it
        assert not page.is_checked("#large-marks")
    page.keyboard.press("Escape")
    decisions = page.locator(".card").evaluate_all("(cards) => cards.map((card) => card.dataset.decision)")
    assert decisions == ["keep", "different", "drop"]


def test_a_card_shows_the_first_word_that_differs(open_page):
    words = [f"word{i}" for i in range(400)]
    texts = [" ".join(words), " ".join([*words[:350], "other", *words[351:]])]
    page = open_page(find_duplicates([[1.0, 0.0], [1.0, 0.1]], 0.1, keep="first"), texts=texts)
    mark, text = (page.locator(".card").nth(1).locator(each).bounding_box() for each in ("ins", ".text"))
    assert text["y"] <= mark["y"] <= text["y"] + text["height"] - mark["height"]


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("has_pictures", [False, True], ids=["texts", "pictures"])
def test_nothing_serious_keeps_anybody_from_using_it(open_page, serious_problems, has_pictures, scheme):
    found = find_duplicates([[1.0, 0.0], [1.0, 0.1], [1.0, 0.1]], 0.1)
    if has_pictures:
        page = open_page(found, scheme, picture=lambda row: gray_picture(), note=lambda row: "40 x 30")
        page.check("#marks")
        page.get_by_role("button", name="Compare", exact=True).click()
    else:
        page = open_page(found, scheme, texts=["one two three", "one 2 three", "one 2 three"])
    assert page.locator(".card").count() == 3
    assert not serious_problems(page)


def test_the_page_of_a_server_saves_in_a_table(tmp_path, chromium, monkeypatch):
    found = find_duplicates([[0.0], [0.0], [0.1], [5.0]], 0.5, metric="euclidean", ids=list("abcd"), keep="first")
    place = tmp_path / "known.decisions.csv"
    server = ReviewServer(
        found, place, RowDisplay(texts=["x", "x", "y", "z"], picture=lambda row: gray_picture()), "Title"
    )
    Thread(target=server.serve, daemon=True).start()
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(server.address)
        page.wait_for_selector(".card img")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.wait_for_function("byId('saved').textContent === 'saved'")
        assert read_decisions(place, found.ids) == [("b", "different", "a")]
        delays = iter((0.5, 0))
        decide = server.decide
        monkeypatch.setattr(server, "decide", lambda body: (sleep(next(delays)), decide(body)))
        page.keyboard.press("Space")
        page.keyboard.press("x")
        page.evaluate("sending")  # the last request is answered
        assert read_decisions(place, found.ids) == [("b", "different", "a")]
        monkeypatch.undo()
        page.reload()
        page.wait_for_selector(".card")
        assert page.locator(".card").nth(1).get_attribute("data-decision") == "different"
        for path in ("", "/", f"/{server.token[:-1]}/", "/groups/1.js"):
            with pytest.raises(HTTPError):
                urlopen(f"http://127.0.0.1:{server.port}{path}")
        with pytest.raises(HTTPError):
            urlopen(Request(server.address, headers={"Host": "evil.example"}))
        for body in (b"{}", b'[["q","keep","a"]]', b'[["a","delete","b"]]', b"[[[1],2,3]]", b"[" * 5000):
            with pytest.raises(ValueError, match="decisions must be"):
                server.decide(body)
    finally:
        context.close()
        server.close()
