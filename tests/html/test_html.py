"""What all pages share: templates that can be read, colors that are defined, nothing from another host."""

import re

import pytest

from hashlearn.experiments.show.styles import N_COLORS
from hashlearn.html import FOLDER, STATIC, environment, inline, render

FILES = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".html", ".css", ".js"))


def test_every_template_can_be_read():
    names = environment().list_templates()
    assert {"document.html", "report/page.html", "review/review.html", "server/base.html"} <= set(names)
    for name in names:
        environment().get_template(name)


def test_every_color_that_is_used_is_defined():
    defined = set(re.findall(r"(--[\w-]+):", (STATIC / "style.css").read_text(encoding="utf-8")))
    used = {name for path in FILES for name in re.findall(r"var\((--[\w-]+)\)", path.read_text(encoding="utf-8"))}
    assert used <= defined
    assert {f"--series-{number}" for number in range(N_COLORS)} <= defined


def test_the_site_of_the_documentation_has_the_same_colors():
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    colors = dict(re.findall(r"(--[\w-]+): light-dark\(([^)]*)\)", style))
    site = (FOLDER.parents[2] / "docs" / "_static" / "hashlearn.css").read_text(encoding="utf-8")
    same = {"primary": "accent", "background": "ground", "surface": "surface", "border": "line", "text-base": "text"}
    for place, scheme in enumerate(("light", "dark")):
        (block,) = re.findall(rf'\[data-theme="{scheme}"\] {{([^}}]*)}}', site)
        used = dict(re.findall(r"--pst-color-([\w-]+): (#\w+)", block))
        assert {name: used[name] for name in same} == {
            name: colors[f"--{own}"].split(", ")[place] for name, own in same.items()
        }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_asked_of_another_host(path):
    assert not re.search(r"(https?:)?//[\w-]+\.\w", path.read_text(encoding="utf-8"))


def test_text_is_escaped_and_a_missing_value_is_an_error():
    page = {"title": "<b>", "subtitle": "", "sections": [], "footer": [], "commands": []}
    assert "<title>&lt;b&gt;</title>" in render("report/page.html", page=page)
    with pytest.raises(Exception, match="undefined"):
        render("report/page.html")


def test_a_page_of_one_file_has_the_style_sheet_inside():
    page = {"title": "t", "subtitle": "", "sections": [], "footer": [], "commands": []}
    assert inline("style.css") in render("report/page.html", page=page)
