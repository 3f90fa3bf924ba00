"""Tables and plots in one HTML file that needs nothing else: Jinja2 templates and matplotlib drawings."""

from hashlearn.extras import require


def need_report_packages() -> None:
    """Raise an error that says what to install, before long work is done in vain."""
    require("matplotlib", "report")
    require("jinja2", "report")
