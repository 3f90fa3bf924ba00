"""Tables and plots in one self-contained HTML file: Jinja2 templates and matplotlib drawings."""

from hashlearn.extras import require


def need_report_packages() -> None:
    """Raise an error that says what to install, before long work begins."""
    require("matplotlib", "report")
    require("jinja2", "report")
