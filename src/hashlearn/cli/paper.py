"""``hashlearn paper run``, ``show`` and ``report``: the experiments of the JPSH paper."""

from pathlib import Path
from typing import TYPE_CHECKING

from hashlearn.cli.experiment import ExperimentVerbs, typer_of

if TYPE_CHECKING:
    from hashlearn.experiments import Experiment

NAMES = ("table-1", "table-2", "table-3", "figure-4", "figures-5-6", "figure-7", "figure-8")
RESULTS = "results"


def _read(name: str) -> "Experiment":
    from hashlearn.experiments import paper_experiment

    return paper_experiment(name)


def _stored(name: str) -> str:
    """The folder of your own runs if there are any, otherwise the runs that come with the package."""
    from hashlearn.experiments.paper import stored_results

    return RESULTS if any(Path(RESULTS).glob("*.jsonl")) else str(stored_results())


app = typer_of(
    ExperimentVerbs(
        name="paper",
        help="Run the experiments of the JPSH paper and compare with its numbers.",
        argument=("EXPERIMENT", f"{', '.join(NAMES)}."),
        example="table-2",
        read=_read,
        folder=lambda name: RESULTS,
        stored=_stored,
        all_names=NAMES,
        title="Binary Representation via Jointly Personalized Sparse Hashing, reproduced",
        subtitle="The tables and figures of the paper (Wang et al., ACM TOMM 2022), computed again: our mean over the "
        "runs, the paper's number below it, and the difference, green where ours is better and red where it is worse.",
    )
)
