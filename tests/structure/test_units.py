"""Every record of counts or prices has each kind of tokens; what else handles them reads `runtally.units`."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from runtally.client.run import OutgoingRun
from runtally.ingest.wire import MEANING, WireRun
from runtally.models.price import AMOUNT_COLUMNS, PriceEntry
from runtally.models.run import RunColumns, StoredRun
from runtally.pricing.draft import FIELDS, CatalogueEntry
from runtally.reporting.document import LiveRun
from runtally.units import COUNT_COLUMNS, PRICE_COLUMNS, TOKEN_KINDS, Usage, by_whole
from runtally.usage.totals import Totals

ROOT = Path(__file__).parents[2]
COUNTS = {
    Usage: Usage.__dataclass_fields__,
    RunColumns: RunColumns.model_fields,
    StoredRun: StoredRun.__struct_fields__,
    WireRun: WireRun.__struct_fields__,
    LiveRun: LiveRun.__struct_fields__,
    OutgoingRun: OutgoingRun.__struct_fields__,
    Totals: Totals._fields,
}
PRICES = {
    "PriceEntry": tuple(PriceEntry.model_fields),
    "CatalogueEntry": CatalogueEntry.__dataclass_fields__,
    "Draft": FIELDS,
}


@pytest.mark.parametrize("fields", [pytest.param(fields, id=record.__name__) for record, fields in COUNTS.items()])
def test_a_record_of_counts_has_each_kind_in_order(fields: Iterable[str]) -> None:
    assert tuple(name for name in fields if name.endswith("_tokens")) == COUNT_COLUMNS


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in PRICES.items()])
def test_a_record_of_prices_has_each_kind_in_order(fields: tuple[str, ...]) -> None:
    assert tuple(name for name in fields if name.endswith("_per_million")) == PRICE_COLUMNS
    assert set(AMOUNT_COLUMNS) <= set(fields)


def test_each_kind_has_a_meaning_for_clients() -> None:
    assert {kind.sent for kind in TOKEN_KINDS} <= set(MEANING.values())


def test_a_part_follows_its_whole() -> None:
    assert [kind.name for kind in by_whole()] == [
        "input",
        "cached_input",
        "cache_write",
        "audio_input",
        "output",
        "reasoning",
        "audio_output",
    ]


def test_no_other_module_lists_the_kinds() -> None:
    """The last kind that was added stands for all: only records, and what reads foreign names, name it."""
    allowed = {
        "units.py",
        "models/run.py",
        "models/price.py",
        "ingest/wire.py",
        "reporting/document.py",
        "usage/totals.py",
        "client/run.py",
        "pricing/catalogue_prices.py",
        "pricing/draft.py",
    }
    domain = ROOT / "runtally"
    naming = {
        path.relative_to(domain).as_posix() for path in domain.rglob("*.py") if "audio_output" in path.read_text()
    }
    pages = [*(ROOT / "webapp").rglob("*.py"), *(ROOT / "templates").rglob("*.html")]

    # OTLP has names of its own for everything.
    assert {name for name in naming if not name.startswith("otlp/")} == allowed
    assert [path.name for path in pages if "audio_output" in path.read_text()] == []
