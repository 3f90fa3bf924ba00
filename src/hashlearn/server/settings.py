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
        Most codes that are ordered anew for one query.
    max_answer_bytes : int
        Longest answer; four long ones are made and sent at a time.
    max_concurrency : int
        Most requests at one time; a further one gets 503 and may try again.
    timeout_seconds : float
        Longest time of a request, from its first byte to its answer, and as much again to read the answer.
    threads : int or None
        Threads that search and encode. None: one for each core.
    refresh_seconds : float or None
        How often to look whether another process has saved to the folder of the search. None: never.
    host : str
        The address that the server listens at.
    host_names : tuple of str
        Names that it goes by, beside ``localhost``, ``host`` and, where other machines can reach it, any address. A
        request for another name gets 421. "*" allows all names.
    max_open : int
        Most searches that are open at one time, where a server has several.
    idle_seconds : float
        Where a server has several searches, one without a request for this long is closed.
    snapshots : str or None
        The folder below which clients with the key to write may have snapshots made. None: they may not.
    recall_share : float
        Share of the queries that are answered exactly as well, to measure the recall; 0 for none.

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
    """A key must fit into a header; it is not printed."""
    if value is None:
        return
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"{name} must be printable ASCII characters without spaces")
