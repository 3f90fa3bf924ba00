"""Five jobs that people have, done with only the page open in at most five actions each; docs/howto/app.md has them.

Each is done twice: with a mouse, and with the keyboard alone.
"""

import itertools
import re

import pytest


class Mouse:
    """Does what a person does with a page, and counts it."""

    def __init__(self, page):
        self.page, self.n_actions = page, 0

    def click(self, what):
        self.n_actions += 1
        what.click()

    def type(self, what, text):
        self.n_actions += 1
        what.fill(text)


class Keyboard(Mouse):
    """The same without a mouse. Going to a place by the Tab key is part of the action that is done there."""

    def click(self, what):
        self.n_actions += 1
        self.go_to(what)
        self.page.keyboard.press("Space" if what.get_attribute("type") == "checkbox" else "Enter")

    def type(self, what, text):
        self.n_actions += 1
        self.go_to(what)
        self.page.keyboard.type(text)

    def go_to(self, what):
        place = what.element_handle()
        for _ in range(500):
            if self.page.evaluate("place => document.activeElement === place", place):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError("the Tab key does not lead there")


@pytest.fixture(params=[Mouse, Keyboard])
def hands(browse, request):
    page = browse()
    page.wait_for_selector("[data-job]", state="detached", timeout=240_000)
    person = request.param(page)
    yield person
    assert person.n_actions <= 5


def listed(page):
    return page.locator("[data-items] .item").evaluate_all("items => items.map(item => item.dataset.id)")


def test_find_pictures_like_this_one_but_dark(hands):
    page = hands.page
    hands.type(page.locator("#find"), "china07.jpg")
    hands.click(page.get_by_role("button", name="Search", exact=True))
    page.wait_for_url("**id=china07.jpg**")
    before = listed(page)
    hands.click(page.locator('[name="f.brightness"][value="dark"]'))
    page.wait_for_url("**f.brightness=dark**")
    assert "dark" in page.locator(".chips").inner_text()
    after = listed(page)
    assert after
    assert after != before


def test_find_what_the_largest_cluster_is_about_and_export_its_ids(hands):
    page = hands.page
    named = page.locator(".clusters li").first
    count = int(named.locator(".count").inner_text())
    assert count == max(map(int, page.locator(".clusters .count").all_inner_texts()))
    hands.click(named.locator("h3 a"))
    page.wait_for_url("**cluster=0**")
    with page.expect_download() as download:
        hands.click(page.get_by_role("link", name="Ids"))
    assert len(download.value.path().read_text().split()) == count


def test_see_whether_the_search_can_be_trusted(hands):
    page = hands.page
    hands.click(page.locator(".clusters .example").first)
    page.wait_for_url("**id=**")
    assert re.search(r"\d+ of the true 10", page.inner_text(".trust"))
    hands.click(page.get_by_role("link", name="Quality"))
    page.wait_for_selector("#live")
    assert "queries" in page.locator("section[aria-labelledby=live]").inner_text()


def test_find_and_tag_near_duplicates(hands):
    page = hands.page
    group = page.locator(".groups > li").first
    n_items = group.locator(".item").count()
    hands.click(group.get_by_role("button", name="Pick all"))
    hands.type(page.locator("#tag"), "twice")
    with page.expect_download() as download:
        hands.click(page.locator(".basket").get_by_role("button", name="CSV"))
    lines = download.value.path().read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ["tag", *["twice"] * n_items]


@pytest.mark.parametrize("kind", [Mouse, Keyboard])
def test_find_texts_about_chess(texts_address, chromium, kind):
    with chromium.new_context(base_url=texts_address) as context:
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto("/")
        person = kind(page)
        person.type(page.locator("#find"), "chess")
        person.click(page.get_by_role("button", name="Search", exact=True))
        page.wait_for_url("**text=chess**")
        first = page.locator("[data-items] .item").first
        assert "chess" in first.locator("mark").first.inner_text().lower()
        assert set(listed(page)[:2]) == {"1", "4"}
        assert person.n_actions <= 5


@pytest.mark.parametrize(("width", "n_rows"), [(1440, 1), (1280, 1), (1024, 1), (390, 3)])
def test_the_header_takes_few_rows_and_nothing_in_it_is_cut(browse, width, n_rows):
    page = browse(width=width)
    boxes = page.locator(".top :is(.brand, .find, .surprise, nav a, .theme):visible").evaluate_all(
        "parts => parts.map(part => part.getBoundingClientRect()).map(b => [b.left, b.right, b.top + b.height / 2])"
    )
    middles = sorted(middle for _, _, middle in boxes)
    assert 1 + sum(after - before > 12 for before, after in itertools.pairwise(middles)) == n_rows
    assert all(left >= 0 and right <= width for left, right, _ in boxes)
