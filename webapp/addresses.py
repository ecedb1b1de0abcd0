"""Build URLs of pages and files in a tenth of Quart's time, for pages with a hundred of them, and read those that are given.

What URLs and paths name is parsed, and no target leads to another site.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, quote, quote_plus, urlencode, urlsplit

from quart import request, url_for
from werkzeug.routing import BaseConverter, IntegerConverter, ValidationError

from api.current import services
from runtally.errors import NotFound
from runtally.fields import MAX_NAME, MAX_ROW, is_project_id, parse_whole, trimmed
from runtally.ids import id_in, path_of

# The characters that Quart leaves unescaped: https://url.spec.whatwg.org/#percent-encoded-bytes
_SAFE = "!$'()*,/:;?@"


def server_url() -> str:
    """Return where programs reach this server: `PUBLIC_URL`, else the host that the reader's browser asks."""
    return (services().settings.public_url or request.host_url).rstrip("/")


def url_of(path: str) -> str:
    """Return the URL of a path of this server, for programs and other pages."""
    return f"{server_url().removesuffix(request.root_path)}{path}"


def here() -> str:
    """Return the path of this request with its query, as the reader's browser has it."""
    return f"{request.root_path}{request.full_path.rstrip('?')}"


def cookie_path() -> str:
    """Return the path below which a browser sends our cookies."""
    return request.root_path or "/"


def cookies_are_secure() -> bool:
    """Return whether a browser sends our cookies over TLS alone; a server without it, on a laptop, must still allow signing in.

    `PUBLIC_URL` says so also where the proxy's word for it is not believed, and for a page that somebody asks for in the clear.
    """
    return request.is_secure or (services().settings.public_url or "").casefold().startswith("https:")


def path_to(endpoint: str, **parts: str) -> str:
    """Return the path of a route; `parts` are its variable parts. It is remembered, so do not pass a query."""
    return _path(request.root_path, endpoint, tuple(parts.items()))


def address_of(endpoint: str, query: Mapping[str, object], **parts: str) -> str:
    """Return the path with a query, from which None is left out."""
    path = path_to(endpoint, **parts)
    found = urlencode([(name, value) for name, value in query.items() if value is not None], safe=_SAFE)
    return f"{path}?{found}" if found else path


def escaped_value(value: str) -> str:
    """Return a value as `address_of` writes it."""
    return quote_plus(value, safe=_SAFE)


@lru_cache(maxsize=2_000)
def _path(_root_path: str, endpoint: str, parts: tuple[tuple[str, str], ...]) -> str:
    values: dict[str, Any] = dict(parts)
    return url_for(endpoint, **values)


def join_url(server_url: str, token: str) -> str:
    """Return the URL at which the holder of this token creates an account.

    It needs no request, so that commands can print it.
    """
    return f"{server_url}/join?token={quote(token)}"


def requested_project(query: Mapping[str, str]) -> str | None:
    """Return the project of a query string, None if it has none. Raises `NotFound` for an invalid id."""
    project_id = query.get("project")
    if project_id is None:
        return None
    project_id = trimmed(project_id)
    if not is_project_id(project_id):
        raise NotFound
    return project_id


def chosen_project(query: Mapping[str, str]) -> str | None:
    """Return the project of a form, which sends an empty text where none is chosen."""
    return requested_project(query) if trimmed(query.get("project", "")) else None


def safe_path(target: str | None) -> str:
    """Return the target if it is a page of this site, else the overview, so that no link redirects to another site."""
    if not target or not target.startswith("/") or target.startswith("//") or not target.isprintable():
        return path_to("overview.overview")
    # A browser reads a backslash as a slash, and dot segments it resolves are no pages.
    segments = _parsed(target).path.split("/")
    is_page = len(segments) > 1 and "\\" not in target and not {".", ".."} & set(segments)
    return target if is_page else path_to("overview.overview")


def path_in(url: str) -> str:
    """Return the path and query of a URL that a client sent; empty if it is invalid."""
    parts = _parsed(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def host_of(url: str) -> str:
    """Return host and port of a URL that a client sent; empty if it is invalid."""
    return _parsed(url).netloc


def _parsed(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


class ProjectIdConverter(BaseConverter):
    """Converts a project id in a path: any text, including slashes and dots."""

    part_isolating = False
    regex = r"[\s\S]+"
    weight = 200

    def to_python(self, value: str) -> str:
        id_ = trimmed(id_in(value))
        if not self._may_be(id_):
            raise ValidationError
        return id_

    def _may_be(self, id_: str) -> bool:
        return is_project_id(id_)

    def to_url(self, value: str) -> str:
        return path_of(value)


class IdConverter(ProjectIdConverter):
    """Converts the id of a run or trace in a path, in the same way as a project's."""

    def _may_be(self, id_: str) -> bool:
        return 0 < len(id_) <= MAX_NAME and "\0" not in id_


class RowConverter(IntegerConverter):
    """Converts the number of a row in a path, which Postgres must be able to count up to."""

    def to_python(self, value: str) -> int:
        number = parse_whole(value, MAX_ROW)
        if number is None:
            raise ValidationError
        return number


class SegmentConverter(BaseConverter):
    """Converts any id as one segment of a path, so that a path can have two ids.

    As in JSON Pointer, `~1` is a slash and `~0` a tilde. Dots that a browser would resolve have a `~.` before them.
    """

    def to_python(self, value: str) -> str:
        id_ = trimmed(unescaped(value))
        if not id_ or "\0" in id_:
            raise ValidationError
        return id_

    def to_url(self, value: str) -> str:
        return quote(escaped(value), safe="~")


def escaped(text: str) -> str:
    """Return the text without slashes, so that it can stand between them."""
    text = text.replace("~", "~0").replace("/", "~1")
    return f"~.{text}" if text in {".", ".."} else text


def unescaped(text: str) -> str:
    return text.removeprefix("~.").replace("~1", "/").replace("~0", "~")
