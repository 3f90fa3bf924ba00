"""The page over HTTP, without scripts: what its views say, and what it answers to bad input."""

import csv
import io
import re
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ABH, JPSH, LSH, SimilaritySearch
from hashlearn.codes import hamming_distances
from hashlearn.server.own_collection import OwnCollection

X, Y = load_digits(return_X_y=True)


def shown_ids(answer):
    """Ids of the items of the first list, in their order."""
    part = answer.text.partition("data-items>")[2].partition("</ol>")[0]
    return re.findall(r'data-id="([^"]*)"', part)


def shown_numbers(answer):
    return [int(key) for key in shown_ids(answer)]


def shown_distances(answer):
    return [int(d) for d in re.findall(r'data-hamming="(\d+)"', answer.text)]


def test_the_start_shows_a_map_with_named_clusters_that_lead_to_their_items(digits, computed):
    answer = computed(digits, "/")
    assert 'data-map="1797"' in answer.text
    clusters = re.findall(r'<a href="(/\?cluster=\d+)">([^<]+)</a><span class="count">([\d,]+)</span>', answer.text)
    assert sum(int(count.replace(",", "")) for _, _, count in clusters) == 1797
    assert any(name.startswith("label ") for _, name, _ in clusters)
    address, name, count = clusters[0]
    of_cluster = digits.get(address)
    assert f"{count} of 1,797 items" in of_cluster.text
    assert name in of_cluster.text
    assert len(shown_ids(of_cluster)) == 24
    points = digits.get("/page/map.bin").content
    assert len(points) == 5 * 1797
    bits = np.unpackbits(np.frombuffer(digits.get(address.replace("/", "/page/mask", 1)).content, np.uint8))
    assert bits.sum() == int(count.replace(",", ""))
    labels = np.frombuffer(points, np.uint8, offset=4 * 1797)
    assert (labels[bits[:1797] == 1] == int(address.rpartition("=")[2])).all()


def test_an_area_of_the_map_holds_the_points_inside_of_it(digits, computed):
    computed(digits, "/")
    points = np.frombuffer(digits.get("/page/map.bin").content, "<u2", count=2 * 1797).reshape(2, -1)
    inside = ((points > 65535 * 0.2) & (points < 65535 * 0.5)).all(axis=0)
    ids = digits.get("/page/export?format=ids&area=200,200,500,200,500,500,200,500").text.split()
    assert ids == [str(row) for row in np.flatnonzero(inside)]


def test_the_map_is_there_for_programs(digits, computed):
    computed(digits, "/")
    answer = digits.get("/v1/map?start=1790&limit=5").json()
    assert (answer["rows"], answer["ids"], answer["next"]) == (1797, [1790, 1791, 1792, 1793, 1794], 1795)
    assert len(answer["x"]) == len(answer["y"]) == len(answer["cluster"]) == 5
    assert sum(cluster["size"] for cluster in answer["clusters"]) == 1797
    assert "/v1/map" in digits.get("/openapi.json").json()["paths"]


def test_results_are_in_the_order_of_search(digits):
    search = digits.app.state.service.search
    for row in (7, 100, 1500):
        first = [key for key in search.search(X[row], 25).ids.tolist() if key != row][:24]
        expected = first + [key for key in search.search(X[row], 241).ids.tolist() if key not in {row, *first}]
        assert shown_numbers(digits.get(f"/?id={row}")) == expected[:24]
        assert shown_numbers(digits.get(f"/page/more?id={row}&from=24")) == expected[24:48]
        assert digits.get(f"/page/export?id={row}&format=ids").text.split() == [str(key) for key in expected[:240]]


@pytest.mark.parametrize("keep", [None, "float32"])
@pytest.mark.parametrize("hasher", [ABH(n_bits=32, random_state=0), JPSH(n_bits=16, random_state=0)])
def test_the_page_orders_as_search_does_whatever_the_hasher_and_the_vectors(clients, hasher, keep):
    rng = np.random.default_rng(0)
    search = SimilaritySearch(hasher, keep_vectors=keep).fit(X[:1000]).add(X[:1000])
    client = clients(OwnCollection(search, None, None, "any", []))
    for vector in rng.normal(X[:1000].mean(axis=0), X[:1000].std(axis=0) + 1, (25, X.shape[1])).astype(np.float32):
        answer = client.post("/page/query", data={"vector": " ".join(map(str, vector.tolist()))})
        assert shown_numbers(answer) == search.search(vector, 24).ids.tolist()
    for row in rng.choice(1000, 10, replace=False).tolist():
        (record,) = search.get([row])
        if keep is None and search.query == "real":  # what its code stands for is compared
            found = search.search(search.hasher.decode(record.code[None])[0], 25).ids
        elif keep is None:
            found = search.search_codes(record.code[None], 25).ids[0]
        else:
            found = search.search(X[row], 25).ids
        assert shown_numbers(client.get(f"/?id={row}")) == [key for key in found.tolist() if key != row][:24]


def test_the_page_says_how_many_of_the_true_neighbors_are_found(digits):
    lengths = np.linalg.norm(X - X[7], axis=1)
    lengths[7] = np.inf
    truth = set(np.argsort(lengths, kind="stable")[:10].tolist())
    answer = digits.get("/?id=7")
    found = len(truth & set(shown_numbers(answer)[:10]))
    assert f"<strong>{found} of the true 10</strong>" in answer.text
    assert f"<strong>{found} of the true 10</strong>" in digits.get("/page/trust?id=7").text


def test_filters_count_what_the_choice_on_the_map_leaves(digits, computed):
    home = computed(digits, "/")
    count = int(re.search(r'cluster=0">[^<]+</a><span class="count">([\d,]+)<', home.text)[1].replace(",", ""))
    answer = digits.get("/?cluster=0")
    labels = re.findall(r'name="f.label" value="\d+".*?class="count">([\d,]+)<', answer.text)
    assert sum(int(each.replace(",", "")) for each in labels) == count


def test_the_quality_of_live_queries_is_on_the_page(clients, computed):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="int8").fit(X).add(X)
    client = clients(OwnCollection(search, None, None, "live", []))
    assert "No query was measured yet" in computed(client, "/page/quality").text
    watch = client.app.state.service.watch
    watch.share = 1.0
    for row in range(3):
        client.get(f"/?id={row}")
        client.post("/v1/search", json={"id": row})
    for _ in range(600):
        if watch.recall is not None:
            break
        time.sleep(0.05)
    answer = client.get("/page/quality").text
    assert re.search(r"Searches find <strong>[\d.]+ %</strong> of the true nearest items \([\d.]+ % to", answer)
    assert "Waiting for a thread" in answer
    assert "Values that were clipped" in answer


def test_filters_hold_for_lists_results_and_exports(digits):
    search = digits.app.state.service.search
    answer = digits.get("/?f.label=3&f.label=8")
    assert f"{np.isin(Y, [3, 8]).sum()} of 1,797 items" in answer.text
    assert shown_numbers(answer) == np.flatnonzero(np.isin(Y, [3, 8]))[:24].tolist()
    expected = [k for k in search.search(X[7], 25, filter={"label": {"$in": [3, 8]}}).ids.tolist() if k != 7]
    assert shown_numbers(digits.get("/?id=7&f.label=3&f.label=8")) == expected[:24]
    lines = digits.get("/page/export?f.label=3&format=csv").text.splitlines()
    assert lines[0] == "id,label"
    assert lines[1:] == [f"{row},3" for row in np.flatnonzero(Y == 3)]
    assert len(digits.get("/page/export?min.label=8&format=ids").text.split()) == (Y >= 8).sum()
    assert "Nothing meets" in digits.get("/?f.label=77").text


def test_words_are_a_filter_on_names_and_texts(texts):
    assert shown_numbers(texts.get("/?words=slow+COOK")) == [6, 8]
    assert shown_numbers(texts.get("/?words=cook+bake")) == []
    assert set(shown_numbers(texts.get("/?text=snow&words=bank"))) == {3}
    assert texts.get("/page/export?format=ids&words=slowly").text.split() == ["6", "7", "8"]


def test_where_no_texts_are_searched_the_box_looks_for_names(clients):
    names = ["sea/Blue Sea.jpg", "sea/green.jpg", "hill.jpg"]
    search = SimilaritySearch(LSH(16, random_state=0), keep_vectors="float32").fit(X).add(X[:3], names)
    client = clients(OwnCollection(search, None, None, "names", []))
    answer = client.get("/?find=blue")
    assert answer.url.params["words"] == "blue"
    assert shown_ids(answer) == ["sea/Blue Sea.jpg"]
    assert shown_ids(client.get("/?find=sea")) == ["sea/Blue Sea.jpg", "sea/green.jpg"]
    assert client.get("/?find=hill.jpg").url.params["id"] == "hill.jpg"
    assert "words: zebra" in client.get("/?find=zebra").text


def test_a_facet_counts_what_the_other_filters_leave(digits):
    answer = digits.get("/?f.label=3")
    counts = dict(re.findall(r'name="f.label" value="(\d)".*?<span class="count">(\d+)</span>', answer.text))
    assert counts == {str(label): str((label == Y).sum()) for label in range(10) if str(label) in counts}
    assert len(counts) >= 8
    assert list(counts) == sorted(counts)
    assert 'value="3" checked' in answer.text


def test_a_chosen_value_that_is_no_number_stands_behind_the_numbers(digits):
    counts = re.findall(r'type="checkbox" name="f.label" value="([^"]*)"', digits.get("/?f.label=many").text)
    assert counts == [*map(str, range(10)), "many"]


def test_where_no_item_meets_the_filters_the_chosen_ones_stay_and_can_be_cleared(digits):
    answer = digits.get("/?f.label=3&words=nowhere")
    assert re.search(r'value="3" checked><span title="3">3</span><span class="count">0<', answer.text)
    assert "Nothing meets all of these filters" in answer.text
    assert "data-map=" not in answer.text


def test_the_way_out_of_filters_keeps_how_items_are_shown(digits):
    text = digits.get("/?f.label=3&f.label=4&layout=list&show=label").text
    ways = re.findall(r'<a (?:class="button" )?data-here href="([^"]*)"', text.partition('class="names"')[0])
    assert len(ways) == 3  # Clear, and the two chips
    assert all("layout=list" in way and "show=label" in way for way in ways)


@pytest.fixture(scope="module")
def payloads_of_all_kinds(clients):
    """300 items with 40 fields; six of them are the same."""
    payloads = [
        {"text": "a tale. " * 600, "<b>kind</b>": f"<i>{row % 3}</i>", "day": 1 + row % 30, "row": row}
        | {f"field{place}": f"value {place} of {row}" for place in range(36)}
        for row in range(300)
    ]
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 16)).astype(np.float32)
    vectors[:6] = vectors[0] + 1e-3 * rng.normal(size=(6, 16))
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), keep_vectors="float32").fit(vectors)
    ids = [f"row {row}" for row in range(300)]
    return clients(OwnCollection(search.add(vectors, ids, payloads), None, None, "payloads", []))


def test_every_field_can_be_shown_and_an_item_shows_all_of_its_own(payloads_of_all_kinds):
    assert "value 35 of 299<" in payloads_of_all_kinds.get("/?show=field35&words=299").text
    own = payloads_of_all_kinds.get("/?id=row+7").text.partition('class="asked"')[2].partition('class="tools"')[0]
    assert "Its 39 fields" in own
    assert "value 35 of 7<" in own
    assert "<b>kind" not in own


def test_a_long_text_is_there_to_its_end_where_one_looks_at_its_item(payloads_of_all_kinds):
    own = payloads_of_all_kinds.get("/?id=row+7").text.partition('class="asked"')[2].partition('class="tools"')[0]
    assert own.count("a tale.") == 600


def test_bars_of_whole_numbers_hold_equally_many_different_ones(payloads_of_all_kinds):
    text = payloads_of_all_kinds.get("/").text
    bars = re.findall(
        r"<title>(\d+) to (\d+): (\d+)</title>", text.partition("<legend>day")[2].partition("</fieldset>")[0]
    )
    assert [int(count) for _, _, count in bars] == [20] * 15


def test_a_large_group_shows_some_of_its_items_and_picks_all(payloads_of_all_kinds, computed):
    group = computed(payloads_of_all_kinds, "/").text.partition('class="groups"')[2].partition("</p></li>")[0]
    assert "Pick all 6" in group
    assert group.count('class="item ') == 4
    assert group.count("data-id=") == 6


def test_views_that_need_an_item_offer_some(digits):
    for view in ("/page/inside", "/page/compare"):
        offered = re.findall(rf'class="example[^"]*" href="({view}\?id=\d+)"', digits.get(view).text)
        assert len(offered) == 8
        assert digits.get(offered[0]).status_code == 200


def test_a_basket_is_exported_with_its_tag(digits):
    answer = digits.post("/page/export", data={"ids": '["5", "7"]', "format": "csv", "tag": "odd ones"})
    assert answer.text.splitlines() == ["id,tag,label", f"5,odd ones,{Y[5]}", f"7,odd ones,{Y[7]}"]
    table = digits.post("/page/export", data={"ids": '["5", "7"]', "format": "parquet"})
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(io.BytesIO(table.content)).to_pydict() == {"id": [5, 7], "label": Y[[5, 7]].tolist()}
    for ids in ('["99999"]', "5", "[5]", "{", "", "[" * 100_000):
        assert digits.post("/page/export", data={"ids": ids}).status_code == 422


@pytest.mark.parametrize("path", ["/page/export", "/page/query"])
def test_forms_that_would_take_long_to_read_are_refused(digits, path):
    """Letter by letter, 16 million of them would hold up everybody."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for letters, status, told in (
        ("&" * 2_000_000, 422, "fields"),
        ("&" * 3_000_000, 413, "bytes"),
        ("a=&" * 201, 422, "fields"),
    ):
        answer = digits.post(path, content=letters, headers=kind)
        assert answer.status_code == status
        assert told in answer.json()["error"]["message"]
    both = {"ids": (None, '["5", "7"]'), "format": (None, "ids"), "vector": (None, "x" * 100_000)}
    answer = digits.post(path, files=both)
    assert (answer.text.split() == ["5", "7"]) if path == "/page/export" else (answer.status_code == 422)


def test_what_spreadsheets_would_run_is_a_text_in_an_exported_table(clients):
    texts = ["=cmd|' /C calc'!A0", "@SUM(1)", " =1+1", "+1-1", "\uff1d1+1", "-1.5", "a=b", ""]
    payloads = [{"=field": text, "number": -1, "id": "not the id"} for text in texts]
    search = SimilaritySearch(LSH(16, random_state=0), keep_vectors="float32").fit(X)
    client = clients(OwnCollection(search.add(X[: len(texts)], payloads=payloads), None, None, "texts", []))
    head, *rows = csv.reader(io.StringIO(client.get("/page/export?format=csv").text))
    assert head == ["id", "'=field", "number"]
    assert [row[1] for row in rows] == [*(f"'{text}" for text in texts[:5]), *texts[5:]]
    assert [(row[0], row[2]) for row in rows] == [(str(row), "-1") for row in range(len(texts))]
    table = pytest.importorskip("pyarrow.parquet").read_table(
        io.BytesIO(client.get("/page/export?format=parquet").content)
    )
    assert table.to_pydict()["=field"] == texts


def test_more_like_these_and_less_like_those(digits):
    zeros, ones = np.flatnonzero(Y == 0)[:3].tolist(), np.flatnonzero(Y == 1)[:3].tolist()
    more = "&".join(f"like={row}" for row in zeros)
    found = shown_numbers(digits.get(f"/?{more}"))
    assert (Y[found] == 0).mean() > 0.9
    assert not set(found) & set(zeros)
    answer = digits.get(f"/?{more}&" + "&".join(f"unlike={row}" for row in ones))
    search = digits.app.state.service.search
    assert shown_numbers(answer) == search.search(None, 30, like=zeros, unlike=ones).ids[:24].tolist()


def test_how_the_codes_see_it_is_the_order_of_the_codes(digits):
    answer = digits.get("/page/inside?id=7&k=20")
    codes = digits.app.state.service.search.hasher.transform(X)
    distances = hamming_distances(codes[7:8], codes, 32)[0]
    order = [row for row in np.argsort(distances, kind="stable").tolist() if row != 7][:20]
    assert [
        int(key) for key in re.findall(r'class="strip-name" href="/page/inside\?k=20&amp;id=(\d+)"', answer.text)
    ] == order
    assert shown_distances(answer) == distances[order].tolist()
    assert answer.text.count('class="strip"') == 21


def test_the_radius_counts_the_whole_collection(digits):
    answer = digits.get("/page/inside?id=7&radius=4")
    codes = digits.app.state.service.search.hasher.transform(X)
    within = int((hamming_distances(codes[7:8], codes, 32)[0] <= 4).sum()) - 1
    assert f"<strong data-radius-count>{within:,}</strong>" in answer.text


def test_a_pasted_vector_finds_the_item_it_is(digits):
    numbers = " ".join(map(str, X[3]))
    answer = digits.post("/page/query", data={"vector": numbers, "view": "/"})
    assert shown_numbers(answer)[0] == 3


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
        ("/page/inside?id=1&radius=33", "radius must be from 0 to 32, got 33"),
        ("/?id=1&layout=magic", "layout must be one of"),
        ("/?cluster=x", "cluster must be a number"),
        ("/?area=1,2", "area must be 3 to 200 corners"),
        ("/?min.label=x", "min.label must be a number"),
        ("/page/export?id=1&format=xls", "format must be one of"),
        ("/?like=1&like=99999", "there is no item"),
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


def test_inside_says_how_much_of_the_best_answer_the_codes_find(digits):
    answer = digits.get("/page/inside?id=7")
    codes = digits.app.state.service.search.hasher.transform(X)
    distances = hamming_distances(codes[7:8], codes, 32)[0]
    by_codes = [row for row in np.argsort(distances, kind="stable").tolist() if row != 7][:12]
    found = len(set(by_codes) & set(shown_numbers(digits.get("/?id=7"))[:12]))
    assert f'<strong class="recall">{found} of the 12</strong>' in answer.text


def test_quality_is_computed_in_the_background_and_kept(digits, computed):
    answer = computed(digits, "/page/quality?bit=5")
    assert 9 <= float(re.search(r"A search finds <strong>([\d.]+) of the 10</strong> true", answer.text)[1]) <= 10
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
    answer = texts.get("/?find=fox+in+the+snow")
    assert answer.url.params["text"] == "fox in the snow"
    titles = re.findall(r"<dt>title</dt><dd>(\w+)</dd>", answer.text)
    assert set(titles[:3]) == {"Fox", "Dog", "Wolf"}
    assert "<mark>fox</mark> runs through <mark>the</mark> <mark>snow</mark>" in answer.text
    assert texts.get("/?find=3").url.params["id"] == "3"  # an id that is there
    search, features = texts.app.state.service.search, texts.app.state.service.features
    for typed in ("fox in the snow", "shares fell", "bread"):
        expected = search.search(features.encode_texts([typed])[0], 10, text=typed).ids.tolist()
        assert shown_numbers(texts.get("/", params={"text": typed})) == [key for key in expected if key >= 0]


def test_a_text_is_compared_by_words_or_by_meaning_and_results_may_vary(texts):
    search, features = texts.app.state.service.search, texts.app.state.service.features
    vector = features.encode_texts(["fox in the snow"])[0]
    for options in ({"by": "words"}, {"by": "meaning"}, {"diversity": 0.7}, {"by": "meaning", "diversity": 1.0}):
        expected = search.search(vector, 10, text="fox in the snow", **options).ids.tolist()
        answer = texts.get("/", params={"text": "fox in the snow", **options})
        assert shown_numbers(answer) == [key for key in expected if key >= 0]
        chosen = re.findall(r'aria-current="true">([\w ]+)<', answer.text)
        assert {"words": "Words", "meaning": "Meaning"}.get(options.get("by"), "Words and meaning") in chosen
        assert ("Varied" in chosen) == ("diversity" in options)
    assert shown_numbers(texts.get("/?id=3&diversity=0.9")) != shown_numbers(texts.get("/?id=3"))
    for wrong, message in (
        ("text=a&by=sound", "by must be one of"),
        ("id=3&by=words", "by is for a text"),
        ("id=3&diversity=2", "diversity must be from 0 to 1"),
        ("id=3&diversity=x", "diversity must be from 0 to 1"),
    ):
        assert message in texts.get(f"/?{wrong}").text


def test_words_are_searched_where_there_is_no_encoder(clients):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), text_field="text").fit(X)
    search.add(X[:3], payloads=[{"text": "a red fox"}, {"text": "a grey wolf"}, {"text": "interest rates"}])
    client = clients(OwnCollection(search, None, None, "words only", []))
    assert shown_numbers(client.get("/?find=wolf")) == [1]
    assert "have no code" in client.get("/page/inside?text=wolf").text


def test_texts_of_others_are_shown_and_not_run(texts):
    answer = texts.get("/?id=9")
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
    assert len(shown_ids(client.get("/?id=digit+7"))) == 24
    assert "Only codes are kept here: the order is approximate" in client.get("/?id=digit+7").text
    assert "this search keeps none" in computed(client, "/page/quality").text
    assert "nobody can say how many" in client.get("/page/quality").text
    assert "keeps no vectors" in client.get("/page/compare?id=digit+7&with=lsh:16").text


def test_a_search_without_items_says_so(clients, computed):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(X)
    client = clients(OwnCollection(search, None, None, "empty", []))
    assert "There are no items yet" in client.get("/").text
    assert "there are no items yet" in computed(client, "/page/quality").text
    assert client.post("/page/query", data={"vector": " ".join(["1"] * 64)}).status_code == 200
    assert client.get("/page/random").status_code == 200
