"""Pages: well-formed, self-contained, and nothing gets in unescaped."""

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.experiments.show.pages import (
    Cell,
    Drawing,
    DrawingGroup,
    DrawingRow,
    ReportPage,
    ReportTable,
    RowGroup,
    Section,
    render_page,
)
from hashlearn.experiments.show.styles import styles_for

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


def page_of(*sections):
    return render_page(ReportPage("A <title>", "sub", sections, ["foot"], ["make & again"]))


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_text_comes_out_as_it_went_in(text):
    table = ReportTable(
        ["method", text], [RowGroup(text, [(text, [Cell(text, deviation=text, published=text)])])], text
    )
    drawing = DrawingGroup(styles_for([text]), [DrawingRow([Drawing("<svg></svg>", text)], text, text)])
    read = Reader(page_of(Section(text, text, [table], [drawing], [text])))
    whole = "".join(read.text)
    assert whole.count(text) >= 11
    assert "svg" in read.tags


def test_a_page_is_one_file_that_loads_nothing():
    table = ReportTable(["method", "mAP"], [RowGroup("16 bits", [("a & b", [Cell("0.5", is_best=True)])])])
    drawing = DrawingGroup({}, [DrawingRow([Drawing("<svg></svg>", "caption")])])
    text = page_of(Section("One", "see", [table], [drawing], ["note <1>"]))
    read = Reader(text)
    assert "link" not in read.tags
    assert not any(name == "src" for name, _ in read.attributes)
    assert {"header", "main", "footer", "style", "table", "figure"} <= set(read.tags)
    assert {"A <title>", "a & b", "note <1>", "caption", "make & again"} <= set(read.text)
    assert not any(value.startswith(("http", "//")) for name, value in read.attributes if name in ("src", "href"))
    assert "http" not in text


def test_only_the_best_cell_is_marked():
    rows = [("a", [Cell("1", True), Cell("2")]), ("b", [Cell("3"), Cell("")])]
    text = page_of(Section("One", tables=[ReportTable(["m", "x", "y"], [RowGroup("", rows)])]))
    assert text.count('class="best"') == 1
    assert '<td class="best">1</td>' in text
    assert "<td>–</td>" in text
    assert "colspan" not in text


def test_the_legend_names_every_line():
    drawing = DrawingGroup(styles_for(["a", "b<"]), [])
    text = page_of(Section("One", drawings=[drawing]))
    legend = text.partition('<ul class="legend">')[2].partition("</ul>")[0]
    assert legend.count("<li>") == 2
    assert "b&lt;" in legend
