"""The measurements of a recommendation, drawn: a bar for each method and length, a line for the float vectors."""

import io
from typing import Any

from hashlearn.experiments.define.tasks import REFERENCE
from hashlearn.extras import require
from hashlearn.recommend.trials import BY_COSINE, BY_MEANING, BY_NEIGHBORHOOD, SHOWN, Recommendation

COLORS = {"taken": "#1f5f8b", "other": "#b8c4cc", "floats": "#444444"}
PANELS = {BY_MEANING: "by meaning", BY_NEIGHBORHOOD: "by neighborhood"}


def recommendation_svg(found: Recommendation) -> bytes:
    """The plot as an SVG file; the recommended bars are dark."""
    figures: Any = require("matplotlib.figure", "report")
    panels = [name for name in PANELS if found.floats.get(name) is not None]
    height = 1.2 + 0.28 * len(found.trials)
    figure = figures.Figure(figsize=(4.8 * len(panels), height), layout="constrained")
    for axes, measure in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        _draw(axes, found, measure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _draw(axes: Any, found: Recommendation, measure: str) -> None:
    taken = found.by_meaning if measure == BY_MEANING else found.by_neighborhood
    places = range(len(found.trials))
    values = [trial.measures[measure] or 0.0 for trial in found.trials]
    colors = [COLORS["taken" if trial is taken else "other"] for trial in found.trials]
    axes.barh(places, values, color=colors)
    axes.set_yticks(places, [f"{trial.title}, {trial.n_bytes} bytes" for trial in found.trials])
    axes.invert_yaxis()
    if measure == BY_MEANING:
        for title, of_floats, style in ((REFERENCE, found.floats, "--"), (BY_COSINE, found.floats_by_cosine, ":")):
            axes.axvline(of_floats[measure], color=COLORS["floats"], linestyle=style, label=title)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)
    axes.set_title(f"{PANELS[measure]}: {SHOWN[measure]}", loc="left", fontsize=11)
    axes.set_xlim(0, 1)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
