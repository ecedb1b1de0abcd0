"""Require that a path is spelled like its route, byte by byte, except for its variable parts.

Programs disagree on what `//api/ingest` or `/%61pi/ingest` is: a proxy that blocks `/api/ingest` may let these pass.
Variable parts may be percent-encoded in any way.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

from quart import current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import Rule

from runtally.errors import NotFound

_VARIABLE = re.compile(r"<[^>]*>")


async def refuse_other_spellings() -> None:
    """Refuse other spellings; the hook after routing. Raises `NotFound`."""
    rule = _matched_rule()
    # Some servers do not tell how the path was written.
    sent: bytes | None = request.scope.get("raw_path")
    if rule is None or not sent:
        return
    path, root = sent.partition(b"?")[0], (request.root_path or "").encode()
    if (path + b"/").startswith(root + b"/"):
        path = path[len(root) :]
    if not is_spelled_as(rule.rule, path or b"/"):
        raise NotFound


def is_spelled_as(pattern: str, path: bytes) -> bool:
    """Return whether the fixed parts of the pattern occur unchanged in the path. In linear time."""
    first, *others = _fixed_parts(pattern)
    if not others:
        return path == first
    *middle, last = others
    if not path.startswith(first) or not path.endswith(last):
        return False
    at, end = len(first), len(path) - len(last)
    for part in middle:
        found = path.find(part, at + 1, end)
        if found == -1:
            return False
        at = found + len(part)
    return at < end


@lru_cache
def _fixed_parts(pattern: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in _VARIABLE.split(pattern))


def _matched_rule() -> Rule | None:
    """Return the rule of the path, also if it takes another method."""
    if not isinstance(request.routing_exception, MethodNotAllowed):
        return request.url_rule
    # Whatever raises it says which methods there are.
    method = next(iter(cast("Iterable[str]", request.routing_exception.valid_methods)))
    try:
        found: tuple[Rule, object] = current_app.url_map.bind("").match(request.path, method, return_rule=True)
    except HTTPException:
        return None
    return found[0]
