"""What a person does with the page."""

import pytest

VIEWS = ["/", "/?id=china07.jpg", "/page/inside?id=china07.jpg", "/page/quality", "/page/compare?id=china07.jpg"]


def results(page):
    """Names of the results that can be seen."""
    return page.locator(".results .card:visible .id").all_inner_texts()


def is_dark(page):
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")[:3]
    return red + green + blue < 200


def test_an_uploaded_image_finds_the_like_and_a_result_leads_on(browse, upload):
    page = browse()
    assert "120 items" in page.inner_text("footer")
    assert "1 files skipped" in page.inner_text("footer")
    page.set_input_files("#image", upload)
    page.wait_for_url("**/?query=*")
    found = results(page)
    assert found[0] == "china07.jpg"
    assert sum(name.startswith("china") for name in found) >= 8
    assert page.locator(".results .distance").count() == len(found) == 12
    page.locator(".results .card a").nth(1).click()
    page.wait_for_url("**/?id=*")
    assert page.inner_text("h1") == f"Nearest to item {found[1]}"
    assert page.locator(".results img").first.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0


def test_the_radius_counts_and_hides_while_it_moves(browse):
    page = browse("/?id=china07.jpg&k=100")
    distances = page.locator(".results .card").evaluate_all("cards => cards.map(card => Number(card.dataset.hamming))")
    radius = distances[4]
    page.locator("#radius").fill(str(radius))
    expected = sum(distance <= radius for distance in distances)
    assert page.inner_text("[data-radius-count]") == str(expected)
    assert len(results(page)) == expected
    page.reload()  # the address has kept it
    assert len(results(page)) == expected
    page.locator("#radius").fill("32")
    assert len(results(page)) == 100
    page.locator("#radius").fill("0")
    assert page.locator("[data-empty]").is_visible() == (distances[0] > 0)


def test_the_ranking_changes_at_once_and_inside_shows_bits(browse):
    page = browse("/?id=flower03.jpg")
    page.select_option("#rank", "vectors")
    page.wait_for_url("**rank=vectors**")
    by_vectors = results(page)
    page.get_by_role("link", name="Inside the code").click()
    assert page.locator("svg.strip").count() == 13
    assert page.locator(".beside").get_by_role("listitem").count() == 24
    assert page.locator(".beside ol").nth(1).locator("img").first.get_attribute("alt") == by_vectors[0]
    page.locator("#radius").fill("10")
    assert page.locator(".histogram .bar.within").count() == 11


def test_methods_are_compared_after_a_bar(browse):
    page = browse("/page/compare?id=china07.jpg")
    page.select_option("#with0", "lsh:16")
    page.select_option("#with1", "itq:32")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".compare section")
    headings = page.locator(".compare h2").all_inner_texts()
    assert headings == ["by vectors", "LSH, 16 bits", "ITQ, 32 bits"]
    assert page.locator(".compare li").count() == 36


def test_quality_is_shown_when_it_is_computed(browse):
    page = browse("/page/quality")
    page.wait_for_selector("#balance")
    assert page.locator(".correlation").evaluate("image => image.decode().then(() => image.naturalWidth)") == 512
    page.fill("#bit", "9")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**bit=9**")
    assert page.locator("text=Bit 9 is 1").is_visible()


def test_dark_is_what_the_system_says_until_somebody_chooses(browse):
    page = browse(color_scheme="dark")
    assert is_dark(page)
    page.get_by_role("button", name="light and dark").click()
    assert not is_dark(page)
    page.reload()
    assert not is_dark(page)
    assert not is_dark(browse(color_scheme="light"))


@pytest.mark.parametrize("path", VIEWS)
def test_a_phone_has_no_sideways_scrolling(browse, path):
    page = browse(path, width=360, has_touch=True, is_mobile=True)
    page.wait_for_function("!document.querySelector('[data-job]')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_keyboard_is_enough(browse):
    page = browse("/?id=china07.jpg")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.results') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "china07" not in url)


def test_the_page_works_without_scripts(browse):
    page = browse("/", java_script_enabled=False)
    page.fill("#id", "china07.jpg")
    page.get_by_role("button", name="Search", exact=True).click()
    assert len(results(page)) == 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", VIEWS)
def test_nothing_serious_keeps_anybody_from_using_it(browse, serious_problems, path, scheme):
    page = browse(path, color_scheme=scheme, bypass_csp=True)
    page.wait_for_function("!document.querySelector('[data-job]')")
    assert not serious_problems(page)
