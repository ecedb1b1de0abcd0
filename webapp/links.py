"""Projects and targets that URLs name: parse them, and never lead to another site."""

from collections.abc import Mapping
from urllib.parse import SplitResult, quote, urlsplit

from runtally.errors import NotFound
from runtally.fields import is_project_id, trimmed
from webapp.addresses import path_to


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
