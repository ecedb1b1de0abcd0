"""The pricing registry, and repricings by it: their scope, their progress, and the changed costs."""

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Date, Index, Numeric, TextClause, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ExcludeConstraint
from sqlalchemy.types import Boolean
from sqlmodel import SQLModel

from runtally.models.base import Json, PricePerMillion, TextArray, Timestamp, column, identity
from runtally.units import PRICE_COLUMNS

AMOUNT_COLUMNS = (*PRICE_COLUMNS, "per_thousand_requests")
"""The amounts of a price, in the order of forms and lists."""
RATE_COLUMNS = (*AMOUNT_COLUMNS, "unit_rates", "variants")
"""Everything that decides what a run is charged."""


class Match(StrEnum):
    """The way in which an entry matches names."""

    EXACT = "exact"
    PREFIX = "prefix"
    REGEX = "regex"


class PriceSource(StrEnum):
    """The owner of a price. An entry that an admin changed is an admin's, and catalogue syncs leave it alone."""

    CATALOGUE = "catalogue"
    ADMIN = "admin"


# Equal texts in an exclusion constraint, as ranges of one text each. An operator for texts would need the extension
# btree_gist, which not every owner of a database may install.
_PERIOD = (text("tstzrange(effective_from, effective_to)"), "&&")


def _same(expression: str) -> tuple[TextClause, str]:
    return text(f"text_range({expression}, {expression}, '[]')"), "&&"


class PriceEntry(SQLModel, table=True):
    """US dollars per million tokens of one provider's model, from a time on, above a number of input tokens.

    A price tier for long contexts is an entry of its own: the one with the greatest `above_input_tokens` below the run's
    input tokens is in force, for all of the run's tokens.
    """

    __tablename__ = "price_entries"
    __table_args__ = (
        CheckConstraint("match IN ('exact', 'prefix', 'regex')", name="match"),
        CheckConstraint("(match = 'exact') = (pattern IS NULL)", name="pattern"),
        CheckConstraint("source IN ('catalogue', 'admin')", name="source"),
        CheckConstraint("effective_from < effective_to", name="period"),
        CheckConstraint("above_input_tokens >= 0", name="above_input_tokens"),
        CheckConstraint("currency = 'USD'", name="currency"),
        # One price for a name at a time. `pricing.entries` compares aliases: the database has no index for them.
        ExcludeConstraint(
            _same("coalesce(project_id, '')"),
            _same("provider"),
            _same("match"),
            _same("coalesce(pattern, lower(model))"),
            (text("int8range(above_input_tokens, above_input_tokens, '[]')"), "&&"),
            _PERIOD,
            where=text("withdrawn_at IS NULL"),
            name="ex_price_entries_overlap",
            deferrable=True,
            initially="IMMEDIATE",
        ),
        # A sync finds its earlier entries by their place in the catalogue.
        Index("uq_price_entries_catalogue_key", "catalogue_key", unique=True),
    )

    id: int | None = identity()
    project_id: str | None = column("Project that has negotiated this price; empty: all.", default=None)
    provider: str = column("Provider, in lower case.")
    model: str = column("Model; an exact match, and the name shown for patterns.")
    aliases: list[str] = column("Other names that match exactly.", TextArray)
    match: str = column("exact, prefix or regex: how pattern is read.")
    pattern: str | None = column("Prefix of the model name, or regular expression over all of it.", default=None)
    above_input_tokens: int = column("In force for runs with more input tokens than this.", BigInteger)
    input_per_million: Decimal | None = column("USD per million input tokens.", PricePerMillion, default=None)
    output_per_million: Decimal | None = column("USD per million output tokens.", PricePerMillion, default=None)
    cache_read_per_million: Decimal | None = column(
        "USD per million input tokens read from a cache; empty: as input.", PricePerMillion, default=None
    )
    cache_write_per_million: Decimal | None = column(
        "USD per million input tokens written to a cache; empty: as input.", PricePerMillion, default=None
    )
    reasoning_per_million: Decimal | None = column(
        "USD per million reasoning tokens; empty: as output.", PricePerMillion, default=None
    )
    audio_input_per_million: Decimal | None = column(
        "USD per million input tokens of audio; empty: as input.", PricePerMillion, default=None
    )
    audio_output_per_million: Decimal | None = column(
        "USD per million output tokens of audio; empty: as output.", PricePerMillion, default=None
    )
    per_thousand_requests: Decimal | None = column(
        "USD per thousand requests, in addition to the tokens; empty: none.", PricePerMillion, default=None
    )
    unit_rates: str | None = column(
        "USD of further units: names and amounts, such as webSearch 10 (per thousand requests); empty: none.",
        default=None,
    )
    variants: str | None = column(
        "Other rates or factors for some runs, one a line: by service tier, region, hours, weekdays or input tokens; "
        "empty: none.",
        default=None,
    )
    currency: str = column("Currency of the amounts: USD.", default="USD", server_default="'USD'")
    effective_from: datetime | None = column("In force from (UTC); empty: ever since.", Timestamp, default=None)
    effective_to: datetime | None = column("In force until, exclusive (UTC); empty: still.", Timestamp, default=None)
    estimated: bool = column("Whether a cost computed from it is an estimate.", Boolean)
    source: str = column("catalogue or admin.")
    catalogue_key: str | None = column("Place in the catalogue it came from.", default=None)
    note: str | None = column("Why the price is what it is.", default=None)
    author: str | None = column("Who made the entry; empty: the catalogue.", default=None)
    created_at: datetime = column("When the entry was made (UTC).", Timestamp)
    updated_at: datetime = column("When the entry last changed (UTC).", Timestamp)
    withdrawn_at: datetime | None = column(
        "Since when it prices nothing; it stays for the runs that it priced (UTC).", Timestamp, default=None
    )


class ProjectDiscount(SQLModel, table=True):
    """A project's percentage off the list price. Prices of its own are not reduced."""

    __tablename__ = "project_discounts"
    __table_args__ = (
        CheckConstraint("percent > 0 AND percent <= 100", name="percent"),
        CheckConstraint("effective_from < effective_to", name="period"),
        ExcludeConstraint(
            _same("project_id"),
            _same("coalesce(provider, '')"),
            _PERIOD,
            name="ex_project_discounts_overlap",
        ),
    )

    id: int | None = identity()
    project_id: str = column("Project that pays less.")
    provider: str | None = column("Provider whose prices are discounted; empty: all others.", default=None)
    percent: Decimal = column("Percent off the list price.", Numeric(5, 2))
    effective_from: datetime | None = column("In force from (UTC); empty: ever since.", Timestamp, default=None)
    effective_to: datetime | None = column("In force until, exclusive (UTC); empty: still.", Timestamp, default=None)
    note: str | None = column("Why it is given.", default=None)
    author: str = column("Who entered it.")
    created_at: datetime = column("When it was entered (UTC).", Timestamp)
    updated_at: datetime = column("When it last changed (UTC).", Timestamp)


class CurrencyRate(SQLModel, table=True):
    """What a dollar is worth in the currency of pages from a day on. Without any rate pages show dollars."""

    __tablename__ = "currency_rates"
    __table_args__ = (CheckConstraint("rate > 0", name="rate"), UniqueConstraint("since"))

    id: int | None = identity()
    currency: str = column("Currency of pages, by ISO 4217; the same in all rows.")
    since: date = column("First day of the rate (UTC).", Date)
    rate: Decimal = column("What one US dollar is worth.", Numeric(18, 8))
    author: str = column("Who entered it.")
    created_at: datetime = column("When it was entered (UTC).", Timestamp)
    updated_at: datetime = column("When it last changed (UTC).", Timestamp)


class RepricingState(StrEnum):
    """The state of a repricing. First costs are compared without a change; once it is started, they are changed."""

    COMPARING = "comparing"
    COMPARED = "compared"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


class Repricing(SQLModel, table=True):
    """A repricing: its scope is read by project and time, first to compare and then to change costs."""

    __tablename__ = "repricings"
    __table_args__ = (
        CheckConstraint(
            "state IN ('comparing', 'compared', 'running', 'paused', 'done', 'cancelled')",
            name="state",
        ),
    )

    id: int | None = identity()
    state: str = column("comparing, compared, running, paused, done or cancelled.")
    project_id: str | None = column("Only runs of this project; empty: of all.", default=None)
    provider: str | None = column("Only runs of this provider, as sent; empty: of all.", default=None)
    model: str | None = column("Only runs of this model, as sent; empty: of all.", default=None)
    since: datetime | None = column("Only runs from then on (UTC).", Timestamp, default=None)
    until: datetime | None = column("Only runs before then (UTC).", Timestamp, default=None)
    at_project: str | None = column("Project that it has come to.", default=None)
    at_time: datetime | None = column("Time of the last run that was looked at (UTC).", Timestamp, default=None)
    at_run: str | None = column("The last run that was looked at.", default=None)
    runs: int = column("Runs in its scope when it began.", BigInteger)
    seen: int = column("Runs that were looked at.", BigInteger, default=0)
    changed: int = column("Runs whose cost was changed.", BigInteger, default=0)
    found: list[dict[str, Any]] = column(
        "By project, provider and model: runs that change, with their cost before and after.", Json
    )
    author: str = column("Who asked for it.")
    created_at: datetime = column("When it was asked for (UTC).", Timestamp)
    updated_at: datetime = column("When it last went on (UTC).", Timestamp)
