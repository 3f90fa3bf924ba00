"""Which method, length and search to take for some vectors: the sensible ones tried on a sample of them."""

from hashlearn.recommend.trials import Recommendation, Trial, recommend

__all__ = ["Recommendation", "Trial", "recommend"]
