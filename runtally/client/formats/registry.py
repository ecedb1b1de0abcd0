"""All formats, and how a file is recognised: by the columns of its first row."""

from collections.abc import Mapping

from runtally.client.formats import (
    anthropic_reports,
    helicone,
    langfuse,
    langsmith,
    litellm,
    mlflow,
    openai_reports,
    openrouter,
    own,
    posthog,
)
from runtally.client.formats.declaration import Format, Row, by_name

FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        own.OWN,
        langfuse.LANGFUSE,
        langsmith.LANGSMITH,
        litellm.LITELLM,
        mlflow.MLFLOW,
        posthog.POSTHOG,
        helicone.HELICONE,
        openrouter.CALLS,
        openrouter.ACTIVITY,
        openai_reports.USAGE,
        openai_reports.COSTS,
        anthropic_reports.USAGE,
        anthropic_reports.COSTS,
    )
}
COLUMNS = "columns"
"""The name for files that are of none of them: their columns are the fields of runs, or are mapped to them."""


def recognised(row: Row) -> Format | None:
    """Return the format that the columns of a row are those of; None if they are those of none."""
    names = by_name(row).keys()
    return next((each for each in FORMATS.values() if each.columns <= names), None)
