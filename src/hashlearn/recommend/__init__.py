"""Recommendation of a method, a length and a search for some vectors, from trials on a sample of them."""

from hashlearn.recommend.trials import Recommendation, Trial, recommend

__all__ = ["Recommendation", "Trial", "recommend"]
