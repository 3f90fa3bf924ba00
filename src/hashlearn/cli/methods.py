"""``hashlearn methods``."""

EXAMPLE = "Example: hashlearn methods"


def run() -> None:
    """List the methods that can be fitted."""
    from rich.console import Console
    from rich.table import Table

    from hashlearn.hashers import METHODS

    table = Table("method", "class", "what it does", box=None, pad_edge=False)
    for name, cls in METHODS.items():
        table.add_row(name, cls.__name__, description(cls))
    Console().print(table)


def description(cls: type) -> str:
    """The first line of a class's docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]
