"""Who sent what by OTLP: counted in memory, and written down now and then."""

from datetime import UTC, datetime, timedelta

import pytest

from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.doctor import State, examine_database
from runtally.errors import StoreUnavailable
from runtally.models.otlp import Client
from runtally.otlp import clients
from runtally.otlp import clients as clients_module
from runtally.otlp.clients import MAX_KEPT, OTHERS, ClientCounts, Tally, select_clients, upsert_clients

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


class Clock:
    """A clock that a test sets forward."""

    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counts(clock: Clock) -> ClientCounts:
    return ClientCounts(clock)


def make_client(service: str = "shop", **fields: int) -> Client:
    return Client("p", service, "OTel", "traces", NOW, NOW, requests=1, **fields)


async def written(own: Database, project_id: str | None = None) -> list[Client]:
    async with own.connection() as connection:
        return list(await select_clients(connection, project_id, 10))


async def test_counts_are_added_up(own: Database, counts: ClientCounts, clock: Clock) -> None:
    counts.add("p", "shop", "OTel-OTLP-Exporter-Python/1.45.0 more", "traces", Tally(records=5, runs=2, no_calls=3))
    clock.now += timedelta(minutes=1)
    counts.add("p", " shop ", "OTel-OTLP-Exporter-Python/1.46.0", "traces", Tally(records=1, rejected=1))
    await counts.write(own)
    clock.now += timedelta(minutes=1)
    counts.add("p", "shop", "OTel-OTLP-Exporter-Python", "traces", Tally(records=1, twins=1))
    counts.add("p", None, "", "logs", Tally(records=4, told_elsewhere=4))
    await counts.write(own)

    unnamed, shop = sorted(await written(own, "p"), key=lambda client: client.signal)
    assert shop == Client(
        "p", "shop", "OTel-OTLP-Exporter-Python", "traces", NOW, NOW + timedelta(minutes=2), 3, 7, 2, 1, 1, 3, 0
    )  # fmt: skip
    assert (unnamed.service, unnamed.exporter, unnamed.told_elsewhere) == ("(unnamed)", "(unnamed)", 4)
    assert await written(own, "q") == []


async def test_nothing_is_written_while_nothing_comes(counts: ClientCounts) -> None:
    await counts.write(Database("postgresql://nowhere"))


async def test_counts_that_could_not_be_written_are_written_the_next_time(
    own: Database, counts: ClientCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> None:
        counts.add("p", "shop", "OTel", "traces", Tally(records=2))
        raise StoreUnavailable

    counts.add("p", "shop", "OTel", "traces", Tally(records=1))
    with monkeypatch.context() as patch:
        patch.setattr(clients_module, "upsert_clients", unavailable)
        with pytest.raises(StoreUnavailable):
            await counts.write(own)
    await counts.write(own)

    (client,) = await written(own)
    assert (client.requests, client.records) == (2, 3)


async def test_many_names_take_only_so_much_room(
    own: Database, counts: ClientCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 3)
    async with own.connection() as connection:
        await upsert_clients(connection, [make_client(str(number)) for number in range(3)])
        await upsert_clients(connection, [make_client(str(number), records=1) for number in range(1, 9)])
        found = {client.service: client.records for client in await select_clients(connection, None, 10)}
    assert found == {"0": 0, "1": 1, "2": 1, OTHERS: 6}

    for number in range(2 * MAX_KEPT):
        counts.add("p", f"{'x' * 200}{number}", "OTel", "traces", Tally())
        counts.add("p", str(number), "OTel", "traces", Tally())
    assert len(counts._clients) == MAX_KEPT  # noqa: SLF001  # What is not kept cannot be seen from outside.


CASES: list[tuple[dict[str, int], State, str]] = [
    ({"records": 5, "runs": 2, "no_calls": 3}, State.OK, "2 runs, 3 no calls of models"),
    ({"records": 1, "twins": 1}, State.OK, "1 duplicates of another record"),
    ({"records": 42, "no_calls": 42}, State.WARN, "42 no calls of models; docs/opentelemetry.md"),
    ({"records": 1, "told_elsewhere": 1}, State.WARN, "1 read from the agent's other signal instead"),
    ({}, State.WARN, "nothing in them"),
]


@pytest.mark.parametrize(("fields", "state", "says"), CASES)
async def test_the_doctor_explains_missing_runs(
    own_connection: Connection, fields: dict[str, int], state: State, says: str
) -> None:
    await upsert_clients(own_connection, [make_client("shop", **fields)])

    findings = [one for one in await examine_database(own_connection, system_clock) if one.check == "otlp"]

    (found,) = findings
    assert found.state is state
    assert found.message.startswith("shop by OTel to p: 1 request of traces since 2026-11-21 09:30")
    assert says in found.message
