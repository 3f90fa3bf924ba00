"""What a server allows: its keys and its limits."""

from dataclasses import dataclass, fields
from ipaddress import ip_address

from hashlearn.checks import check_integer, check_number
from hashlearn.threads import cores


@dataclass(frozen=True)
class Settings:
    """Keys and limits of a server.

    Parameters
    ----------
    api_key : str or None
        The key that readers must send. None: everybody may read.
    write_key : str or None
        The key that writers must send; it also allows reading. If it is None, nobody may write where there is an
        ``api_key``, and everybody may where there is none.
    max_body_bytes : int
        Longest body of a request.
    max_batch : int
        Most queries, vectors, texts, images or points of one request.
    max_k : int
        Most neighbors of one query.
    max_candidates : int
        Most candidates that are reranked for one query.
    max_answer_bytes : int
        Longest answer. Four long answers are made and sent at a time.
    max_concurrency : int
        Most requests at one time. A further request gets 503, and the client may try again.
    timeout_seconds : float
        Longest time from the first byte of a request to its answer. The client has the same time to read the answer.
    threads : int or None
        Threads that search and encode. None: one for each core.
    refresh_seconds : float or None
        Seconds between two checks for changes by other processes. None: no checks.
    host : str
        The address that the server listens at.
    host_names : tuple of str
        Host names that are accepted, beside ``localhost``, ``host`` and, if other machines can reach the server, any
        address. A request for another name gets 421. "*" allows all names.
    max_open : int
        Most searches that are open at one time, if the server has several.
    idle_seconds : float
        If the server has several searches, one without requests for this time is closed.
    snapshots : str or None
        The folder for snapshots, which clients with the key to write may request. None: no snapshots.
    recall_share : float
        Share of the queries that are also answered exactly, to measure the recall; 0 for none.

    Examples
    --------
    >>> Settings(max_k=50).max_k
    50
    """

    api_key: str | None = None
    write_key: str | None = None
    max_body_bytes: int = 16 * 1024 * 1024
    max_batch: int = 1000
    max_k: int = 1000
    max_candidates: int = 10_000
    max_answer_bytes: int = 64 * 1024 * 1024
    max_concurrency: int = 128
    timeout_seconds: float = 30.0
    threads: int | None = None
    refresh_seconds: float | None = None
    host: str = "127.0.0.1"
    host_names: tuple[str, ...] = ()
    max_open: int = 64
    idle_seconds: float = 300.0
    snapshots: str | None = None
    recall_share: float = 0.01

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("max_"):
                check_integer(field.name, value, low=1)
            elif field.name.endswith("_key"):
                _check_key(field.name, value)
        check_number("timeout_seconds", self.timeout_seconds, low=0.001)
        check_number("idle_seconds", self.idle_seconds, low=0.001)
        check_number("recall_share", self.recall_share, low=0, high=1)
        for name in self.host_names:
            _check_host_name(name)
        if self.refresh_seconds is not None:
            check_number("refresh_seconds", self.refresh_seconds, low=0.001)
        if self.threads is not None:
            check_integer("threads", self.threads, low=1)

    @property
    def n_threads(self) -> int:
        """Threads that search and encode."""
        return self.threads or cores()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_host_name(name: str) -> None:
    if not isinstance(name, str) or not name or not name.isascii() or set(name) & set("/@:?# "):
        raise ValueError(f"host_names must be names without a port, such as search.example, got {name!r:.60}")


def _check_key(name: str, value: str | None) -> None:
    """Refuse a key that does not fit into a header. The error does not show the key."""
    if value is None:
        return
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"{name} must be printable ASCII characters without spaces")
