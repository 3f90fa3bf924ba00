"""The page over HTTP, with digits, texts and vectors without pictures."""

import time
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from hashlearn.server import create_app
from hashlearn.server.features import EncoderFeatures
from hashlearn.server.own_collection import HowToHash, digits_collection, texts_collection
from hashlearn.server.page import add_page

TEXTS = """title,plot
Fox,"A red fox runs through the snow, hunting"
Dog,"A brown dog runs through the snow"
Wolf,"A grey wolf hunts in the snow with other wolves"
Bank,Shares of the bank fell as interest rates rose
Rates,Interest rates rose again and shares fell
Gold,The price of gold rose while shares fell
Soup,Cook the onions slowly and add the broth
Bread,Knead the dough and bake the bread slowly
Stew,Cook the meat slowly with onions and broth
Cake,"Bake the cake; do not knead the dough <script>alert(1)</script>"
"""


@pytest.fixture(scope="session")
def clients(tmp_path_factory):
    """Makes a client of the page for a collection."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HASHLEARN_CACHE", str(tmp_path_factory.mktemp("cache")))

        def client_of(made):
            app = create_app(made.search, features=None if made.encoder is None else EncoderFeatures(made.encoder))
            add_page(app, title=made.title, pictures=made.pictures)
            client = stack.enter_context(TestClient(app, base_url="http://localhost"))
            deadline = time.monotonic() + 120
            while client.get("/readyz").status_code != 200 and time.monotonic() < deadline:
                time.sleep(0.05)
            return client

        yield client_of


@pytest.fixture(scope="session")
def digits(clients):
    return clients(digits_collection(HowToHash(n_bits=32)))


@pytest.fixture(scope="session")
def texts(clients, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "stories.csv"
    path.write_text(TEXTS, encoding="utf-8")
    return clients(texts_collection(path, "plot", HowToHash("lsh", 32)))


@pytest.fixture
def computed():
    """Ask for an address until its work is done."""

    def computed(client, address):
        deadline = time.monotonic() + 60
        while "data-job" in (answer := client.get(address)).text and time.monotonic() < deadline:
            time.sleep(0.05)
        return answer

    return computed
