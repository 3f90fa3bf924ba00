"""The page over HTTP, without scripts: what its views say, and what it answers to bad input."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import LSH, SimilaritySearch
from hashlearn.codes import hamming_distances
from hashlearn.server.own_collection import OwnCollection

X, Y = load_digits(return_X_y=True)


def shown_ids(answer):
    """Ids of the results that can be seen, in their order."""
    part = answer.text.partition('<ol class="grid results">')[2].partition("</ol>")[0]
    part = re.sub(r'<li class="card" [^>]* hidden>.*?</li>', "", part, flags=re.DOTALL)
    return [int(key) for key in re.findall(r'<span class="id">(\d+)</span>', part)]


def shown_distances(answer):
    return [int(d) for d in re.findall(r'data-hamming="(\d+)"', answer.text)]


def test_the_start_shows_items_that_lead_to_their_neighbors(digits):
    answer = digits.get("/")
    assert answer.status_code == 200
    address = re.search(r'<li class="card">\s*<a href="([^"]+)"', answer.text)[1]
    assert "Nearest to item" in digits.get(address).text


def test_neighbors_are_the_nearest_codes_without_the_item_itself(digits):
    answer = digits.get("/?id=7&k=20")
    search = digits.app.state.service.search
    codes = search.hasher.transform(X)
    distances = hamming_distances(codes[7:8], codes, 32)[0]
    order = [row for row in np.argsort(distances, kind="stable").tolist() if row != 7][:20]
    assert shown_ids(answer) == order
    assert shown_distances(answer) == distances[order].tolist()


def test_by_vectors_the_order_is_that_of_their_distances(digits):
    lengths = np.linalg.norm(X - X[7], axis=1)
    lengths[7] = np.inf
    order = np.argsort(lengths, kind="stable")[:12].tolist()
    assert shown_ids(digits.get("/?id=7&rank=vectors")) == order
    assert len(shown_ids(digits.get("/?id=7&rank=asymmetric"))) == 12


def test_the_radius_is_a_limit_and_its_count_is_of_the_whole_collection(digits):
    answer = digits.get("/?id=7&k=100&radius=4")
    codes = digits.app.state.service.search.hasher.transform(X)
    within = int((hamming_distances(codes[7:8], codes, 32)[0] <= 4).sum()) - 1
    assert len(shown_ids(answer)) == min(100, within)
    assert f"<strong data-radius-count>{within:,}</strong>" in answer.text


def test_a_pasted_vector_finds_the_item_it_is(digits):
    numbers = " ".join(map(str, X[3]))
    answer = digits.post("/page/query", data={"vector": numbers, "view": "/"})
    assert shown_ids(answer)[0] == 3
    assert shown_distances(answer)[0] == 0


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ("1 2 3", "vector must have 64 numbers, got 3"),
        ("a b", "vector must be numbers"),
        ("nan " * 64, "vector must be finite"),
        ("", "vector must have 64 numbers, got 0"),
    ],
)
def test_a_vector_that_cannot_be_is_refused_in_one_line(digits, vector, message):
    answer = digits.post("/page/query", data={"vector": vector})
    assert answer.status_code == 422
    assert message in answer.text


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/?id=99999", "there is no item"),
        ("/?id=abc", "there is no item"),
        ("/?id=1&k=0", "k must be from 1 to 100, got 0"),
        ("/?id=1&k=x", "k must be an integer"),
        ("/?id=1&radius=33", "radius must be from 0 to 32, got 33"),
        ("/?id=1&rank=magic", "rank must be one of"),
        ("/?text=hello", "no encoder of texts"),
        ("/?query=0000", "no longer kept"),
        ("/page/quality?bit=32", "bit must be from 0 to 31"),
        ("/page/compare?id=1&with=nothing:64", "method must be one of"),
        ("/page/compare?id=1&with=lsh:65", "bits must be one of"),
    ],
)
def test_bad_addresses_get_a_page_that_says_so(digits, computed, address, message):
    answer = computed(digits, address)
    assert answer.status_code == 422
    assert message in answer.text
    assert digits.get("/").status_code == 200


def test_inside_shows_each_code_and_the_recall_of_the_query(digits):
    answer = digits.get("/page/inside?id=7")
    assert answer.text.count('class="strip"') == 13
    by_codes, by_vectors = shown_ids(digits.get("/?id=7")), shown_ids(digits.get("/?id=7&rank=vectors"))
    recall = 100 * len(set(by_codes) & set(by_vectors)) / 12
    assert f'<strong class="recall">{recall:.0f} %</strong>' in answer.text


def test_quality_is_computed_in_the_background_and_kept(digits, computed):
    answer = computed(digits, "/page/quality?bit=5")
    assert "From all 1,797 items" in answer.text
    assert "Bit 5 is 1" in answer.text
    assert digits.get("/page/correlation.png").content.startswith(b"\x89PNG")
    assert digits.get("/page/progress?job=quality").json()["done"]


def test_methods_are_compared_on_one_query(digits, computed):
    answer = computed(digits, "/page/compare?id=7&with=lsh:16&with=itq:32&with=itq:128")
    assert "LSH, 16 bits" in answer.text
    assert "ITQ, 32 bits" in answer.text
    assert answer.text.count('class="problem"') == 1  # ITQ has no more bits than there are features
    recalls = [int(recall) for recall in re.findall(r"recall <strong>(\d+) %", answer.text)]
    assert len(recalls) == 2
    assert recalls[1] > recalls[0]


def test_pictures_are_those_of_the_items(digits):
    assert digits.get("/page/thumbnail?id=7").headers["content-type"] in ("image/png", "image/jpeg")
    for name in ("99999", "-1", "../../etc/passwd", ""):
        assert digits.get("/page/thumbnail", params={"id": name}).status_code == 404


def test_a_text_finds_texts_about_the_same(texts):
    answer = texts.get("/?find_text=fox+in+the+snow&rank=vectors&k=3")
    assert answer.url.params["text"] == "fox in the snow"
    titles = re.findall(r"<dt>title</dt><dd>(\w+)</dd>", answer.text)
    assert set(titles) == {"Fox", "Dog", "Wolf"}


def test_texts_of_others_are_shown_and_not_run(texts):
    answer = texts.get("/")
    assert "&lt;script&gt;alert(1)" in answer.text
    assert "<script>alert" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    answer = texts.get("/", params={"text": "<script>alert(2)</script>"})
    assert "<script>alert" not in answer.text


def test_an_image_where_texts_are_searched_is_refused(texts):
    answer = texts.post("/page/query", files={"image": ("a.png", b"\x89PNG", "image/png")})
    assert answer.status_code == 422
    assert "the collection is of texts" in answer.text


def test_a_search_that_keeps_no_vectors_shows_what_its_codes_say(clients, computed):
    search = (
        SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(X).add(X, ids=[f"digit {row}" for row in range(len(X))])
    )
    client = clients(OwnCollection(search, None, None, "codes only", []))
    assert "the vector of this query is not known" in client.get("/page/inside?id=digit+7").text
    assert len(re.findall(r"data-hamming", client.get("/?id=digit+7&rank=vectors").text)) == 12  # falls back to codes
    assert "this search keeps none" in computed(client, "/page/quality").text
    assert "keeps no vectors" in client.get("/page/compare?id=digit+7&with=lsh:16").text


def test_a_search_without_items_says_so(clients, computed):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(X)
    client = clients(OwnCollection(search, None, None, "empty", []))
    assert "There are no items yet" in client.get("/").text
    assert "there are no items yet" in computed(client, "/page/quality").text
    assert client.post("/page/query", data={"vector": " ".join(["1"] * 64)}).status_code == 200
    assert client.get("/page/random").status_code == 200
