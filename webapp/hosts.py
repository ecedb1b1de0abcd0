"""By which names dev mode answers: there everybody is admin, and any web page can point a name of its own at this machine."""

from urllib.parse import urlsplit

from quart import request

from api.current import services
from runtally.errors import Forbidden
from runtally.settings import Settings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


async def refuse_foreign_names() -> None:
    """Refuses requests to another name than this machine's own, as DNS rebinding makes a browser send. Raises `Forbidden`."""
    settings = services().settings
    # One that is too long for a name is missing here.
    if is_foreign(request.headers.get("Host", ""), settings):
        raise Forbidden(
            f"In dev mode everybody is admin, so it answers only on this machine: open {settings.own_url()}, or set "
            "SERVICE_DEV_MODE_ALLOW_REMOTE=1 where all who can reach it may be admin."
        )


def is_foreign(host: str, settings: Settings) -> bool:
    """Whether a request with this Host header must be refused."""
    if not settings.service_dev_mode or settings.service_dev_mode_allow_remote:
        return False
    return _name(host) not in {*LOOPBACK, settings.host.lower()}


def _name(host: str) -> str | None:
    """The host without its port; None for what is more than a host, or less."""
    try:
        parsed = urlsplit(f"//{host}")
    except ValueError:
        return None
    return parsed.hostname if parsed.netloc == host and "@" not in host else None
