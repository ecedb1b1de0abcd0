"""What is counted of OTLP requests, by client and for Prometheus."""

from quart import Quart

from runtally.db.database import Database
from runtally.otlp.clients import select_clients
from tests.otlp import JSON, request_for
from tests.serving import INGEST_KEY, Postgres, client_of, running_server
from tests.spans import SPAN, as_json, chat, make_logs, make_span


async def test_requests_are_counted_by_client(own_app: Quart, database: Database, project_id: str) -> None:
    bad = make_span(chat(gen_ai__request__model="x" * 300), spanId="3" * 16)
    nested = make_span(spanId="2" * 16, parentSpanId=SPAN)
    spans = (make_span(), nested, bad, make_span({}, spanId="4" * 16), make_span(spanId="0" * 16))
    bodies = [
        ("traces", as_json(request_for(project_id, *spans))),
        ("logs", as_json(make_logs({"attributes": []}, resource={"service.name": project_id}))),
        ("logs", as_json(make_logs({}, resource={"service.name": "goose", "runtally.project": project_id}))),
    ]
    headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}", "User-Agent": "OTel-OTLP-Exporter-Python/1.45.0"}
    for signal, body in bodies:
        await own_app.test_client().post(f"/v1/{signal}", data=body, headers=headers)

    await own_app.extensions["runtally"].cells.main.clients.write(database)

    async with database.connection() as connection:
        clients = {
            (client.service, client.signal): client for client in await select_clients(connection, project_id, 9)
        }
    traces, logs = clients[project_id, "traces"], clients[project_id, "logs"]
    assert traces.exporter == "OTel-OTLP-Exporter-Python"
    assert (traces.requests, traces.records, traces.runs, traces.twins) == (1, 5, 1, 1)
    assert (traces.rejected, traces.no_calls) == (2, 1)
    assert (logs.records, logs.no_calls) == (1, 1)
    assert clients["goose", "logs"].told_elsewhere == 1


async def test_prometheus_counts_records(postgres: Postgres, database_url: str, database: Database) -> None:
    with running_server(database_url, METRICS_TOKEN="m") as server:
        async with client_of(server.url, {"Authorization": f"Bearer {INGEST_KEY}", **JSON}) as client:
            bad = make_span(chat(gen_ai__request__model="x" * 300), spanId="3" * 16)
            nested = make_span(spanId="2" * 16, parentSpanId=SPAN)
            sent = request_for("counted", make_span(), nested, bad, make_span({}, spanId="4" * 16))
            await client.post("/v1/traces", content=as_json(sent))
            told = await client.get("/metrics", headers={"Authorization": "Bearer m"})

    for outcome, number in (("read", 4), ("run", 1), ("rejected", 1), ("twin", 1)):
        assert f'runtally_otlp_records_total{{outcome="{outcome}",signal="traces"}} {number}.0' in told.text
