"""What a person does with the page."""

import re

import pytest

VIEWS = [
    "/",
    "/?id=china07.jpg",
    "/?id=china07.jpg&layout=list",
    "/?f.brightness=bright",
    "/page/inside?id=china07.jpg",
    "/page/quality",
    "/page/compare?id=china07.jpg",
]


def results(page):
    """Ids of the items that are listed."""
    return page.locator("[data-items] .item").evaluate_all("items => items.map(item => item.dataset.id)")


def when_computed(page):
    """Wait until the page shows no bar."""
    page.wait_for_selector("[data-job]", state="detached", timeout=240_000)
    return page


def when_drawn(page):
    """Wait until the names of clusters are placed on the map, and a change of it that was asked for is drawn."""
    page.wait_for_selector(".names a:visible")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


def when_scrolled(page, top):
    """Wait until the page is scrolled to a place. A strict policy forbids wait_for_function."""
    page.evaluate(
        """top => new Promise(done => {
            const look = () => (scrollY === top ? done() : requestAnimationFrame(look));
            look();
        })""",
        top,
    )


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
    assert sum(name.startswith("china") for name in found[:12]) >= 8
    assert "of the true 10" in page.inner_text(".trust")
    page.locator("[data-items] .item > a").nth(1).click()
    page.wait_for_url("**/?id=*")
    assert page.inner_text("h1") == f"Like {found[1]}"
    assert page.locator("[data-items] img").first.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    page.go_back()
    again = results(page)  # the list grows while one scrolls: either may be longer
    n = min(len(again), len(found))
    assert n >= 12
    assert again[:n] == found[:n]


def test_rows_of_pictures_keep_their_shape_and_fill_the_width(browse):
    page = browse("/?id=china07.jpg")
    measure = "items => items.map(item => item.getBoundingClientRect()).map(b => [b.left, b.top, b.width, b.height])"
    boxes = page.locator("[data-items] .item").evaluate_all(measure)
    right = page.locator("[data-items]").evaluate("list => list.getBoundingClientRect().right")
    rows = {}
    for left, top, width, height in boxes:
        rows.setdefault(round(top), []).append((left, width, height))
    first = next(iter(rows.values()))
    assert abs(first[-1][0] + first[-1][1] - right) < 2
    assert all(0.6 < width / height < 1.7 for row in list(rows.values())[:-1] for _, width, height in row)  # squares


def test_the_list_goes_on_when_its_end_is_near_and_then_ends(browse):
    page = browse("/?id=china07.jpg")
    for _ in range(1000):
        page.mouse.wheel(0, 5000)
        page.wait_for_timeout(100)
        if page.locator("text=That is all.").count():
            break
    found = results(page)
    assert len(found) == len(set(found)) == 119


def test_clusters_on_the_map_lead_to_their_items_and_an_area_can_be_chosen(browse):
    page = when_drawn(when_computed(browse()))
    named = page.locator(".clusters li").first
    count = named.locator(".count").inner_text()
    assert page.locator(".map canvas").evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(value => value > 0)"
    )
    named.locator("h3 a").click()
    page.wait_for_url("**/?cluster=0")
    assert page.inner_text("h1") == f"{count} of 120 items"
    page.go_back()
    when_drawn(when_computed(page))
    page.get_by_role("button", name="Choose an area").click()
    box = page.locator(".map canvas").bounding_box()
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=5)
    page.mouse.up()
    page.wait_for_url("**area=**")
    assert page.inner_text("h1") == "120 of 120 items"


def test_the_map_is_moved_and_chosen_from_by_keys(browse):
    page = when_drawn(when_computed(browse()))
    canvas = page.locator(".map canvas")
    canvas.focus()
    for key in ("+", "+", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**area=**")
    assert int(re.match(r"(\d+) of 120", page.inner_text("h1"))[1]) < 120


def test_filters_narrow_the_results_and_stay_in_the_address(browse):
    page = browse("/?id=china07.jpg")
    box = page.locator("fieldset", has_text="brightness").locator("input[type=checkbox]").first
    value = box.get_attribute("value")
    box.click()
    page.wait_for_url("**f.brightness=*")
    assert "id=china07.jpg" in page.url
    assert f"brightness: {value}" in page.locator(".chips").inner_text()
    chosen = page.locator(f'[type=checkbox][name="f.brightness"][value="{value}"]')
    page.go_back()
    page.wait_for_url(lambda url: "brightness" not in url)
    page.wait_for_load_state("load")
    assert not chosen.is_checked()
    page.go_forward()
    page.wait_for_url("**f.brightness=*")
    page.reload()
    assert chosen.is_checked()
    page.locator(".chips a").first.click()
    page.wait_for_url(lambda url: "brightness" not in url)
    page.go_back()
    assert "brightness" in page.url


def test_a_filter_leaves_the_map_where_it_is_and_the_focus_on_its_box(browse):
    page = when_drawn(when_computed(browse()))
    page.evaluate("window.isSamePage = true")
    page.get_by_role("button", name="Closer").click()
    page.locator(".map canvas").focus()
    seen = name_places(when_drawn(page))
    box = page.locator('[name="f.brightness"]').first
    box.focus()
    page.keyboard.press("Space")
    page.wait_for_url("**f.brightness=*")
    assert page.locator(".chips").count()
    assert seen.items() & name_places(when_drawn(page)).items()
    assert page.evaluate("document.activeElement.name") == "f.brightness"
    assert "of 120 items" in page.locator("[data-said]").inner_text()
    page.locator(".chips a").first.click()
    page.wait_for_url(lambda url: "brightness" not in url)
    assert not page.locator(".chips").count()
    page.go_back()
    assert page.locator(".chips").count()
    assert page.evaluate("window.isSamePage")


def test_the_focus_stays_in_what_a_key_has_changed(browse):
    page = when_drawn(when_computed(browse("/?f.brightness=bright")))
    page.locator(".map canvas").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**area=**")
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    page.locator(".chips a").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "area" not in url)
    assert page.evaluate("document.activeElement.id") == "content"
    page.go_back()
    page.wait_for_url("**area=**")
    assert page.locator("[data-said]").inner_text() == page.inner_text("h1")


def test_words_that_are_typed_but_not_sent_stay_when_a_filter_is_chosen(browse):
    page = browse("/?id=china07.jpg")
    page.fill("#find", "china")
    page.locator('[type=checkbox][name="f.brightness"]').first.click()
    page.wait_for_url("**f.brightness=*")
    assert page.input_value("#find") == "china"


def test_the_same_choice_again_is_no_new_step_back(browse):
    page = browse("/?id=china07.jpg")
    page.fill("#words", "china")
    page.keyboard.press("Enter")
    page.wait_for_url("**words=china**")
    steps = page.evaluate("history.length")
    page.evaluate("document.querySelector('main h1').textContent = 'before'")
    page.locator("#words").press("Enter")
    page.wait_for_selector("h1:not(:text-is('before'))")
    assert page.evaluate("history.length") == steps


def test_the_wheel_moves_the_page_until_the_whole_map_is_seen_and_a_finger_too(browse):
    page = when_drawn(when_computed(browse()))
    touch = "map => getComputedStyle(map).touchAction"
    box = page.locator(".map canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 10)
    page.mouse.wheel(0, 200)
    when_scrolled(page, 200)
    page.mouse.wheel(0, -200)  # the map begins above the window: the page moves first
    when_scrolled(page, 0)
    assert page.locator(".map").evaluate(touch) == "pan-y"
    page.mouse.wheel(0, -60)
    page.wait_for_selector(".map.near")
    assert page.locator(".map").evaluate(touch) == "none"
    page.mouse.wheel(0, 30)  # what is seen is a part: the wheel is for the map
    when_drawn(page)
    assert page.evaluate("scrollY") == 0


def test_the_wheel_zooms_on_a_name_as_beside_it(browse):
    page = when_drawn(when_computed(browse()))
    page.locator(".names a:visible").first.hover()
    page.mouse.wheel(0, -60)
    page.wait_for_selector(".map.near")


def test_a_movement_of_the_page_that_the_map_cannot_stop_does_not_zoom(browse):
    page = when_drawn(when_computed(browse()))
    wheel = "canvas => canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -60, bubbles: true, cancelable: false }))"
    page.locator(".map canvas").evaluate(wheel)
    assert not page.locator(".map.near").count()


def test_a_zoom_that_comes_while_a_drawing_waits_is_not_forgotten(browse):
    page = when_drawn(when_computed(browse()))
    page.evaluate("""() => {
        document.querySelector('[data-zoom="0"]').click();
        const place = { deltaY: -60, bubbles: true, cancelable: true };
        document.querySelector(".map canvas").dispatchEvent(new WheelEvent("wheel", place));
    }""")
    assert page.locator(".map.near").count() == 1


def test_on_a_phone_the_filters_say_how_many_items_they_leave_and_lead_there(browse):
    page = browse("/", width=390)
    page.locator("[data-panel] summary").click()
    page.locator('[type=checkbox][name="f.brightness"]').first.click()
    page.wait_for_url("**f.brightness=*")
    link = page.locator(".to-items")
    assert link.inner_text().split()[1] == page.inner_text("h1").split()[0]
    link.click()
    page.wait_for_url("**#content")
    assert page.locator("h1").bounding_box()["y"] < 200
    page.go_back()
    assert "brightness" in page.url


def name_places(page):
    """Where the names of clusters stand that are seen on the map."""
    names = page.locator(".names a:visible").evaluate_all("names => names.map(a => [a.textContent, a.style.left])")
    return dict(names)


def test_long_values_of_a_filter_stay_in_their_column(browse):
    page = browse("/")
    name = page.locator(".facet .value span").first
    name.evaluate("span => (span.textContent = 'usr/share/wallpapers/a-long-name/contents/'.repeat(4))")
    column, panel = (page.locator(each).bounding_box() for each in (".panel .facet >> nth=0", ".panel"))
    assert column["x"] + column["width"] <= panel["x"] + panel["width"] + 1
    assert panel["x"] + panel["width"] < page.locator("main").bounding_box()["x"]


def test_one_tiny_picture_does_not_make_the_others_small(browse):
    page = browse("/?id=china07.jpg")
    item = page.locator("[data-items] .item").first
    before = item.bounding_box()["height"]
    item.evaluate("item => item.classList.add('small')")
    assert item.bounding_box()["height"] == before


def test_picked_items_are_exported_and_searched_together(browse):
    page = browse("/?id=china07.jpg")
    found = results(page)
    for place in (0, 2):
        item = page.locator("[data-items] .item").nth(place)
        item.hover()
        item.locator("[data-pick]").click()
    assert page.locator(".basket strong").inner_text() == "2 items picked"
    page.reload()  # the browser has kept them
    page.fill("#tag", "mine")
    with page.expect_download() as download:
        page.locator(".basket").get_by_role("button", name="CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0].startswith("id,tag,")
    assert [line.split(",")[:2] for line in lines[1:]] == [[found[0], "mine"], [found[2], "mine"]]
    page.get_by_role("link", name="More like these").click()
    page.wait_for_url("**/?like=*")
    assert not {found[0], found[2]} & set(results(page))
    page.get_by_role("button", name="Empty").click()
    assert page.locator(".basket").is_hidden()


def test_a_picture_is_shown_large_by_keys_alone(browse):
    page = browse("/?id=china07.jpg")
    page.locator("[data-items] .item > a").first.focus()
    page.keyboard.press(" ")
    dialog = page.locator("dialog.large")
    assert dialog.is_visible()
    first = dialog.locator("img").get_attribute("src")
    page.keyboard.press("ArrowRight")
    second = dialog.locator("img").get_attribute("src")
    assert first != second
    assert dialog.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") >= 200
    page.keyboard.press("p")
    assert page.locator(".basket strong").inner_text() == "1 item picked"
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    # The browser gives the focus back to where the dialog was opened, and tells the page of the close a moment later.
    page.wait_for_selector('.item[data-rank="2"] a:focus')


def test_the_radius_counts_and_hides_while_it_moves(browse):
    page = browse("/page/inside?id=china07.jpg&k=100")
    distances = page.locator(".strip-row[data-hamming]").evaluate_all(
        "rows => rows.map(row => Number(row.dataset.hamming))"
    )
    assert distances == sorted(distances)
    radius = distances[4]
    page.locator("#radius").fill(str(radius))
    expected = sum(distance <= radius for distance in distances)
    assert page.inner_text("[data-radius-count]") == str(expected)
    assert page.locator(".strip-row[data-hamming]:visible").count() == expected
    assert page.locator(".histogram .bar.within").count() == radius + 1
    page.locator("#radius").dispatch_event("change")
    page.reload()  # the address has kept it
    assert page.locator(".strip-row[data-hamming]:visible").count() == expected


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
    page.locator("#bit").press("Enter")
    page.wait_for_url("**bit=9**")
    page.wait_for_selector("text=Bit 9 is 1")


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
    page = when_computed(browse(path, width=360, has_touch=True, is_mobile=True))
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_keyboard_is_enough(browse):
    page = browse("/?id=china07.jpg")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.wait_for_selector("main:focus")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('[data-items] .item > a')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "china07" not in url)


def test_the_page_works_without_scripts(browse):
    page = browse("/", java_script_enabled=False)
    page.fill("#find", "china07.jpg")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**id=china07.jpg**")
    assert page.locator("[data-items] .item").count() == 24
    page.get_by_role("link", name="More").last.click()
    page.wait_for_url("**/page/more?**")
    assert page.locator("[data-items] .item").count() == 24


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", VIEWS)
def test_nothing_serious_keeps_anybody_from_using_it(browse, serious_problems, path, scheme):
    page = when_computed(browse(path, color_scheme=scheme, bypass_csp=True))
    assert not serious_problems(page)
