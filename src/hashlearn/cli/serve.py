"""``hashlearn serve``."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: hashlearn serve search/ --port 8000"


def run(
    searches: Annotated[
        list[str],
        typer.Argument(
            metavar="SEARCH...",
            help="The folder of a saved search; several, or a folder of them; with --model, the URI of a store.",
        ),
    ],
    model: Annotated[str | None, typer.Option(help="The folder of the model that made the codes of a store.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What makes vectors of images or texts: a file of save_encoder, gist, or a model of fastembed. "
            "By default encoder.safetensors in the folder of the search, if it is there."
        ),
    ] = None,
    model_folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder with the files of the model of fastembed.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 127.0.0.1 is for this machine only.")] = "127.0.0.1",
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Name that clients use for this server, beside localhost; may be given several times."
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8000,
    api_key: Annotated[
        str | None, typer.Option(envvar="HASHLEARN_API_KEY", show_envvar=True, help="Key that clients send to read.")
    ] = None,
    write_key: Annotated[
        str | None,
        typer.Option(envvar="HASHLEARN_WRITE_KEY", show_envvar=True, help="Key that clients send to write or read."),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Megabytes of a request.")] = 16,
    max_batch: Annotated[int, typer.Option(min=1, help="Queries or points of a request.")] = 1000,
    max_k: Annotated[int, typer.Option("--max-k", min=1, help="Neighbors of a query.")] = 1000,
    max_candidates: Annotated[int, typer.Option(min=1, help="Candidates reranked for a query.")] = 10_000,
    max_concurrency: Annotated[int, typer.Option(min=1, help="Requests at one time.")] = 128,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds of a request.")] = 30.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that search; by default the cores.")] = None,
    refresh: Annotated[float, typer.Option(min=0.001, help="Seconds between checks for changes of others.")] = 2.0,
    max_open: Annotated[int, typer.Option(min=1, help="Searches open at one time, of several.")] = 64,
    idle: Annotated[
        float,
        typer.Option(min=0.001, help="With several searches: close one after this many seconds without a request."),
    ] = 300.0,
    snapshots: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Folder for snapshots; clients with the key to write make them."),
    ] = None,
    reuse_port: Annotated[
        bool, typer.Option("--reuse-port", help="Share the port with an older server; listen when warm.")
    ] = False,
    recall_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the queries whose recall is measured, beside the requests.")
    ] = 0.01,
    page: Annotated[bool, typer.Option(help="Also a page for people, at /.")] = True,
) -> None:
    """Serve saved searches over HTTP."""
    from hashlearn.model import load
    from hashlearn.search import SimilaritySearch
    from hashlearn.server import Settings, create_app
    from hashlearn.server.features import configured_features
    from hashlearn.server.page import add_page
    from hashlearn.server.run import run_server

    settings = Settings(
        api_key=api_key,
        write_key=write_key,
        max_body_bytes=max_body * 1024 * 1024,
        max_batch=max_batch,
        max_k=max_k,
        max_candidates=max_candidates,
        max_concurrency=max_concurrency,
        timeout_seconds=timeout,
        threads=threads,
        refresh_seconds=refresh,
        host=host,
        host_names=tuple(host_name or ()),
        max_open=max_open,
        idle_seconds=idle,
        snapshots=snapshots,
        recall_share=recall_share,
    )
    if len(searches) > 1 or _is_folder_of_searches(searches[0]):
        if model is not None or encoder is not None or model_folder is not None:
            raise ValueError("--model, --encoder and --model-folder are for a single search")
        run_server(create_app(searches, settings), host, port, reuse_port=reuse_port)
        return
    (search,) = searches
    served = SimilaritySearch.open(search) if model is None else SimilaritySearch(load(model), store=search)
    features = configured_features(search, served.hasher.n_features_in_, encoder, model_folder)
    name = Path(search).resolve().name if model is None else "search"
    app = create_app(served, settings, features, name)
    if page:
        add_page(app, title=Path(search).resolve().name)
    if reuse_port:
        app.state.service.warm()  # until this server listens, the older server on the port answers
    run_server(app, host, port, reuse_port=reuse_port)


def _is_folder_of_searches(place: str) -> bool:
    from hashlearn.search.folder import SearchFolder

    folder = Path(place)
    return folder.is_dir() and not SearchFolder(folder).is_search and any(map(_is_search, folder.iterdir()))


def _is_search(folder: Path) -> bool:
    from hashlearn.search.folder import SearchFolder

    return SearchFolder(folder).is_search
