"""The searches of a server by name: one that is always open, or several that are opened at their first request."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from hashlearn.search import SimilaritySearch
from hashlearn.search.folder import SearchFolder
from hashlearn.server.batching import take_over
from hashlearn.server.errors import Problem
from hashlearn.server.features import configured_features
from hashlearn.server.service import Service
from hashlearn.server.telemetry import LOGGER, log_event
from hashlearn.server.workers import Workers

RESERVED = frozenset({"search", "searches", "points", "codes", "embeddings", "info", "models", "snapshots"})
"""Second parts of the API's paths; no search of several may have one of them as its name."""


class SearchPlace:
    """A search, open or closed."""

    def __init__(self, name: str, opened: Callable[[], Service], folder: Path | None = None):
        self.name, self.opened, self.folder = name, opened, folder
        self.service: Service | None = None
        self.n_users = 0
        self.last_used = 0.0
        self.changing = asyncio.Lock()


class Searches:
    """The searches of a server.

    Parameters
    ----------
    workers : Workers
    folders : paths
        Folders of searches, or folders of such folders. A search that is added to the latter while the server runs is
        found when it is requested.
    """

    def __init__(self, workers: Workers, folders: Iterable[str | Path] = ()):
        self.workers = workers
        self.only: Service | None = None
        self._places: dict[str, SearchPlace] = {}
        self._above: list[Path] = []
        for folder in map(Path, folders):
            if SearchFolder(folder).is_search:
                self._add(folder.resolve())
            elif folder.is_dir():
                self._above.append(folder.resolve())
            else:
                raise ValueError(f"SEARCH must be the folder of a search, or a folder of such folders, got {folder}")
        self._look_again()

    @classmethod
    def of_one(cls, service: Service) -> "Searches":
        """One search, which stays open."""
        searches = cls(service.workers)
        searches.only = service
        place = searches._places[service.name] = SearchPlace(service.name, lambda: service)
        place.service = service
        place.n_users = 1
        return searches

    @property
    def names(self) -> list[str]:
        """All names, ascending."""
        return sorted(self._places)

    def open_services(self) -> list[Service]:
        """The open searches."""
        return [place.service for place in self._places.values() if place.service is not None]

    def listed(self) -> list[dict[str, Any]]:
        """Name and number of rows of each search; None as the number of a closed one."""
        self._look_again()
        found = []
        for name in self.names:
            service = self._places[name].service
            found.append({"name": name, "open": service is not None, "rows": service and len(service.search)})
        return found

    @asynccontextmanager
    async def using(self, name: str | None) -> AsyncIterator[Service]:
        """A search that stays open while the block runs; None for the only one."""
        place = self._find(name)
        place.n_users += 1
        try:
            async with place.changing:
                if place.service is None:
                    place.service = await self.workers.run(self._opened, place)
                    log_event("opened", search=place.name, rows=len(place.service.search))
            await self._close_some(self.workers.settings.max_open)
            yield place.service
        finally:
            place.n_users -= 1
            place.last_used = time.monotonic()

    async def follow(self) -> None:
        """In a loop: read the changes of other processes, and close searches without requests."""
        settings = self.workers.settings
        seconds = min(settings.refresh_seconds or settings.idle_seconds, settings.idle_seconds)
        loop = asyncio.get_running_loop()
        while settings.refresh_seconds is not None or self.only is None:
            await asyncio.sleep(seconds)
            if settings.refresh_seconds is not None:
                for place in list(self._places.values()):
                    if place.service is not None:
                        place.n_users += 1  # it is not closed meanwhile
                        try:
                            await loop.run_in_executor(self.workers.writing, take_over, place.service.search)
                        finally:
                            place.n_users -= 1
            idle = time.monotonic() - settings.idle_seconds
            for place in list(self._places.values()):
                if place.last_used < idle:
                    await self._close(place)

    async def _close_some(self, most: int) -> None:
        """If too many searches are open, close the ones that were not used for the longest time."""
        is_open = [place for place in self._places.values() if place.service is not None]
        idle = sorted((place for place in is_open if not place.n_users), key=lambda place: place.last_used)
        for place in idle[: max(0, len(is_open) - most)]:
            await self._close(place)

    async def _close(self, place: SearchPlace) -> None:
        if place.n_users or place.changing.locked():
            return
        async with place.changing:
            service, place.service = place.service, None
            if service is not None:
                await asyncio.to_thread(service.close)
                log_event("closed", search=place.name)

    def _find(self, name: str | None) -> SearchPlace:
        if name is None:
            if self.only is None:
                raise Problem(404, "this server has several searches: /v1/NAME/...; GET /v1/searches lists them")
            return self._places[self.only.name]
        self._look_for(name)
        if name not in self._places:
            raise _no_such(name)
        return self._places[name]

    def _look_again(self) -> None:
        """Register new folders, and forget removed ones."""
        for place in list(self._places.values()):
            if place.service is None and _is_gone(place):
                del self._places[place.name]
        for above in self._above:
            with suppress(OSError):
                for name in sorted(folder.name for folder in above.iterdir()):
                    self._look_for(name)

    def _look_for(self, name: str) -> None:
        """Register a new folder with this name. The name comes from a client and may be anything."""
        if name in self._places or name in RESERVED or name in (".", "..") or "/" in name or "\0" in name:
            return
        for above in self._above:
            with suppress(OSError):  # a name may be too long
                if SearchFolder(above / name).is_search:
                    self._add(above / name)
                    return

    def _add(self, folder: Path) -> None:
        name = folder.name
        if name in self._places or name in RESERVED:
            reason = "is there twice" if name in self._places else "is the name of a part of the API"
            raise ValueError(f"SEARCH must be folders of different names, got {folder}: {name!r} {reason}")
        self._places[name] = SearchPlace(name, lambda: _service_of(folder, self.workers), folder)

    def _opened(self, place: SearchPlace) -> Service:
        try:
            return place.opened()
        except (OSError, ValueError) as error:
            if _is_gone(place):
                raise _no_such(place.name) from None
            LOGGER.error("a search could not be opened", exc_info=error)
            raise Problem(503, f"the search {place.name!r} cannot be opened; the log of the server has more") from None


def _is_gone(place: SearchPlace) -> bool:
    return place.folder is not None and not SearchFolder(place.folder).is_search


def _no_such(name: str) -> Problem:
    return Problem(404, f"there is no search {name[:100]!r}", "search_name")


def _service_of(folder: Path, workers: Workers) -> Service:
    search = SimilaritySearch.open(folder)
    features = configured_features(str(folder), search.hasher.n_features_in_, None, None)
    return Service(search, workers, features, folder.name)
