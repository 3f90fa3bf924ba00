"""Every method of hashlearn's registry: by Hamming distance, ABH by real queries."""

from typing import ClassVar

from board_method import Method

from hashlearn.hashers import METHODS as REGISTRY
from hashlearn.search.code_search import CodeSearch

MOST_BITS = 16384
RATES = range(1, 10)
BETWEEN_RATES = (8.4, 9.2, 11)
"""Nearly the bytes that rabitqlib takes with 8 bits for each of 384, 128 and 100 features."""
MOST_BITS_BETWEEN = 4096


class HashlearnMethod(Method):
    family = "hashlearn"
    settings: ClassVar = [{"bits": bits} for bits in (64, 128)]

    @classmethod
    def suits(cls, setting, n_features, metric):
        # Several methods have at most a bit for each feature.
        return setting["bits"] <= n_features

    def n_bits(self, n_features):
        return self.setting["bits"]

    def fit(self, X):
        n_bits = self.n_bits(X.shape[1])
        self.hasher = REGISTRY[self.name.lower()](n_bits=n_bits, random_state=self.seed).fit(X)

    def encode(self, X):
        self.codes = CodeSearch.of(self.hasher, X)
        return self.hasher.n_bits / 8

    def search(self, Q, k):
        found = self.codes.nearest(Q, k)
        return found.distances, found.ids


class RealQueryMethod(HashlearnMethod):
    """Codes of some bits and a byte for the correction, or as many bits for each feature with that byte in them."""

    settings: ClassVar = [
        *({"bits": bits} for bits in (32, 64, 128, 256, 512, 1024)),
        *({"bits_a_feature": rate} for rate in (*RATES, *BETWEEN_RATES)),
    ]

    @classmethod
    def suits(cls, setting, n_features, metric):
        n_bits = length(setting, n_features)
        if "bits" in setting:
            return n_bits < 2 * n_features
        most = MOST_BITS if setting["bits_a_feature"] in RATES else MOST_BITS_BETWEEN
        return 0 < n_bits <= most

    def n_bits(self, n_features):
        return length(self.setting, n_features)

    def encode(self, X):
        return super().encode(X) + 1


def length(setting, n_features: int) -> int:
    """The bits of a code."""
    return setting.get("bits") or int(setting["bits_a_feature"] * n_features) // 8 * 8 - 8


def of_registry(name: str) -> type[Method]:
    """The class of a method by its name."""
    base = RealQueryMethod if hasattr(REGISTRY[name], "query_weights") else HashlearnMethod
    return type(REGISTRY[name].__name__, (base,), {"name": REGISTRY[name].__name__})


METHODS = sorted((of_registry(name) for name in REGISTRY), key=lambda method: not issubclass(method, RealQueryMethod))
