"""A program: asks a server that is ready once for everything, and prints what was compiled or loaded meanwhile."""

import gc
import sys
import time

from numba.core.dispatcher import Dispatcher


def kernels() -> set[tuple[int, str, str]]:
    """Every compiled function, with the types that it was compiled for."""
    # By their types: isinstance raises for a proxy of an object that is gone.
    functions = [thing for thing in gc.get_objects() if issubclass(type(thing), Dispatcher)]
    return {(id(function), function.__name__, str(types)) for function in functions for types in function.signatures}


def main() -> None:
    from fastapi.testclient import TestClient

    from hashlearn import SimilaritySearch
    from hashlearn.server import create_app

    search, new_id = SimilaritySearch.open(sys.argv[1]), sys.argv[2]
    if not new_id.isdecimal():  # all ids of a search are of one kind
        records = search.get(search.ids)
        strings = SimilaritySearch(search.hasher, keep_vectors=search.keep_vectors)
        strings.add([record.vector for record in records], [f"row {record.id}" for record in records])
        strings.save(sys.argv[1] + "-strings")
        search = SimilaritySearch.open(sys.argv[1] + "-strings")
    written = int(new_id) if new_id.isdecimal() else new_id
    vector = [1.0] * 64
    with TestClient(create_app(search), base_url="http://localhost") as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        before = kernels()
        query = {"vector": vector}
        answers = [
            client.post("/v1/search", json=query),
            *(client.post("/v1/search", json={**query, "rerank": order}) for order in ("codes", "asymmetric")),
            client.post("/v1/search", json={**query, "filter": {"label": 3}}),
            client.post("/v1/search", json={"code": [1, 2, 3, 4]}),
            client.put("/v1/points", json={"points": [{"id": written, "vector": vector}]}),
            client.put("/v1/points", json={"points": [{"id": written, "vector": vector}]}),
            client.post("/v1/search", json={"id": written}),
            client.delete(f"/v1/points/{new_id}"),
            client.post("/v1/codes", json={"vectors": [vector]}),
        ]
        print(sum(answer.is_success for answer in answers), "requests answered")
        print("compiled:", sorted(name for _, name, _ in kernels() - before))


if __name__ == "__main__":
    main()
