"""The views of the page: what an address asks for, as HTML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.codes import unpack
from hashlearn.extras import require
from hashlearn.hashers.registry import METHODS as HASHERS
from hashlearn.server.features import Features
from hashlearn.server.page import charts, compare, quality, ranking
from hashlearn.server.page.collection import Collection
from hashlearn.server.page.jobs import Job, Jobs
from hashlearn.server.page.queries import PostedQueries, Query, address, query_of
from hashlearn.server.page.statistics import distance_counts

TEMPLATES = Path(__file__).parents[1] / "templates"
VIEWS = {"/": "Search", "/page/inside": "Inside the code", "/page/quality": "Quality", "/page/compare": "Compare"}
K, MOST_K = 12, 100
N_SHOWN = 24
"""Items that are shown where nothing is searched for."""

QUALITY_JOB = "quality"


class Options(NamedTuple):
    """What an address says beside the query."""

    k: int
    rank: str
    radius: int | None


class Found(NamedTuple):
    """A query and what was found for it.

    Attributes
    ----------
    query : Query
    results : list of Result
        Also those beyond the radius, which are there and hidden: the slider may show them.
    counts : list of int
        Items of the whole collection at each Hamming distance, the query's own item left out.
    """

    query: Query
    results: list[ranking.Result]
    counts: list[int]

    @property
    def last(self) -> int | None:
        """The largest Hamming distance among the results."""
        return max((result.hamming for result in self.results), default=None)


class Page:
    """All that the views need.

    Parameters
    ----------
    collection : Collection
    features : Features or None
    takes : "image", "text" or None
        What the features encode.
    """

    def __init__(self, collection: Collection, features: Features | None, takes: str | None):
        self.collection, self.features, self.takes = collection, features, takes
        self.posted = PostedQueries()
        self.jobs = Jobs()
        jinja2: Any = require("jinja2", "server")
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(address=address, views=VIEWS, page=self, collection=collection)

    def search(self, parameters: Mapping[str, str]) -> str:
        """The view Search: results of the query, or some items to begin with."""
        options, query = self._asked(parameters)
        if query is None:
            items = self.collection.items(self.collection.random_ids(N_SHOWN, random_state=0))
            return self._render("search.html", "/", options, None, items=items)
        return self._render("search.html", "/", options, self._found(query, options))

    def inside(self, parameters: Mapping[str, str]) -> str:
        """The view Inside the code: bits, distances, and codes beside vectors."""
        options, query = self._asked(parameters)
        if query is None:
            return self._render("inside.html", "/page/inside", options, None)
        found = self._found(query, options)
        bits = unpack(query.code[None], self.collection.n_bits)[0]
        strips = [charts.strip(unpack(each.item.code[None], len(bits))[0], bits) for each in found.results]
        by_codes = ranking.ranked(self.collection, query, "codes", options.k)
        truth = []
        if "vectors" in ranking.methods_for(self.collection, query):
            truth = ranking.ranked(self.collection, query, "vectors", options.k)
        return self._render(
            "inside.html",
            "/page/inside",
            options,
            found,
            strips=list(zip(found.results, strips)),
            query_strip=charts.strip(bits),
            histogram=charts.histogram(found.counts, options.radius, found.last),
            by_codes=by_codes,
            truth=truth,
            recall=ranking.recall(by_codes, truth),
            is_exact=len(self.collection) <= ranking.MOST_EXACT,
            n_compared=ranking.MOST_EXACT,
        )

    def quality(self, parameters: Mapping[str, str]) -> str:
        """The view Quality: statistics of the codes, once they are computed."""
        options, query = self._asked(parameters)
        job = self.quality_job()
        if not job.done or job.error:
            return self._working(job, "/page/quality", QUALITY_JOB, options, query)
        measured: quality.Quality = job.result
        bit = _integer(parameters.get("bit"), "bit", 0, 0, self.collection.n_bits - 1)
        zeros, ones = quality.sides(self.collection, measured, bit)
        curve = measured.curve
        return self._render(
            "quality.html",
            "/page/quality",
            options,
            None if query is None else self._found(query, options),
            quality=measured,
            balance=charts.bars(measured.bits.shares.tolist(), "The part of ones of each bit; one half is best"),
            curve=None
            if curve is None
            else charts.curve(*curve, "Recall by how many of the nearest codes are looked at"),
            bit=bit,
            sides={0: zeros, 1: ones},
            k=quality.K,
        )

    def compare(self, parameters: Mapping[str, str], chosen: list[str]) -> str:
        """The view Compare: the same query by several methods or lengths."""
        options, query = self._asked(parameters)
        choices = [compare.choice_of(text) for text in dict.fromkeys(filter(None, chosen))][: compare.MOST]
        shown: dict[str, Any] = {
            "choices": choices,
            "hashers": list(HASHERS),
            "lengths": compare.LENGTHS,
            "most": compare.MOST,
            "trained_on": compare.TRAINED_ON,
            "columns": [],
        }
        found = None if query is None else self._found(query, options)
        if query is None or not choices:
            return self._render("compare.html", "/page/compare", options, found, **shown)
        if query.vector is None:
            raise ValueError("other methods cannot be compared here: the search keeps no vectors")
        sample = self.collection.sample()
        key = " ".join(["compare", str(sample.n_items), *(choice.key for choice in choices)])
        job = self.jobs.started(key, lambda: compare.coded(sample, choices))
        if not job.done or job.error:
            return self._working(job, "/page/compare", key, options, query)
        shown["columns"] = compare.columns(self.collection, sample, job.result, query, options.k)
        shown["sampled"] = len(sample.ids)
        return self._render("compare.html", "/page/compare", options, found, **shown)

    def problem(self, message: str, view: str) -> str:
        """A page that says what is wrong."""
        return self._render("problem.html", view, Options(K, "codes", None), None, message=message)

    def quality_job(self) -> Job:
        """The statistics: computed once, and anew when items came or went."""
        return self.jobs.started(f"{QUALITY_JOB} {len(self.collection)}", lambda: quality.measured(self.collection))

    def progress_of(self, key: str) -> Job | None:
        """The work that a page waits for."""
        return self.quality_job() if key == QUALITY_JOB else self.jobs.find(key)

    def _asked(self, parameters: Mapping[str, str]) -> tuple[Options, Query | None]:
        query = query_of(parameters, self.collection, self.features, self.posted)
        rank = parameters.get("rank") or "codes"
        if rank not in ranking.METHODS:
            raise ValueError(f"rank must be one of {', '.join(ranking.METHODS)}, got {rank[:40]!r}")
        n_bits = self.collection.n_bits
        k = _integer(parameters.get("k"), "k", K, 1, MOST_K)
        radius = _integer(parameters.get("radius"), "radius", n_bits, 0, n_bits)
        return Options(k, rank, None if radius == n_bits else radius), query

    def _found(self, query: Query, options: Options) -> Found:
        methods = ranking.methods_for(self.collection, query)
        method = options.rank if options.rank in methods else "codes"
        results = ranking.ranked(self.collection, query, method, options.k)
        counts = distance_counts(self.collection.codes(), query.code, self.collection.n_bits)
        if query.item is not None:
            counts[0] -= 1
        if method == "codes":  # a tie may be with an item that is not shown
            results = [result._replace(tied=bool(counts[result.hamming] > 1)) for result in results]
        return Found(query, results, counts.tolist())

    def _working(self, job: Job, view: str, key: str, options: Options, query: Query | None) -> str:
        """A page with a bar, or with what went wrong."""
        if job.error:
            return self.problem(job.error, view)
        found = None if query is None else Found(query, [], [])
        return self._render("working.html", view, options, found, job=job, key=key)

    def _render(self, template: str, view: str, options: Options, found: Found | None, **values: Any) -> str:
        query = None if found is None else found.query
        methods = ranking.METHODS if query is None else ranking.methods_for(self.collection, query)
        kept = {} if query is None else query.parameters
        settings = {
            "k": options.k if options.k != K else None,
            "rank": options.rank if options.rank != "codes" else None,
            "radius": options.radius,
        }
        return self._templates.get_template(template).render(
            view=view,
            options=options,
            found=found,
            query=query,
            methods=methods,
            kept=kept,
            settings=settings,
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
