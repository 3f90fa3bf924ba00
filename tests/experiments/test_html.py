"""Pages: well-formed, self-contained, and nothing gets in unescaped."""

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.experiments.report.html import (
    Cell,
    Group,
    Html,
    element,
    figure,
    markup,
    page,
    section,
    side_by_side,
    table,
)

VOID = {"meta", "img", "br", "path", "rect"}


class Reader(HTMLParser):
    """Checks that tags are nested and closed; keeps what it saw."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_text_comes_out_as_it_went_in(text):
    text = text.replace("\r", "")
    read = Reader(element("p", text, title=text))
    assert "".join(read.text) == text
    assert read.attributes == [("title", text)]


def test_markup_is_left_alone():
    assert markup(element("b", "<")) == "<b>&lt;</b>"
    assert isinstance(markup("<"), Html)


def test_a_page_is_one_file_without_scripts():
    best = table(["method", "mAP"], [Group("16 bits", [["a & b", Cell("0.5", is_best=True)]])], ["note <1>"])
    drawing = figure(element("svg"), "caption")
    text = page("A <title>", section("One", best, intro="see"), side_by_side(drawing), subtitle="sub", footer="foot")
    read = Reader(text)
    assert "script" not in read.tags
    assert "link" not in read.tags
    assert {"header", "main", "footer", "style", "table", "figure"} <= set(read.tags)
    assert {"A <title>", "a & b", "note <1>", "caption"} <= set(read.text)
    assert not any(value.startswith(("http", "//")) for name, value in read.attributes if name in ("src", "href"))
    assert "http" not in text


def test_only_the_best_cell_is_marked():
    text = table(["m", "x", "y"], [Group("", [["a", Cell("1", True), Cell("2")], ["b", "3", "4"]])])
    assert text.count('class="best"') == 1
    assert '<td class="best">1</td>' in text
    assert "colspan" not in text
