"""The Python in the how-to pages runs as it stands there."""

import re
import textwrap
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "howto"
SERVER = "postgresql://user:password@localhost/vectors"


def python_in(page: Path) -> str:
    """All blocks of a page as one program, at the lines where they stand."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in re.finditer(r"^( *)```python\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, block.start(2))
        code = textwrap.dedent(block[2]).split("\n")
        lines[first : first + len(code)] = code
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["stores", "scale"])
def test_the_snippets_of_a_page_run(name, postgres, tmp_path, monkeypatch):
    for module in ("lancedb", "duckdb", "sqlite_vec", "milvus_lite", "faiss", "usearch", "distributed"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    page = PAGES / f"{name}.md"
    program = python_in(page).replace(f"{SERVER}?", f"{postgres}&").replace(SERVER, postgres)
    program = program.replace("LocalCluster(", "LocalCluster(processes=False, ")  # starting processes takes long
    assert "open_store" in program
    exec(compile(program, str(page), "exec"), {"__name__": "__main__"})
