"""The views of the page: from an address to HTML."""

import re
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from hashlearn.codes import unpack
from hashlearn.explore import SIDE, CollectionMap, cluster_color, kept_map, map_of
from hashlearn.hashers.registry import METHODS as HASHERS
from hashlearn.html import render
from hashlearn.server.features import Features
from hashlearn.server.page import charts, compare, quality, ranking
from hashlearn.server.page.collection import Collection, Item
from hashlearn.server.page.facets import Fields
from hashlearn.server.page.having_words import ItemWords
from hashlearn.server.page.jobs import Job, Jobs
from hashlearn.server.page.queries import PageQuery, PostedQueries, query_of
from hashlearn.server.page.scope import Scope, scope_of
from hashlearn.server.page.statistics import distance_counts
from hashlearn.server.watch import Watch

VIEWS = {
    "/": "Explore",
    "/page/inside": "How the codes see it",
    "/page/quality": "Quality",
    "/page/compare": "Compare",
}
K, MOST_K = 12, 100
N_OF_A_PAGE = ranking.FIRST
N_EXAMPLES = 8
LAYOUTS = ("grid", "list")
QUALITY_JOB, MAP_JOB, FILTERS_JOB = "quality", "map", "filters"
FEW_ITEMS = 50_000
"""Largest collection in which the values of payload fields are counted while somebody waits."""
_ANSWERS_KEPT = 64


class PageState(NamedTuple):
    """The contents of an address.

    Attributes
    ----------
    query : PageQuery or None
    scope : Scope
    k, radius : int, and int or None
        For the views of the codes.
    layout : "grid" or "list"
    fields : list of str or None
        The payload fields that are shown; None if none were chosen.
    """

    query: PageQuery | None
    scope: Scope
    k: int = K
    radius: int | None = None
    layout: str = "grid"
    fields: list[str] | None = None

    @property
    def looks(self) -> dict[str, Any]:
        """The parameters for how items are shown. They stay in the address when the filters are cleared."""
        return {
            "k": self.k if self.k != K else None,
            "layout": self.layout if self.layout != "grid" else None,
            "show": self.fields,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters that stay in the address when the query changes."""
        return {**self.scope.parameters, **self.looks}

    @property
    def state(self) -> dict[str, Any]:
        """All parameters."""
        return {**({} if self.query is None else self.query.parameters), **self.settings}


NOTHING_ASKED = PageState(None, Scope({}, {}))


class ListedItem(NamedTuple):
    """An item in a list, with its nearness and distance if there is a query."""

    item: Item
    nearness: Markup | str = ""


class Views:
    """The data of the views.

    Parameters
    ----------
    collection : Collection
    features : Features or None
    takes : "image", "text" or None
        The input of the features.
    watch : Watch
        Measures the recall of queries and the drift of new rows.
    """

    def __init__(self, collection: Collection, features: Features | None, takes: str | None, watch: Watch):
        self.collection, self.features, self.takes, self.watch = collection, features, takes, watch
        self.posted = PostedQueries()
        self.jobs = Jobs()
        self.fields = Fields(collection)
        self.words = ItemWords(collection)
        self._answers: OrderedDict[str, tuple[Any, list[tuple[Any, float]]]] = OrderedDict()
        self._map: tuple[Any, CollectionMap] | None = None
        self._lock = threading.Lock()

    # -- the views --------------------------------------------------------------------------------------------------

    def explore(self, parameters: Any) -> str:
        """The first view: the map with its clusters, and some items or the results of a query."""
        asked = self._asked(parameters)
        if asked.query is not None:
            return self._results(asked)
        if asked.scope:
            return self._browsed(asked)
        return self._home(asked)

    def more(self, parameters: Any) -> str:
        """The next items of a list, as part of a page."""
        asked = self._asked(parameters)
        first = _integer(parameters.get("from"), "from", 0, 0, 10_000_000)
        items, after = self._page(asked, first)
        return render("server/more.html", items=items, first=first, after=after, asked=asked, words=self._words(asked))

    def trust(self, parameters: Any) -> str:
        """The sentence that says how many of the true neighbors are among the results."""
        asked = self._asked(parameters)
        found = None if asked.query is None else self._trust(asked)
        return render("server/trust.html", trust=found)

    def inside(self, parameters: Any) -> str:
        """The view of the codes: bits, distances, and results by codes beside results by vectors."""
        asked = self._asked(parameters)
        query = asked.query
        if query is None:
            return self._render("inside.html", "/page/inside", asked, found=None, examples=self._examples())
        collection = self.collection
        code = ranking.code_of(query)
        pairs = ranking.by_codes(collection, query, asked.k)
        counts = distance_counts(collection.codes(), code, collection.n_bits)
        for item in query.items:
            counts[int(np.bitwise_count(item.code ^ code).sum())] -= 1
        # the item of the tie may not be shown
        found = [
            result._replace(tied=bool(counts[result.hamming] > 1))
            for result in ranking.results(collection, query, pairs)
        ]
        bits = unpack(code[None], collection.n_bits)[0]
        strips = [charts.strip(unpack(each.item.code[None], len(bits))[0], bits) for each in found]
        best = ranking.neighbors(collection, query)[: asked.k]
        last = max((result.hamming for result in found), default=None)
        return self._render(
            "inside.html",
            "/page/inside",
            asked,
            found=found,
            counts=counts.tolist(),
            last=last,
            strips=list(zip(found, strips)),
            query_strip=charts.strip(bits),
            histogram=charts.histogram(counts.tolist(), asked.radius, last),
            best=ranking.results(collection, query, best),
            is_by_codes=query.vector is None or (not collection.keeps_vectors and collection.search.query == "code"),
        )

    def quality(self, parameters: Any) -> str:
        """Statistics of the codes."""
        asked = self._asked(parameters)
        job = self.quality_job()
        if not job.done or job.error:
            return self._working(job, "/page/quality", QUALITY_JOB, asked)
        measured: quality.Quality = job.result
        bit = _integer(parameters.get("bit"), "bit", 0, 0, self.collection.n_bits - 1)
        zeros, ones = quality.sides(self.collection, measured, bit)
        curve = measured.curve
        return self._render(
            "quality.html",
            "/page/quality",
            asked,
            quality=measured,
            balance=charts.bars(measured.bits.shares.tolist(), "The part of ones of each bit; one half is best"),
            curve=None
            if curve is None
            else charts.curve(*curve, "Recall by how many of the nearest codes are looked at"),
            bit=bit,
            sides={0: zeros, 1: ones},
            k=quality.K,
            live=self.watch,
            stages=self.watch.metrics.stage_milliseconds(),
        )

    def compare(self, parameters: Any) -> str:
        """The same query by several methods or lengths."""
        asked = self._asked(parameters)
        query = asked.query
        chosen = dict.fromkeys(filter(None, parameters.getlist("with")))
        choices = [compare.choice_of(text) for text in chosen][: compare.MOST]
        shown: dict[str, Any] = {
            "choices": choices,
            "hashers": list(HASHERS),
            "lengths": compare.LENGTHS,
            "most": compare.MOST,
            "trained_on": compare.TRAINED_ON,
            "columns": [],
        }
        if query is None:
            return self._render("compare.html", "/page/compare", asked, **shown, examples=self._examples())
        if not choices:
            return self._render("compare.html", "/page/compare", asked, **shown)
        if query.vector is None or not self.collection.keeps_vectors:
            raise ValueError("other methods cannot be compared here: the search keeps no vectors")
        sample = self.collection.sample()
        key = " ".join(["compare", str(sample.n_items), *(choice.key for choice in choices)])
        job = self.jobs.started(key, lambda: compare.coded(sample, choices))
        if not job.done or job.error:
            return self._working(job, "/page/compare", key, asked)
        shown["columns"] = compare.columns(self.collection, sample, job.result, query, asked.k)
        shown["sampled"] = len(sample.ids)
        return self._render("compare.html", "/page/compare", asked, **shown)

    def problem(self, message: str, view: str) -> str:
        """A page with an error."""
        return self._render("problem.html", view if view in VIEWS else "/", NOTHING_ASKED, message=message)

    # -- what scripts and programs ask for --------------------------------------------------------------------------

    def chosen_ids(self, parameters: Any) -> list[Any]:
        """The ids of an address: results in their order, or the items of a scope."""
        asked = self._asked(parameters)
        if asked.query is not None:
            return [key for key, _ in self._pairs(asked)]
        return self.collection.ids[self._mask(asked.scope)].tolist()

    def mask(self, parameters: Any) -> NDArray[np.bool_]:
        """A mask of the items of an address, in the order of the ids."""
        asked = self._asked(parameters)
        if asked.query is None:
            return self._mask(asked.scope)
        places = np.searchsorted(self.collection.ids, [key for key, _ in self._pairs(asked)])
        mask = np.zeros(len(self.collection), bool)
        mask[places] = True
        return mask

    def map(self) -> CollectionMap | None:
        """The map, if it is ready and fits the current items."""
        moment = self.collection.search.moment
        if self._map is not None and moment is not None and self._map[0] is moment:
            return self._map[1]
        if self.collection.search.store is not None:
            return None
        made = kept_map(self.collection.search)
        if made is None:
            job = self.jobs.find(self._map_key())
            made = job.result if job is not None and job.done and not job.error else None
        if made is not None and len(made) == len(self.collection):
            self._map = moment, made
            return made
        return None

    def map_job(self) -> Job:
        """The job that makes the map: once, and again after items were added or removed."""
        return self.jobs.started(self._map_key(), lambda: map_of(self.collection.search))

    def filters_job(self) -> Job:
        """The job that reads the payload fields of all items for the first time; a million items take seconds."""
        return self.jobs.started(FILTERS_JOB, lambda: self.fields.filters(NOTHING_ASKED.scope))

    def quality_job(self) -> Job:
        """The statistics: computed once, and again after items were added or removed."""
        return self.jobs.started(f"{QUALITY_JOB} {len(self.collection)}", lambda: quality.measured(self.collection))

    def progress_of(self, key: str) -> Job | None:
        """The job that a page waits for."""
        named = {QUALITY_JOB: self.quality_job, MAP_JOB: self.map_job, FILTERS_JOB: self.filters_job}
        return named[key]() if key in named else self.jobs.find(key)

    # -- parts ------------------------------------------------------------------------------------------------------

    def _home(self, asked: PageState) -> str:
        made, job = self.map(), None
        collection = self.collection
        if made is None and len(collection) and collection.search.store is None:
            job = self.map_job()
        if made is None:
            items = [ListedItem(item) for item in collection.items(collection.random_ids(N_OF_A_PAGE, random_state=0))]
            return self._render("home.html", "/", asked, map=None, job=job, items=items)
        alone = [ListedItem(item) for item in collection.items(made.alone)]
        groups = [[ListedItem(item) for item in collection.items(group)] for group in made.groups]
        shown = self._map_values(made)
        return self._render("home.html", "/", asked, **shown, job=None, alone=alone, groups=groups, most_of_group=4)

    def _examples(self) -> list[Item]:
        """Some items for the first page, the same ones at every visit."""
        return self.collection.items(self.collection.random_ids(N_EXAMPLES, random_state=0))

    def _map_values(self, made: CollectionMap) -> dict[str, Any]:
        """The values for the map's template: clusters with their numbers, colors and examples."""
        clusters = [
            (number, cluster, cluster_color(number), self.collection.items(cluster.examples))
            for number, cluster in enumerate(made.clusters)
            if cluster.size
        ]
        return {"map": made, "clusters": clusters, "side": SIDE}

    def _results(self, asked: PageState) -> str:
        items, after = self._page(asked, 0)
        item = None if asked.query is None else asked.query.item
        is_small = len(self.collection) <= ranking.MOST_EXACT
        return self._render(
            "results.html",
            "/",
            asked,
            items=items,
            after=after,
            n_found=len(self._pairs(asked)),
            text=None if item is None else self.collection.whole_text(item.id),
            trust=self._trust(asked) if is_small else None,
            trust_later=not is_small and self.collection.keeps_vectors,
        )

    def _browsed(self, asked: PageState) -> str:
        items, after = self._page(asked, 0)
        n_found = int(np.count_nonzero(self._mask(asked.scope)))
        made = self.map()
        shown = {"map": None} if made is None else self._map_values(made)
        return self._render("browse.html", "/", asked, items=items, after=after, n_found=n_found, **shown)

    def _page(self, asked: PageState, first: int) -> tuple[list[ListedItem], int | None]:
        """Some items of an address, and the position of the next ones."""
        stop = first + N_OF_A_PAGE
        if asked.query is None:
            keys = self.collection.ids[np.flatnonzero(self._mask(asked.scope))[first : stop + 1]].tolist()
            shown = [ListedItem(item) for item in self.collection.items(keys[:N_OF_A_PAGE])]
            return shown, stop if len(keys) > N_OF_A_PAGE else None
        pairs = self._pairs(asked)
        near = ranking.nearnesses(pairs)[first:stop]
        found = ranking.results(self.collection, asked.query, pairs[first:stop], first)
        shown = [
            ListedItem(result.item, charts.nearness(share, f"distance {result.shown}, {result.hamming} bits differ"))
            for result, share in zip(found, near)
        ]
        return shown, stop if len(pairs) > stop else None

    def _pairs(self, asked: PageState) -> list[tuple[Any, float]]:
        """Ids and distances of the results, kept for the next pages of the same query."""
        assert asked.query is not None
        moment = self.collection.search.moment
        key = repr((asked.query.parameters, asked.scope.parameters))
        with self._lock:
            kept = self._answers.get(key)
            if kept is not None and moment is not None and kept[0] is moment:
                return kept[1]
        if asked.query.vector is not None and not asked.query.words and not asked.scope:
            self.watch.asked(asked.query.vector, N_OF_A_PAGE, {})
        pairs = ranking.neighbors(self.collection, asked.query, self._among(asked.scope))
        with self._lock:
            self._answers[key] = moment, pairs
            while len(self._answers) > _ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return pairs

    def _trust(self, asked: PageState) -> tuple[int, int] | None:
        """The number of true neighbors that were found, and their total; None if no vectors are kept."""
        assert asked.query is not None
        truth = ranking.true_ids(self.collection, asked.query, self._among(asked.scope))
        found = {key for key, _ in self._pairs(asked)[: len(truth)]}
        return (sum(key in found for key in truth), len(truth)) if truth else None

    def _among(self, scope: Scope) -> ranking.LookedAt:
        return ranking.LookedAt(scope.filter(), self._subset(scope))

    def _subset(self, scope: Scope) -> NDArray[np.bool_] | None:
        """A mask of the items in the cluster and the area that have the words; None for all items."""
        subset = scope.subset(self.map() if scope.uses_map else None)
        if not scope.words:
            return subset
        having = self.words.having(scope.words)
        return having if subset is None else having & subset

    def _mask(self, scope: Scope) -> NDArray[np.bool_]:
        among = self._among(scope)
        if among.filter is None:
            return np.ones(len(self.collection), bool) if among.subset is None else among.subset
        matching = self.collection.search.matching(among.filter)
        return matching if among.subset is None else matching & among.subset

    def _map_key(self) -> str:
        return f"{MAP_JOB} {len(self.collection)} {id(self.collection.search.moment)}"

    def _asked(self, parameters: Any) -> PageState:
        n_bits = self.collection.n_bits
        layout = parameters.get("layout") or "grid"
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout[:40]!r}")
        k = _integer(parameters.get("k"), "k", K, 1, MOST_K)
        radius = _integer(parameters.get("radius"), "radius", n_bits, 0, n_bits)
        shown = parameters.getlist("show") if "show" in parameters else None
        query = query_of(parameters, self.collection, self.features, self.posted)
        return PageState(query, scope_of(parameters), k, None if radius == n_bits else radius, layout, shown)

    def _working(self, job: Job, view: str, key: str, asked: PageState) -> str:
        """A page with a progress bar, or with the error of the job."""
        if job.error:
            return self.problem(job.error, view)
        return self._render("working.html", view, asked, job=job, key=key)

    def _words(self, asked: PageState) -> Any:
        """A function that marks the words of the query in a text."""
        typed = re.findall(r"\w{2,}", "" if asked.query is None else asked.query.words)
        if not typed:
            return escape
        pattern = re.compile(r"\b(" + "|".join(re.escape(word) for word in typed[:32]) + r")\b", re.IGNORECASE)

        def marked(text: str) -> Markup:
            parts = pattern.split(text)  # every second part is a found word
            return Markup("").join(
                Markup("<mark>{}</mark>").format(part) if place % 2 else escape(part)
                for place, part in enumerate(parts)
            )

        return marked

    def _render(self, template: str, view: str, asked: PageState, **values: Any) -> str:
        is_list = view == "/"
        is_counted = len(self.collection) <= FEW_ITEMS or self.filters_job().done
        made = self.map() if asked.scope.uses_map else None
        return render(
            f"server/{template}",
            view=view,
            views=VIEWS,
            collection=self.collection,
            takes=self.takes,
            asked=asked,
            query=asked.query,
            state=asked.state,
            settings=asked.settings,
            looks=asked.looks,
            filters=self.fields.filters(asked.scope, self._subset(asked.scope))
            if is_list and is_counted and len(self.collection)
            else [],
            all_fields=self.fields.all_names() if is_list and is_counted and len(self.collection) else [],
            is_counted=is_counted or not is_list,
            chips=asked.scope.chips(made),
            words=self._words(asked),
            **values,
        )


def _integer(text: str | None, name: str, default: int, low: int, high: int) -> int:
    if text is None or not text.strip():
        return default
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"{name} must be an integer, got {text[:40]!r}") from None
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, got {value}")
    return value
