"""Every hashlearn command of README and docs is one that the command line takes; those that end soon are run."""

import re
import shlex
from functools import cache
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from sklearn.datasets import load_digits, load_sample_image

from hashlearn import ITQ, SimilaritySearch
from hashlearn.cli import commands, main

ROOT = Path(__file__).resolve().parents[2]
IN_A_BLOCK = re.compile(r"^ {4,}(?:\$ )?(hashlearn [a-z].*)$", re.MULTILINE)
IN_A_LINE = re.compile(r"`(hashlearn [a-z-]+ [^`]+)`")
RUN = ("dedup", "encode", "explain", "fit", "recommend", "search", "tune")
ELSEWHERE = ("--cluster", "Qdrant/", "BAAI/", "experiment ", "index add", "--decisions", "--undo", "--serve")
"""In commands that need a cluster or a download, that tests of their own run, or that are named without arguments."""


@cache
def lines():
    """(page, command) for every command with arguments."""
    found = []
    folders = [ROOT / "docs" / name for name in ("howto", "explanation", "measurements", "tutorials")]
    pages = [ROOT / "README.md", ROOT / "docs" / "index.md", *(p for f in folders for p in sorted(f.rglob("*.*")))]
    for page in pages:
        if page.suffix in (".md", ".py"):
            text = page.read_text(encoding="utf-8")
            for line in IN_A_BLOCK.findall(text) + IN_A_LINE.findall(text):
                found.append((page, shlex.split(line.replace("\n# ", " "), comments=True)[1:]))
    return found


def runnable(page):
    found = [words for where, words in lines() if where == page and words[0] in RUN]
    return [words for words in found if not any(mark in " ".join(words) for mark in ELSEWHERE)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the pages name."""
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    X, y = load_digits(return_X_y=True)
    X, y = X[:400].astype(np.float32), y[:400]
    X[390:] = X[:10]
    for name, array in {"vectors": X, "queries": X[:20], "labels": y, "y": y}.items():
        np.save(f"{name}.npy", array)
    words = ["red", "green", "blue", "round", "flat", "small", "large", "warm", "cold", "soft", "hard", "dry"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 8)) for _ in range(60)]
    Path("texts.csv").write_text("body,plot\n" + "".join(f"{text},{text}\n" for text in [*texts, *texts[:5]]))
    for name in ("texts", "train", "test"):
        pq.write_table(pa.table({"body": texts, "text": texts}), f"{name}.parquet")
    Path("rows.csv").write_text("title,year\n" + "".join(f"a digit,{row}\n" for row in range(len(X))))
    Path("duplicates.csv").write_text("".join(f"{row},{390 + row}\n" for row in range(10)))
    Path("different.csv").write_text("".join(f"{row},{row + 20}\n" for row in range(10)))
    Path("photos").mkdir()
    for number in range(12):
        place = 40 * (number % 10)
        Image.fromarray(load_sample_image("china.jpg")[place : place + 64, :64]).save(f"photos/{number}.png")
    ITQ(32, random_state=0).fit(X).save("model")
    SimilaritySearch(ITQ(32, random_state=0), encoder="tfidf").fit(texts=texts).add(texts=texts).save("texts")
    search = SimilaritySearch(ITQ(32, random_state=0), keep_vectors="int8").fit(X).add(X)
    for name in ("search", "my-search"):
        search.save(name)
    return tmp_path


@pytest.mark.parametrize("page", sorted({page for page, _ in lines()}), ids=lambda page: page.stem)
def test_the_command_line_takes_the_commands_of_a_page(page, folder):
    for where, words in lines():
        if where == page:
            command, name = typer.main.get_command(commands), "hashlearn"
            while isinstance(command, click.Group) or hasattr(command, "commands"):
                name, *words = words
                command = command.commands[name]
            if not words and any(parameter.required for parameter in command.params):
                continue  # a command that is only named
            command.make_context(name, [word for word in words if word != "..."])


@pytest.mark.parametrize("page", sorted({p for p, _ in lines() if runnable(p)}), ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, folder, capsys):
    if page.stem == "rerank":
        prepare("encode model/ vectors.npy --out codes.npy")
    for words in runnable(page):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, (words, capsys.readouterr().err)


def prepare(line):
    with pytest.raises(SystemExit):
        main(line.split())
