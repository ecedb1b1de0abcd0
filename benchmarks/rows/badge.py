"""Row 8: the badge."""

import http.client

from benchmarks import store
from benchmarks.options import Options
from benchmarks.processes import KEY, Running, bare, service
from benchmarks.result import Figures, Row
from benchmarks.store import Postgres
from benchmarks.wrk import load

CONNECTIONS = 64
GOAL = 1.0
BADGE = "/api/badge/experiment/prompt-v2.svg"
RUNS = 200


def badges(postgres: Postgres, options: Options) -> list[Row]:
    """Row 8: full answers, and 304s to who has the answer already."""
    database = postgres.create("badge")
    with bare() as quart, service(database) as server:
        _make_experiment(server)
        tag = _tag_of(server)
        plain, fresh, known = _rounds(quart, server, tag, options)
    stored = store.runs_in(database)
    return [
        Row(
            number=8,
            measure=f"badge, {name}, {CONNECTIONS} connections",
            service=f"{rates:,.0f} req/s",
            yardstick=f"bare Quart {plain:,.0f} req/s",
            result=f"{rates.over(plain):.2f} x",
            goal=f">= {GOAL} x",
            reached=rates.over(plain) >= GOAL,
            stored=stored,
            void=None if stored == RUNS else f"{RUNS} runs were acknowledged and {stored} stored",
            figures={"per_second": rates, "bare_quart_per_second": plain},
        )
        for name, rates in (("200", fresh), ("304", known))
    ]


def _rounds(quart: Running, server: Running, tag: str, options: Options) -> tuple[Figures, Figures, Figures]:
    targets: tuple[tuple[str, dict[str, str]], ...] = (
        (f"{quart.url}/badge", {}),
        (f"{server.url}{BADGE}", {}),
        (f"{server.url}{BADGE}", {"etag": tag}),
    )
    rates: list[list[float]] = [[], [], []]
    for number in range(options.rounds + 1):
        seconds = options.seconds if number else options.warm_up_seconds
        for (url, given), found in zip(targets, rates, strict=True):
            rate = load("get.lua", url, connections=CONNECTIONS, seconds=seconds, **given).rate
            if number:
                found.append(rate)
    plain, fresh, known = map(Figures.of, rates)
    return plain, fresh, known


def _make_experiment(server: Running) -> None:
    runs = [
        {"runId": f"badge-{number}", "provider": "openai", "model": "gpt-4o-mini", "experimentId": "prompt-v2"}
        for number in range(RUNS)
    ]
    status, _ = server.request(
        "POST", "/api/ingest", {"projectId": "badge", "runs": runs}, {"Authorization": f"Bearer {KEY}"}
    )
    if status != http.client.OK:
        raise RuntimeError(f"The runs of the experiment were answered with {status}")


def _tag_of(server: Running) -> str:
    """The ETag of the badge, which a load with it gets 304s for."""
    _, headers = server.request("GET", BADGE)
    tag = headers["ETag"] or ""
    status, _ = server.request("GET", BADGE, headers={"If-None-Match": tag})
    if status != http.client.NOT_MODIFIED:
        raise RuntimeError(f"A badge that did not change was answered with {status}")
    return tag
