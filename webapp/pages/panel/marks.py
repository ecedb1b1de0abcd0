"""Mark price changes, releases and notes on charts."""

from collections.abc import Iterable, Iterator

from runtally.money import USD_DECIMALS, from_pico
from runtally.pricing.book import PriceBook, PriceChange, changes_of
from runtally.pricing.cost import Price
from runtally.units import TOKEN_KINDS
from runtally.usage import masking
from runtally.usage.dimensions import OTHER, dimension_of_key
from runtally.usage.mark_queries import FirstSeen, MarkedNote, select_first_seen, select_notes
from runtally.usage.reader import UsageReader
from runtally.usage.report import Report
from runtally.usage.summary import Summary
from runtally.usage.timeline import TimeSpan
from runtally.usage.window import Window
from webapp import formats
from webapp.charts.marks import Mark, MarkKind
from webapp.charts.metrics import Metric
from webapp.view import is_open
from webapp.zone import local

RELEASE_KEY = "release"
"""The key of metadata whose new values are releases, where the project tracks it."""
_OF_COST = {Metric.COST, Metric.COST_PER_SUCCESS}
_MILLION = USD_DECIMALS // 2


def price_marks(summary: Summary, window: Window, book: PriceBook, project_id: str | None) -> tuple[Mark, ...]:
    """List the moments in a window when one of these models got another price."""
    models = [(provider, model) for provider, model in summary.groups if model != OTHER]
    changes = changes_of(models, book, window.start, window.until, project_id)
    return tuple(Mark(change.at, MarkKind.PRICE, _words(change), "price") for change in changes)


async def read_moments(reader: UsageReader, window: Window, tag: str | None) -> tuple[Mark, ...]:
    """List the notes of the reader's project in a window, of those about runs with a tag only this one's, and its new releases.

    Of all projects there are none. Of releases only those whose names this request may see.
    """
    project_id, release = reader.project_id, dimension_of_key(RELEASE_KEY)
    if project_id is None:
        return ()
    span = TimeSpan(window.start, window.until)
    notes = note_marks(await select_notes(reader.connection, project_id, span, tag))
    if not is_open(release) or masking.hidden_places(project_id, (release,)):
        return notes
    return *notes, *release_marks(await select_first_seen(reader.connection, project_id, RELEASE_KEY, span))


def note_marks(notes: Iterable[MarkedNote]) -> tuple[Mark, ...]:
    return tuple(
        Mark(at, MarkKind.NOTE, f"{formats.date(local(at))}, {formats.clock(local(at))}: {text}", text)
        for at, text in notes
    )


def release_marks(releases: Iterable[FirstSeen]) -> tuple[Mark, ...]:
    return tuple(
        Mark(at, MarkKind.RELEASE, f"{formats.date(local(at))}, {formats.clock(local(at))}: release {value}", value)
        for value, at in releases
    )


def all_marks(report: Report, book: PriceBook, project_id: str | None, releases: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Return the marks of a report: its releases and notes, and the price changes of its models."""
    prices = price_marks(report.models, report.bars.window, book, project_id) if report.models else ()
    return *prices, *releases


def marks_of(metric: Metric, marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Return the marks of a metric's chart: prices change nothing but cost."""
    found = (mark for mark in marks if mark.kind is not MarkKind.PRICE or metric in _OF_COST)
    return tuple(sorted(found, key=lambda mark: mark.at))


def _words(change: PriceChange) -> str:
    """16 Nov, gpt-x: input $3.00 to $2.00, per million tokens."""
    when = f"{formats.date(change.at)}, {change.model}"
    if change.before is None:
        return f"{when}: first price"
    if change.after is None:
        return f"{when}: price ends"
    amounts = ", ".join(_amounts(change.before, change.after))
    return f"{when}: {amounts or 'fee per request changed'}"


def _amounts(before: Price, after: Price) -> Iterator[str]:
    for kind in TOKEN_KINDS:
        old, new = before.rates[kind], after.rates[kind]
        if old != new:
            yield f"{kind.label.lower()} {per_million(old)} \u2192 {per_million(new)}"


def per_million(pico: int | None) -> str:
    """Return a price per million tokens in dollars."""
    return formats.NOTHING if pico is None else formats.money_exact(from_pico(pico).scaleb(_MILLION))
