"""A client of a server answers as the search itself does, and makes a request again that went wrong on its way."""

import asyncio
import http.server
import json
import re
import socket
import socketserver
import threading

import httpx
import numpy as np
import pandas as pd
import pytest
from input_forms import STRINGS, VECTORS
from served import Server

from hashlearn import ITQ, AsyncClient, Client, SimilaritySearch
from hashlearn.adapters.documents import DocumentSearch
from hashlearn.client import ServedInfo, ServiceError


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client") / "search"
    search = SimilaritySearch(ITQ(n_bits=16, random_state=0), keep_vectors="float32").fit(rows(500))
    ids = [f"row {row}" for row in range(300)]
    search.add(rows(300, 1), ids, [{"color": ["red", "blue", "green"][row % 3]} for row in range(300)]).save(folder)
    return folder


@pytest.fixture(scope="module")
def library(folder):
    return SimilaritySearch.open(folder)


@pytest.fixture(scope="module")
def server(folder):
    with Server(folder, "--max-batch", 20, "--api-key", "read", "--write-key", "write") as server:
        yield server.ready()


@pytest.fixture
def client(server):
    with Client(server.url, "write") as client:
        yield client


SEARCHES = [
    {},
    {"k": 3, "filter": {"color": "red"}},
    {"k": 5, "rerank": "codes"},
    {"k": 4, "subset": ["row 7", "row 70", "row 9"]},
    {"k": 2, "candidates": 50},
    {"k": 3, "recall": 1.0},
]


@pytest.mark.parametrize("options", SEARCHES, ids=lambda options: " ".join(options) or "plain")
def test_a_search_is_that_of_the_library(client, library, options):
    queries = rows(50, 2)  # more than the server takes at once
    ours, theirs = client.search(queries, **options), library.search(queries, **options)
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    np.testing.assert_allclose(ours.distances, theirs.distances, rtol=1e-6)
    assert ours.distances.dtype == theirs.distances.dtype
    assert ours.recall == getattr(theirs, "recall", None)
    one = client.search(queries[0], **options)
    np.testing.assert_array_equal(one.ids, theirs.ids[0])
    assert one.recall == ours.recall


def test_filters_take_numbers_of_numpy_and_dates(client):
    assert client.count({"color": {"$in": np.array(["red", "blue"])}}) == 200
    assert client.count({"color": {"$ne": np.datetime64("2024-02-29")}}) == 300
    assert client.search(rows(1, 4), 3, filter={"color": np.str_("red")}).ids.shape == (1, 3)
    with pytest.raises(ValueError, match="filter must test"):
        client.count({"color": {"$like": np.int64(3)}})


def test_texts_and_rows_to_be_like_are_asked_as_in_the_library(tmp_path):
    texts = ["a red fox", "a red dog", "the blue sky", "the blue sea", "green grass and a fox"]
    library = SimilaritySearch(ITQ(4, random_state=0), encoder="tfidf", metric="cosine", keep_vectors="float32")
    library.fit(texts=texts).add(texts=texts, ids=list("abcde")).save(tmp_path / "s")
    with Server(tmp_path / "s").ready() as server, Client(server.url) as client:
        for options in (
            {"text": "fox"},
            {"text": ["fox", "blue sea"], "by": "words"},
            {"text": "+fox -red", "by": "words", "operators": True, "include": ["payload"]},
            {"text": "red fox", "weights": {"words": 1, "meaning": 3}},
            {"like": ["a", "b"], "unlike": "c"},
            {"like": "a", "diversity": 0.5},
            {"text": "red", "diversity": 1.0},
        ):
            ours, theirs = client.search(k=4, **options), library.search(k=4, **options)
            np.testing.assert_array_equal(ours.ids, theirs.ids)
            np.testing.assert_allclose(ours.distances, theirs.distances, rtol=1e-5, atol=1e-6)
            assert ours.payloads == theirs.payloads
            if "text" in options:
                for name, part in theirs.parts.items():
                    np.testing.assert_allclose(ours.parts[name], part, rtol=1e-5)
        for wrong, message in (({}, "got none"), ({"X": np.zeros(16), "text": "a"}, "got X and text")):
            with pytest.raises(ValueError, match=message):
                client.search(**wrong)
        with pytest.raises(ValueError, match="by is for a text"):
            client.search(np.zeros(library.hasher.n_features_in_), by="words")


def test_what_else_is_known_of_neighbors_comes_with_them(client, library):
    queries = rows(3, 3)
    ours = client.search(queries, 4, include=["payload", "vector"])
    theirs = library.search(queries, 4, include=["payload", "vector"])
    assert ours.payloads == theirs.payloads
    np.testing.assert_array_equal(ours.vectors, theirs.vectors)


def test_reading_is_that_of_the_library(client, library):
    assert len(client) == len(library)
    assert client.count({"color": "blue"}) == library.count({"color": "blue"})
    assert client.facets("color") == library.facets("color")
    assert client.ids.tolist() == library.ids.tolist()
    assert (client.metric, client.n_bits, client.keep_vectors) == (library.metric, library.n_bits, "float32")
    ours, theirs = client.scroll({"color": "green"}, limit=7), library.scroll({"color": "green"}, limit=7)
    assert [record.id for record in ours.records] == [record.id for record in theirs.records]
    assert client.scroll({"color": "green"}, 7, ours.after).records[0].id == "row 23"
    asked = ["row 5", "nobody", "row 1"]
    for ours, theirs in zip(client.get(asked), library.get(asked), strict=True):
        assert (ours.id, ours.payload) == (theirs.id, theirs.payload)
        np.testing.assert_array_equal(ours.code, theirs.code)
        np.testing.assert_array_equal(ours.vector, theirs.vector)
    assert client.payloads(asked) == library.payloads(asked)


@pytest.mark.parametrize("form", ["sparse", "pyarrow in pieces", "pandas Series of arrays", "a tensor of bfloat16"])
def test_vectors_ids_and_payloads_in_other_forms(client, library, form):
    queries = np.round(rows(9, 5) * 8).astype(np.float32) / 8
    np.testing.assert_array_equal(client.search(VECTORS[form](queries), 3).ids, library.search(queries, 3).ids)
    ids = STRINGS["pyarrow in pieces"]([f"form {row}" for row in range(9)])
    client.upsert(VECTORS[form](queries), ids, pd.DataFrame({"n": np.arange(9), "x": [0.5, *[np.nan] * 8]}))
    np.testing.assert_array_equal(client.get(["form 3"])[0].vector, queries[3])
    assert client.payloads(ids)[:2] == [{"n": 0, "x": 0.5}, {"n": 1, "x": None}]
    client.remove(ids)


def test_rows_are_written_and_removed(client):
    ids = [f"new {row}" for row in range(45)]
    client.upsert(rows(45, 4), ids, [{"color": "new"}] * 45)
    assert client.count({"color": "new"}) == 45
    assert "new 3" in client
    with pytest.raises(ValueError, match="nobody"):
        client.remove(["new 3", "nobody"])
    assert "new 3" in client
    for start in range(0, 45, 20):
        client.remove(ids[start : start + 20])
    assert client.count({"color": "new"}) == 0
    with pytest.raises(ValueError, match="45 rows"):
        client.upsert(rows(45), ids[:3])


def test_numbers_of_numpy_are_numbers(client, library):
    options = {"k": np.int64(3), "recall": np.float32(1.0)}
    ours, theirs = client.search(rows(2), **options), library.search(rows(2), **options)
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    assert client.count({"$or": [{"color": "red"}, {"number": {"$in": [np.int64(7)]}}]}) == 100


@pytest.mark.parametrize("id", [7, 2**70, -1, 1.5, None, True, "no such row"], ids=repr)
def test_what_can_be_no_id_is_not_in_a_search(client, library, id):
    assert id not in library
    assert id not in client


def test_errors_are_those_of_the_library(server, client):
    with pytest.raises(ValueError, match="include must be one of"):
        client.search(rows(1), include=["distance"])
    with pytest.raises(TypeError, match="JSON can say, got set"):
        client.count({"color": {"$in": {1}}})
    with pytest.raises(ValueError, match="filter must"):
        client.count({"color": {"$near": 1}})
    with pytest.raises(ValueError, match="16 numbers"):
        client.search(np.zeros((1, 3)))
    with Client(server.url, "read") as reader, pytest.raises(PermissionError, match="reading"):
        reader.upsert(rows(1), ["row 0"])
    with Client(server.url) as stranger, pytest.raises(PermissionError, match="key"):
        stranger.count()
    with Client("http://127.0.0.1:9", retries=1) as nobody, pytest.raises(ServiceError, match="reached"):
        nobody.count()


def test_the_asynchronous_client_says_the_same(server, library):
    async def ask():
        async with AsyncClient(server.url, "write") as client:
            await client.upsert(rows(2, 5), ["a", "b"], [{"by": "async"}] * 2)
            found = await asyncio.gather(*(client.search(rows(30, seed), 3) for seed in range(4)))
            counted, got = await client.count({"by": "async"}), await client.get(["a"])
            facets, page = await client.facets("by"), await client.scroll({"by": "async"}, 1)
            await client.remove(["a", "b"])
            return found, counted, got, facets, page

    found, counted, got, facets, page = asyncio.run(ask())
    assert (counted, len(got), len(page.records)) == (2, 1, 1)
    assert [tuple(facet) for facet in facets] == [("async", 2)]
    for seed, each in enumerate(found):
        expected = library.search(rows(30, seed), 3)
        is_own = ~np.isin(each.ids.astype(str), ["a", "b"])
        assert (is_own.all() and (each.ids == expected.ids).all()) or not is_own.all()


def test_adapters_work_over_a_client(client, library):
    documents, own = DocumentSearch(client), DocumentSearch(library)
    assert documents.nearest(rows(1, 6)[0], 4) == own.nearest(rows(1, 6)[0], 4)
    documents.put(["doc"], rows(1, 7), [{"text": "a text"}])
    assert documents.payloads(["doc"]) == {"doc": {"text": "a text"}}
    assert documents.remove(["doc", "other"]) == 1


def test_langchain_works_over_a_client(client):
    langchain = pytest.importorskip("hashlearn.adapters.langchain")
    documents = pytest.importorskip("langchain_core.documents")
    embeddings = pytest.importorskip("langchain_core.embeddings")
    store = langchain.LangChainVectorStore(embeddings.DeterministicFakeEmbedding(size=16), client)
    written = [documents.Document(id=f"lc {row}", page_content=f"text {row}", metadata={"n": row}) for row in range(30)]
    store.add_documents(written)
    assert store.similarity_search("text 7", 3)[0].page_content == "text 7"
    assert store.similarity_search("text 7", 1, filter={"n": {"$gt": 20}})[0].metadata["n"] > 20
    assert [each.page_content for each in store.get_by_ids(["lc 3"])] == ["text 3"]
    store.delete([each.id for each in written])
    assert store.get_by_ids(["lc 3"]) == []


def test_llama_index_works_over_a_client(client):
    llama_index = pytest.importorskip("hashlearn.adapters.llama_index")
    schema = pytest.importorskip("llama_index.core.schema")
    stores = pytest.importorskip("llama_index.core.vector_stores.types")
    store = llama_index.LlamaIndexVectorStore(client)
    X = rows(30, 8)
    nodes = [schema.TextNode(id_=f"li {row}", text=f"text {row}", embedding=X[row].tolist()) for row in range(30)]
    store.add(nodes)
    found = store.query(stores.VectorStoreQuery(query_embedding=X[7].tolist(), similarity_top_k=1))
    assert (found.ids[0], found.nodes[0].text) == ("li 7", "text 7")
    store.delete_nodes([node.node_id for node in nodes])
    assert "li 7" not in client


def test_haystack_works_over_a_client(client):
    adapter = pytest.importorskip("hashlearn.adapters.haystack")
    haystack = pytest.importorskip("haystack")
    store, X = adapter.HaystackDocumentStore(client, embedding_dim=16), rows(30, 9)
    documents = [
        haystack.Document(id=f"hs {row}", content=f"text {row}", embedding=X[row].tolist(), meta={"n": row})
        for row in range(30)
    ]
    n_before = store.count_documents()
    assert store.write_documents(documents) == 30
    assert store.count_documents() == n_before + 30
    assert store.embedding_retrieval(X[7].tolist(), top_k=1)[0].content == "text 7"
    few = {"field": "meta.n", "operator": ">", "value": 27}
    assert {each.id for each in store.filter_documents(few)} == {"hs 28", "hs 29"}
    store.delete_documents([each.id for each in documents])
    assert store.count_documents() == n_before


class Flaky(http.server.BaseHTTPRequestHandler):
    """Fails in a way each time it is asked, and then answers; keeps what it was asked."""

    def do_GET(self):
        limits, known = {"max_batch": 100}, dict.fromkeys(ServedInfo._fields)
        self._answer(200, {**known, "limits": limits})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        status = self.server.statuses.pop(0)
        if status is None:  # the connection breaks
            self.connection.close()
            return
        self._answer(status, {"count": 7} if status == 200 else {"error": {"field": None, "message": "wait"}})

    def _answer(self, status, told):
        content = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def flaky():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky) as server:
        server.asked, server.statuses = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.url = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()


def test_a_request_that_goes_wrong_on_its_way_is_made_again(flaky):
    flaky.statuses = [503, None, 504, 200]
    with Client(flaky.url) as client:
        assert client.count() == 7
    assert len(flaky.asked) == 4
    flaky.statuses = [503, 503]
    with Client(flaky.url, retries=1) as client, pytest.raises(ServiceError, match="wait") as error:
        client.count()
    assert error.value.status == 503
    flaky.statuses = [422, 200]
    with Client(flaky.url) as client, pytest.raises(ValueError, match="wait"):
        client.count()


def test_a_removal_that_may_have_been_made_does_not_insist(flaky):
    """The server was killed after it had removed the row, and the next one knows of no first request."""
    flaky.statuses = [None, 422, 200]
    with Client(flaky.url) as client:
        client.remove([1])
    assert [body.get("must_exist", False) for body in flaky.asked] == [True, True, False]
    flaky.statuses = [422]
    with Client(flaky.url) as client, pytest.raises(ValueError, match="wait"):
        client.remove([1])


class Loser(socketserver.StreamRequestHandler):
    """Hands requests to a server, and the first answers to nobody."""

    def handle(self):
        request = b""
        while b"\r\n\r\n" not in request or len(request.partition(b"\r\n\r\n")[2]) < _length(request):
            request += self.connection.recv(65536)
        with socket.create_connection(self.server.behind) as connection:
            connection.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        if request.startswith(b"GET") or self.server.n_lost == 0:
            self.wfile.write(answer)
        else:
            self.server.n_lost -= 1
            self.server.lost()


def _length(request):
    found = re.search(rb"(?i)content-length: (\d+)", request)
    return int(found[1]) if found else 0


@pytest.fixture
def losing(server):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Loser) as between:
        host, port = server.url.removeprefix("http://").split(":")
        between.behind, between.n_lost, between.lost = (host, int(port)), 0, lambda: None
        threading.Thread(target=between.serve_forever, daemon=True).start()
        between.url = f"http://127.0.0.1:{between.server_address[1]}"
        yield between
        between.shutdown()


def test_a_write_whose_answer_was_lost_is_not_made_twice(server, losing):
    """Another client writes the row before the first one asks again: what it wrote stays."""
    X, ids = rows(2), ["lost"]
    with Client(server.url, "write") as other, Client(losing.url, "write") as client:
        losing.n_lost, losing.lost = 2, lambda: other.upsert(X[1:], ids, [{"by": "other"}])
        client.upsert(X[:1], ids, [{"by": "client"}])
        assert other.payloads(ids) == [{"by": "other"}]
        losing.n_lost = 2
        client.remove(ids)
        assert other.payloads(ids) == [{"by": "other"}]
        client.remove(ids)
        assert "lost" not in other


def test_the_key_of_a_write_is_for_one_write(server):
    points = [{"id": id, "vector": [0.0] * 16} for id in ("once", "other")]
    headers = {"Authorization": "Bearer write"}
    with httpx.Client(base_url=server.url, headers={**headers, "Idempotency-Key": "one"}) as client:
        assert client.put("/v1/points", json={"points": [{**points[0], "x": 1}]}).status_code == 422  # was not made
        for _ in range(2):
            assert client.put("/v1/points", json={"points": points[:1]}).json() == {"written": 1}
        for answer in (client.put("/v1/points", json={"points": points[1:]}), client.delete("/v1/points/once")):
            assert answer.status_code == 422
            assert answer.json()["error"]["field"] == "Idempotency-Key"
        found = client.post("/v1/points/get", json={"ids": ["once", "other"]}).json()["points"]
        assert [point["id"] for point in found] == ["once"]
        for key in ("", "x" * 256):
            assert client.delete("/v1/points/once", headers={"Idempotency-Key": key}).status_code == 422
    assert httpx.delete(f"{server.url}/v1/points/once", headers=headers).status_code == 204
