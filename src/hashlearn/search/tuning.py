"""What :func:`hashlearn.search.tune` measures, and what follows from it."""

import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hashlearn.durable.files import write_bytes
from hashlearn.extras import require


@dataclass(frozen=True)
class Tuning:
    """Recall against the number of candidates that are reranked.

    Attributes
    ----------
    k : int
    target_recall : float
    candidates : tuple of int
        The numbers that were measured, ascending.
    recalls : tuple of float
        The share of the true k nearest that was found with each.
    milliseconds : tuple of float
        Time of a query with each, searched in one batch with the others.
    by_n_bits : dict of int to int
        About how many candidates codes of other lengths need for the target, as far as this was measured.

    Examples
    --------
    >>> tuning = Tuning(10, 0.9, (10, 20, 40), (0.6, 0.92, 0.99), (0.1, 0.1, 0.2), {128: 12})
    >>> tuning.chosen, tuning.met
    (20, True)
    >>> print(tuning)
    candidates  recall 10@10  ms a query
            10        0.6000       0.100
            20        0.9200       0.100  <- chosen
            40        0.9900       0.200
    20 candidates reach recall 0.9. With n_bits=128 about 12 candidates would do.
    """

    k: int
    target_recall: float
    candidates: tuple[int, ...]
    recalls: tuple[float, ...]
    milliseconds: tuple[float, ...]
    by_n_bits: dict[int, int] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Does any number of candidates that was measured reach the target?"""
        return max(self.recalls) >= self.target_recall

    @property
    def chosen(self) -> int:
        """The least number of candidates that reaches the target; if none does, the least of the best recall."""
        wanted = min(self.target_recall, max(self.recalls))
        return min(n for n, recall in zip(self.candidates, self.recalls) if recall >= wanted)

    def table(self) -> str:
        """The measurements as plain text, a line for each number of candidates; the chosen one is marked."""
        lines = [f"candidates  recall {self.k}@{self.k}  ms a query"]
        width = len(f"recall {self.k}@{self.k}")
        for candidates, recall, milliseconds in zip(self.candidates, self.recalls, self.milliseconds):
            mark = "  <- chosen" if candidates == self.chosen else ""
            lines.append(f"{candidates:>10}  {recall:>{width}.4f}  {milliseconds:>10.3f}{mark}")
        return "\n".join(lines)

    def verdict(self) -> str:
        """What to do, in a few sentences."""
        if self.met:
            sentences = [f"{self.chosen} candidates reach recall {self.target_recall:g}."]
        else:
            sentences = [
                f"The target of {self.target_recall:g} cannot be met with up to {self.candidates[-1]} candidates: "
                f"the best recall is {max(self.recalls):.4f}, with {self.chosen}."
            ]
        fewer = {n: c for n, c in sorted(self.by_n_bits.items()) if not self.met or c < self.chosen}
        sentences += [f"With n_bits={n} about {c} candidates would do." for n, c in fewer.items()]
        if not self.met and not fewer:
            sentences.append("Try longer codes, or vectors kept with more precision.")
        return " ".join(sentences)

    def __str__(self) -> str:
        return f"{self.table()}\n{self.verdict()}"

    def to_dict(self) -> dict[str, Any]:
        """The measurements as JSON can say them."""
        said = asdict(self)
        return {**said, "by_n_bits": {str(n): c for n, c in self.by_n_bits.items()}}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> "Tuning":
        """The tuning of which :meth:`to_dict` has given the measurements."""
        try:
            curve = {name: tuple(said[name]) for name in ("candidates", "recalls", "milliseconds")}
            by_n_bits = {int(n): int(c) for n, c in said["by_n_bits"].items()}
            return cls(k=int(said["k"]), target_recall=float(said["target_recall"]), by_n_bits=by_n_bits, **curve)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError("a tuning must be as Tuning.to_dict gives it, got something else") from None

    def plot(self, path: str | Path) -> None:
        """Write the curve as a picture; the suffix says which kind (.png, .svg, .pdf)."""
        write_bytes(path, self.picture(Path(path).suffix.lstrip(".") or "png"))

    def picture(self, kind: str) -> bytes:
        """The curve as the content of a file: "png", "svg" or "pdf"."""
        figure = require("matplotlib.figure", "report").Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        axes.semilogx(self.candidates, self.recalls, marker="o")
        axes.axhline(self.target_recall, linestyle="--", color="gray", label=f"target {self.target_recall:g}")
        axes.axvline(self.chosen, linestyle=":", color="gray", label=f"{self.chosen} candidates")
        axes.set_xlabel("candidates that are reranked")
        axes.set_ylabel(f"recall {self.k}@{self.k}")
        axes.legend()
        content = io.BytesIO()
        figure.savefig(content, format=kind)
        return content.getvalue()
