"""SERVE: a search over HTTP, for programs and for people. Needs the extra ``server``."""

from hashlearn.extras import require

require("fastapi", "server")  # the modules below import it

from hashlearn.server.app import create_app  # noqa: E402
from hashlearn.server.features import Features  # noqa: E402
from hashlearn.server.settings import Settings  # noqa: E402

__all__ = ["Features", "Settings", "create_app"]
