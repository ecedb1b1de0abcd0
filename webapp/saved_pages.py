"""The report page that an address shows, and the parameters that a view of it keeps."""

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct
from quart import current_app, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from runtally.access.saved_views import MAX_QUERY
from runtally.errors import InvalidFilter
from runtally.usage.dimensions import METADATA, NO_VALUE, OTHER, canonical_key
from webapp.pages.compare.view import VALUE
from webapp.query_names import PAGES, PLACES, SIDES, is_known
from webapp.zone import FIELD, LATER, in_utc

_MARKS = {OTHER, NO_VALUE}
# Where in a list somebody is, and whether it follows new runs, is no part of a view.
_LEFT_OUT = PLACES | {"project"}


class Shown(Struct, frozen=True):
    """What an address shows: a report page, by its stored name, and its query without the project."""

    page: str
    query: str
    values: tuple[tuple[str, str], ...]
    """The values of keys that the query names, each with its key."""


def shown_at(address: str, project_id: str) -> Shown:
    """Read the path and query of a report page of the project.

    Raises `InvalidFilter` for any other address, and for a query that is too long or has unknown parameters.
    """
    try:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query)
    except ValueError:
        raise InvalidFilter("This page cannot be saved as a view.") from None
    page = None if parts.netloc else _page_at(parts.path, dict(pairs), project_id)
    if page is None:
        raise InvalidFilter("Only report pages of this project can be saved as a view.")
    kept = [(name, value) for name, value in _in_utc(pairs) if name not in _LEFT_OUT]
    unknown = sorted({name for name, _ in kept if not is_known(name)})
    if unknown:
        raise InvalidFilter(f"A view cannot keep the parameter {unknown[0][:40]!r}. Remove it from the address first.")
    query = urlencode(kept)
    if len(query) > MAX_QUERY:
        raise InvalidFilter(
            f"The filters of this page are longer than {MAX_QUERY:,} characters. Remove some of them first."
        )
    return Shown(page, query, tuple(_values_in(kept)))


def _page_at(path: str, query: Mapping[str, str], project_id: str) -> str | None:
    """Return the stored name of the page with this path; None unless it is one of the project."""
    try:
        endpoint, values = current_app.url_map.bind("").match(path.removeprefix(request.root_path), method="GET")
    except (HTTPException, RequestRedirect):
        return None
    asked = values.get("project_id", query.get("project"))
    return next((name for name, page in PAGES.items() if page.endpoint == endpoint and asked == project_id), None)


def _in_utc(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parameters that have a value, with their times in UTC, whatever zone their form was in."""
    query, times = dict(pairs), dict[str, str]()
    of_form = {name: query[name] for name in (FIELD, LATER) if name in query}
    for start in ("", *SIDES):
        of_side = {name.removeprefix(start): value for name, value in pairs if name.startswith(start)}
        moved = in_utc({**of_side, **of_form})
        times |= {f"{start}{name}": moved[name] for name in ("since", "until") if name in moved}
    return [(name, times.get(name, value)) for name, value in pairs if name not in of_form and value]


def _values_in(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield key and value of each filter, and of each value that is compared; a mark stands for several values, or none."""
    for name, value in pairs:
        side = next((start for start in SIDES if name.startswith(start)), "")
        of = name.removeprefix(side)
        named_by = {VALUE: "by", "metadataValue": f"{side}metadataKey"}.get(of)
        # Every time that the other parameter is there: which of them a page reads is the page's.
        keys = [of] if named_by is None else [other for said, other in pairs if said == named_by]
        if value not in _MARKS:
            for key in (one.removeprefix(METADATA) for one in keys):
                yield canonical_key(key), value
                # A key with dots may be the way down to a value inside of another key's.
                yield canonical_key(key.partition(".")[0]), value
