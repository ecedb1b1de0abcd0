"""Ids, by the rules of ingest, and the filters of the pages, as options of commands."""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from runtally.errors import InvalidFilter
from runtally.fields import trimmed
from runtally.usage.dimensions import METADATA
from runtally.usage.filter import NAMES, Outcome, Period, RunFilter


class _Id(click.ParamType[str]):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401, ARG002  # Click's.
        return trimmed(value)


ID = _Id()
"""The type of an argument or option that is the id of a project or experiment."""


_HELP = {
    "project_id": "Only runs of this project.",
    "provider": "Only runs with this provider, as sent.",
    "model": "Only runs with this model, as sent.",
    "status": f"Only runs with this status: {', '.join(Outcome)}; failed is error or timeout.",
    "experiment_id": "Only runs of this experiment.",
    "trace_id": "Only runs of this trace.",
    "error_code": "Only runs that failed with this code.",
    "key_id": "Only runs that the key with this id sent.",
    "service_tier": "Only runs that the vendor charged at this service tier, such as batch.",
    "region": "Only runs that the vendor processed in this region.",
    "session_id": "Only runs of this session.",
    "user_id": "Only runs for this user.",
    "tag": "Only runs with this tag.",
    "search": "The id of a run or of a trace.",
    "min_cost_usd": "Only runs that cost at least this many US dollars.",
    "max_cost_usd": "Only runs that cost at most this many US dollars.",
    "min_latency_ms": "Only runs that took at least this number of milliseconds.",
    "max_latency_ms": "Only runs that took at most this number of milliseconds.",
    "metadata_key": "Only runs whose metadata has this key.",
    "metadata_value": "Only runs whose --metadata-key has this value.",
    "range": f"The time range: {', '.join(Period)}; without it 7d.",
    "since": "Only runs from this time on, such as 2026-11-18T12:00, in UTC.",
    "until": "Only runs before this time.",
}

_OF_TIME = {"range", "since", "until"}


def option_of(name: str) -> str:
    """Return the option for a query parameter of the pages: --min-cost for minCost."""
    return "--" + re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", name)


def filter_options(*, has_time: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the filters of the pages to a command as `sought`, without those on time if the command has its own."""
    names = {field: name for field, name in NAMES.items() if has_time or field not in _OF_TIME}

    def add(command: Callable[..., None]) -> Callable[..., None]:
        return _with_filter(command, names)

    return add


def _with_filter(command: Callable[..., None], names: Mapping[str, str]) -> Callable[..., None]:
    @wraps(command)
    def with_filter(**options: Any) -> None:  # noqa: ANN401  # Click's own values.
        query = {name: options.pop(field) or "" for field, name in names.items()}
        query |= {f"{METADATA}{key}": value for key, value in options.pop("metadata")}
        try:
            sought = RunFilter.parse(query)
        except InvalidFilter as error:
            wrong = "\n".join(f"  {option_of(detail.path)} {detail.message}" for detail in error.details)
            raise click.UsageError(f"No runs can be looked for in this way.\n{wrong}") from None
        command(sought=sought, **options)

    found: Callable[..., None] = click.option(
        "--metadata", type=Pair(), multiple=True, help="Only runs whose metadata has this value; again for more keys."
    )(with_filter)
    for field, name in reversed(list(names.items())):
        found = click.option(option_of(name), field, help=_HELP[field])(found)
    return found


class Pair(click.ParamType[tuple[str, str]]):
    """A key of metadata and its value."""

    name = "key=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not (key and equals and text):
            self.fail("write it as team=search", param, ctx)
        return key, text
