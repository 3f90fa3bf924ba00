"""The page: a map of the collection, results, filters, the codes from inside, and comparisons of methods."""

from collections.abc import Sequence

from fastapi import FastAPI

from hashlearn.server.page.collection import Collection
from hashlearn.server.page.pictures import ArrayPictures, FolderPictures, Pictures
from hashlearn.server.page.routes import add_routes
from hashlearn.server.page.views import FEW_ITEMS, Views

__all__ = ["ArrayPictures", "FolderPictures", "Pictures", "add_page"]


def add_page(
    app: FastAPI, *, title: str = "hashlearn", pictures: Pictures | None = None, notes: Sequence[str] = ()
) -> None:
    """Serve the page with an application.

    Parameters
    ----------
    app : FastAPI
        The result of :func:`~hashlearn.server.create_app`.
    title : str
        The name of the collection.
    pictures : Pictures or None
        The pictures of its items.
    notes : list of str
        Remarks about the collection, such as skipped files.
    """
    service = app.state.service
    takes = getattr(service.features, "kind", None) or (None if service.search.text_field is None else "text")
    views = Views(Collection(service.search, title, pictures, notes), service.features, takes, service.watch)
    if len(service.search) > FEW_ITEMS:
        views.filters_job()  # begins here, while the search warms up
    service.before_ready.append(views.map)
    add_routes(app, views)
