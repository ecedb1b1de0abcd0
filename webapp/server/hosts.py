"""Limit dev mode to this machine's own host names.

There every caller is admin, and any web page can point a name at this machine.
"""

from urllib.parse import urlsplit

from quart import request

from api.current import services
from runtally.errors import Forbidden
from runtally.settings import Settings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


async def check_host() -> None:
    """Refuse requests to another host name than this machine's, as sent after DNS rebinding. Raises `Forbidden`."""
    settings = services().settings
    # A header that was too long for a name is missing here.
    if is_foreign(request.headers.get("Host", ""), settings):
        raise Forbidden(
            f"In dev mode everybody is admin, so it answers only on this machine: open {settings.own_url()}, or set "
            "SERVICE_DEV_MODE_ALLOW_REMOTE=1 where all who can reach it may be admin."
        )


def is_foreign(host: str, settings: Settings) -> bool:
    """Return whether a request with this Host header must be refused."""
    if not settings.service_dev_mode or settings.service_dev_mode_allow_remote:
        return False
    return _name(host) not in {*LOOPBACK, settings.host.lower()}


def _name(host: str) -> str | None:
    """Return the host without its port; None for anything else."""
    try:
        parsed = urlsplit(f"//{host}")
    except ValueError:
        return None
    return parsed.hostname if parsed.netloc == host and "@" not in host else None
