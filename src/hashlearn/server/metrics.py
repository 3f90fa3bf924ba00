"""What Prometheus is told, from a registry of our own: two servers in one process do not share their counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counts of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "hashlearn_requests", "Requests answered.", ["route", "method", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "hashlearn_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.running = Gauge("hashlearn_requests_running", "Requests being answered.", registry=self.registry)
        self.rows = Gauge("hashlearn_rows", "Rows of the search.", registry=self.registry)
        self.searched_together = Histogram(
            "hashlearn_queries_together", "Queries searched in one go.", buckets=_SIZES, registry=self.registry
        )
        self.saved_together = Histogram(
            "hashlearn_writes_together", "Writes made durable in one go.", buckets=_SIZES, registry=self.registry
        )

        self._of_request: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        key = (route, method, status)
        if key not in self._of_request:  # to look up labels costs more than to count
            self._of_request[key] = self.requests.labels(*key), self.seconds.labels(route)
        requests, times = self._of_request[key]
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        """All of them, in the format of Prometheus."""
        return generate_latest(self.registry)
