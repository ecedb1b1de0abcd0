"""Runs as Parquet: what is read back is what was written, to the last digit."""

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO

import pytest
from arro3.core import DataType
from arro3.io import read_parquet

from runtally.errors import StoreUnavailable
from runtally.models.arrow import USD_DIGITS
from runtally.models.run import CostSource, Status, StoredRun
from runtally.runs.parquet import parquet

NOW = datetime(2026, 11, 21, 12, 0, 0, 1, tzinfo=UTC)
FULL = StoredRun(
    project_id="p",
    id="=1+1",
    occurred_at=datetime(2020, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC),
    provider="acme",
    model="modèle \U0001f600",
    status=Status.TIMEOUT,
    input_tokens=2**53,
    units={"webSearch": 2, "audioSeconds": 12.5},
    service_tier="flex",
    latency_ms=0,
    cost_usd=Decimal("99999999999999999999999999.999999999999"),
    cost_source=CostSource.CATALOG,
    cost_estimated=False,
    reported_cost_usd=Decimal("1E-12"),
    metadata={"n": [1, {"a": None}]},
    created_at=NOW,
    version=1,
)
PLAIN = StoredRun(
    project_id="p",
    id="plain",
    occurred_at=NOW.astimezone(UTC),
    provider="acme",
    model="m",
    status=Status.SUCCESS,
    created_at=NOW + timedelta(days=1),
    version=1,
)


async def in_chunks(*chunks: Sequence[StoredRun]) -> AsyncIterator[Sequence[StoredRun]]:
    for chunk in chunks:
        yield chunk


async def written(*chunks: Sequence[StoredRun]) -> BytesIO:
    return BytesIO(b"".join([part async for part in parquet(in_chunks(*chunks))]))


async def test_a_parquet_file_holds_the_runs_that_were_written() -> None:
    table = read_parquet(await written([FULL, PLAIN], [PLAIN])).read_all()

    def column(name: str) -> list[object]:
        return list(table[name].to_pylist())

    assert tuple(table.schema.names) == StoredRun.__struct_fields__
    assert table.num_rows == 3
    assert column("cost_usd") == [FULL.cost_usd, None, None]
    assert column("reported_cost_usd") == [Decimal("0.000000000001"), None, None]
    assert column("occurred_at") == [FULL.occurred_at, NOW, NOW]
    assert column("input_tokens") == [2**53, None, None]
    assert column("cost_estimated") == [False, None, None]
    assert column("metadata") == ['{"n":[1,{"a":null}]}', None, None]
    assert column("model") == [FULL.model, "m", "m"]
    assert column("status") == ["timeout", "success", "success"]
    assert column("id") == ["=1+1", "plain", "plain"]


async def test_money_and_times_have_the_types_that_other_programs_expect() -> None:
    schema = read_parquet(await written([FULL])).schema

    assert schema.field("cost_usd").type == DataType.decimal128(USD_DIGITS, 12)
    assert schema.field("occurred_at").type == DataType.timestamp("us", tz="UTC")


async def test_a_file_without_runs_has_its_columns() -> None:
    table = read_parquet(await written()).read_all()

    assert (table.num_rows, table.num_columns) == (0, len(StoredRun.__struct_fields__))


async def test_a_file_is_sent_while_it_is_written_and_ends_with_its_reader() -> None:
    asked = 0

    async def endless() -> AsyncIterator[Sequence[StoredRun]]:
        nonlocal asked
        while True:
            asked += 1
            yield [FULL] * 5_000

    parts = parquet(endless())
    first = await anext(parts)
    await parts.aclose()  # type: ignore[attr-defined]  # A generator.

    assert first.startswith(b"PAR1")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("parquet")]


async def test_an_error_of_reading_runs_reaches_the_reader_of_the_file() -> None:
    async def broken() -> AsyncIterator[Sequence[StoredRun]]:
        yield [FULL]
        raise StoreUnavailable

    with pytest.raises(StoreUnavailable):
        _ = [part async for part in parquet(broken())]


def test_a_worker_carries_the_library_only_once_it_was_asked_for() -> None:
    code = "import sys, webapp.app; sys.exit(any(name.startswith('arro3') for name in sys.modules))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603  # Our own code.
