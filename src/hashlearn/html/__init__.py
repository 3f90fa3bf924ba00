"""Pages for people: one Jinja environment, one style sheet and the scripts that all pages share.

``templates/`` has a folder for the pages of the server, for reports, for the review of duplicates and for notebooks;
``document.html`` is the frame of a page that is one file. ``static/`` has ``style.css``, the scripts and the icon. The
server serves these files. A page that is one file has them inside (``inline`` in a template).
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hashlearn.extras import require

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


def render(template: str, **values: Any) -> str:
    """The text of a page.

    Parameters
    ----------
    template : str
        Below ``templates``, such as ``"report/page.html"``.
    values : dict
        What the template names. Text is escaped unless it is markup; a name without a value is an error.
    """
    return environment().get_template(template).render(values)


@cache
def environment() -> Any:
    """The Jinja environment of all pages."""
    jinja2: Any = require("jinja2", "report")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(inline=inline, address=address)
    return made


def inline(name: str) -> Any:
    """The text of a file of ``static``, as markup, for a page that is one file."""
    return require("markupsafe", "report").Markup((STATIC / name).read_text(encoding="utf-8"))


def address(path: str, *groups: Mapping[str, Any], **parameters: Any) -> str:
    """A path with what is not None of the parameters; a list is a parameter that is given several times.

    >>> address("/page", {"id": "a b"}, k=None, show=["x", "y"])
    '/page?id=a+b&show=x&show=y'
    """
    everything = {name: value for group in (*groups, parameters) for name, value in group.items()}
    given = {name: value for name, value in everything.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
