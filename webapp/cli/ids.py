"""Parse ids on a command line by the rules of ingest."""

from typing import Any

import click

from runtally.fields import trimmed


class _Id(click.ParamType[str]):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401, ARG002  # Click's.
        return trimmed(value)


ID = _Id()
"""The type of an argument or option that is the id of a project or experiment."""
