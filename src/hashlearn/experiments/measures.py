"""The numbers an experiment may show, by the names that its file and its results give them."""

from typing import NamedTuple


class Measure(NamedTuple):
    """A number of a result.

    Attributes
    ----------
    name : in files
    title : in tables
    note : what it counts
    published_as : its name in a published table
    digits : shown behind the point, in a table and in a document
    is_cost : whether less is better
    """

    name: str
    title: str
    note: str
    published_as: str = ""
    digits: int = 4
    is_cost: bool = False


ALL_MEASURES = (
    Measure(
        "mAP",
        "mAP",
        "mAP: mean average precision over the whole ranking; equal distances count as if shuffled.",
    ),
    Measure(
        "mAP_stable",
        "mAP",
        "mAP: mean average precision over the whole ranking; equal distances in the order of the database, as in the "
        "paper's evaluation.",
        published_as="mAP",
    ),
    Measure(
        "pre100_stable",
        "Pre@100",
        "Pre@100: what the paper prints under this name, the mAP of the 100 queries that went best. It is not the "
        "precision among 100 results.",
        published_as="Pre@100",
    ),
    Measure(
        "precision_at_1",
        "precision@1",
        "precision@1: share of the queries whose first result has their label; equal distances count as if shuffled.",
    ),
    Measure(
        "precision_at_100",
        "precision@100",
        "precision@100: share of the first 100 results with the query's label; equal distances count as if shuffled.",
    ),
    Measure(
        "recall_at_10",
        "10@10",
        "10@10: share of a query's 10 nearest vectors that are among its first 10 results; equal distances count as if "
        "shuffled.",
    ),
    Measure(
        "recall_at_100",
        "10@100",
        "10@100: share of a query's 10 nearest vectors that are among its first 100 results; equal distances count as "
        "if shuffled.",
    ),
    Measure(
        "seconds",
        "seconds",
        "seconds: k-means, training, and encoding the data, on one thread.",
        published_as="seconds",
        digits=1,
        is_cost=True,
    ),
)
MEASURES = {measure.name: measure for measure in ALL_MEASURES}

STABLE_MEASURES = ("mAP_stable", "pre100_stable")
"""Those with equal distances in the order of the database."""

DEFAULT_MEASURES = ("mAP", "precision_at_100", "recall_at_10", "recall_at_100")
"""By meaning and by neighborhood."""
