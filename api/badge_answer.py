"""Answer a request for a badge, over Quart or the fast path."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal

import msgspec
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from api.badge_image import svg_of
from api.compression import gzipped, takes_gzip
from api.reply import JSON, encoded
from runtally.errors import InvalidFormat, UnknownExperiment
from runtally.experiments.badge import COLOURS, Style, cleaned
from runtally.experiments.read import Question
from runtally.experiments.shared import Verdicts
from runtally.experiments.verdict import Outcome
from runtally.fields import camel, trimmed

SVG = "image/svg+xml"
MAX_AGE_SECONDS = 60
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# Browsers and proxies send few different headers.
_KEPT_HEADERS = 64
# Every reader of a README requests the same badge.
_KEPT_BADGES = 1024


class Format(StrEnum):
    SVG = "svg"
    JSON = "json"
    SHIELDS = "shields"


class BadgeStatus(msgspec.Struct, frozen=True):
    """The verdict on an experiment: whether every threshold that is set holds."""

    status: Literal["pass", "fail"]


class ShieldsEndpoint(msgspec.Struct, frozen=True, rename=camel):
    """The JSON from which shields.io makes its endpoint badge."""

    label: str
    message: Literal["pass", "fail", "unknown"]
    color: Literal["brightgreen", "red", "lightgrey"]
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class BadgeRequest:
    """The parts of a request that its answer depends on."""

    path: str
    """An experiment's id, perhaps with a suffix."""
    args: Mapping[str, str]
    accept: str | None
    accept_encoding: str | None


@dataclass(frozen=True, slots=True)
class Badge:
    """A full answer, for a client that has none cached."""

    body: bytes
    is_packed: bool
    """Whether the body is compressed with gzip."""
    etag: str
    headers: Mapping[str, str]
    """The headers, also of an answer that leaves out the body."""


async def badge_for(request: BadgeRequest, verdicts: Verdicts) -> Badge:
    """Answer a request for a badge. Raises `InvalidFormat`, `UnknownExperiment`, `StoreUnavailable` and `StoreBusy`."""
    asked = _asked_for(request)
    project_id = request.args.get("project")
    question = Question(trimmed(asked.experiment_id), project_id and trimmed(project_id), request.args.get("token"))
    verdict = await verdicts.verdict(question)
    outcome = verdict.outcome if verdict else Outcome.UNKNOWN
    label = cleaned(request.args.get("label", asked.experiment_id))
    style = Style.parse(request.args.get("style"))
    return _badge(asked.format, asked.vary, outcome, label, style, is_packed=takes_gzip(request.accept_encoding))


@lru_cache(_KEPT_BADGES)
def _badge(  # noqa: PLR0913  # All that a badge depends on.
    format_: Format, vary: tuple[str, ...], outcome: Outcome, label: str, style: Style, *, is_packed: bool
) -> Badge:
    """Make the answer with a verdict. Raises `UnknownExperiment` where its format has no word for it."""
    if format_ is Format.SVG:
        body, content_type = svg_of(outcome, label, style), SVG
    else:
        body, content_type = encoded(_json_of(format_, outcome, label)), JSON
    # A client that accepts gzip may get other bytes: a strong tag must not be the same for both.
    etag = hashlib.sha256(f"{content_type} {is_packed} ".encode() + body).hexdigest()[:32]
    packed = gzipped(body) if is_packed else None
    headers = {
        "Content-Type": content_type,
        "Cache-Control": f"max-age={MAX_AGE_SECONDS}",
        "Vary": ", ".join(vary),
        **({"Content-Security-Policy": POLICY} if format_ is Format.SVG else {}),
        "ETag": f'"{etag}"',
    }
    return Badge(packed or body, packed is not None, etag, headers)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The format of the answer, and the request headers that decided it."""

    experiment_id: str
    format: Format
    vary: tuple[str, ...] = ("Accept-Encoding",)


def _asked_for(request: BadgeRequest) -> _Asked:
    """Find the format of the answer. Raises `InvalidFormat`, also if a suffix contradicts the parameter."""
    try:
        said = Format(request.args["format"]) if "format" in request.args else None
    except ValueError:
        raise InvalidFormat from None
    for suffix in (Format.SVG, Format.JSON):
        if request.path.endswith(f".{suffix}") and len(request.path) > len(suffix) + 1:
            return _Asked(request.path.removesuffix(f".{suffix}"), suffix)
    if said:
        return _Asked(request.path, said)
    preferred = Format.JSON if prefers_json(request.accept) else Format.SVG
    return _Asked(request.path, preferred, ("Accept", "Accept-Encoding"))


@lru_cache(_KEPT_HEADERS)
def prefers_json(accept: str | None) -> bool:
    """Return whether the Accept header prefers JSON to images and HTML, by quality and by how exact it is."""
    accepted = parse_accept_header(accept, MIMEAccept)
    json = _rank(accepted, "application/json", "application/*", "*/*")
    return json > max(_rank(accepted, "image/*", "*/*"), _rank(accepted, "text/html", "text/*", "*/*"))


def _rank(accept: MIMEAccept, *ranges: str) -> tuple[float, int]:
    """Return the best of these ranges in the header: its quality, and how exact it is."""
    found = []
    for value, quality in accept:
        name = value.partition(";")[0].strip().casefold()
        range_ = "image/*" if name.startswith("image/") else name
        if range_ in ranges:
            found.append((quality, -ranges.index(range_)))
    return max(found, default=(0.0, 0))


def _json_of(format_: Format, outcome: Outcome, label: str) -> BadgeStatus | ShieldsEndpoint:
    """Build the JSON of a verdict. Raises `UnknownExperiment` where it has no word for it."""
    if format_ is Format.SHIELDS:
        return ShieldsEndpoint(label=label, message=outcome.value, color=COLOURS[outcome].value)
    if outcome is Outcome.UNKNOWN:
        raise UnknownExperiment
    return BadgeStatus("pass" if outcome is Outcome.PASS else "fail")
