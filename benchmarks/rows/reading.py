"""Rows 5, 6, 7 and 13: reading with many stored runs."""

import gzip
import http.client
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from urllib.parse import urlencode

from benchmarks import store
from benchmarks.latency import Reader
from benchmarks.options import Options
from benchmarks.result import Figures, Row
from benchmarks.store import Connection
from benchmarks.volume import LARGEST, PROJECTS, Volume
from runtally.runs.read import PAGE_RUNS
from runtally.runs.scan import conditions_of
from runtally.runs.values import Direction, Place
from runtally.usage.filter import RunFilter

AGGREGATE_MS, PAGE_MS, EXPLORER_MS = 20, 40, 100
ACCURACY = 0.01
EXPLORER = "/runs"
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"range": "all"},
    {"project": LARGEST, "range": "30d"},
    {"project": LARGEST, "status": "error", "range": "30d"},
    {"project": "bench-0500", "range": "all"},
    {"model": "gpt-4o-mini", "range": "30d"},
    {"provider": "mistral", "status": "failed", "range": "30d"},
    {"minCost": "0.05", "range": "30d"},
    {"minLatency": "20000", "range": "30d"},
    {"metadataKey": "region", "metadataValue": "eu-west-1", "range": "30d"},
    {"q": "no-such-run", "range": "all"},
)
SORTS = ("cost", "-cost", "latency", "tokensIn", "tokensOut")
"""By numbers, the highest first, or the lowest with a minus."""
SORTED_FILTERS: tuple[dict[str, str], ...] = ({"range": "30d"}, {"project": LARGEST, "range": "30d"})
# By way of no index, because there need be none: it is asked once, and no part of what is timed.
_PLACES = """
  SELECT occurred_at, id, project_id
    FROM runs
   WHERE {walk} AND {keep}
ORDER BY occurred_at DESC, id DESC, project_id DESC
   LIMIT {limit}
"""
_EXACT = """
  SELECT date_bin($2::interval, occurred_at, 'epoch') AS bucket,
         percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95
    FROM runs
   WHERE project_id = $1 AND occurred_at >= $3 AND latency_ms IS NOT NULL
GROUP BY 1
"""


def aggregate_row(admin: Reader, volume: Volume, options: Options) -> Row:
    """Row 5."""
    times = admin.p95_ms("/api/metrics?aggregate=1&range=30d", options)
    return Row(
        number=5,
        measure=f"aggregate=1 over {PROJECTS:,} projects, 30 d, at {volume.runs:,} runs, p95",
        service=f"{times:.1f} ms",
        result=f"{times.median:.1f} ms",
        goal=f"< {AGGREGATE_MS} ms",
        reached=times.median < AGGREGATE_MS,
        stored=store.runs_in(volume.url),
        figures={"p95_ms": times},
    )


def accuracy_row(admin: Reader, volume: Volume) -> Row:
    """Row 6: each bucket's p95 compared with the one that Postgres finds by sorting."""
    worst, buckets = 0.0, 0
    for name, interval in (("7d", timedelta(hours=1)), ("30d", timedelta(hours=6))):
        _, body = admin.get(f"/api/metrics?projectId={LARGEST}&range={name}")
        answered = {datetime.fromisoformat(point["t"]): point["p95LatencyMs"] for point in json.loads(body)["points"]}
        since = min(answered)

        async def work(connection: Connection, *values: object) -> dict[datetime, int]:
            return {row["bucket"]: row["p95"] for row in await connection.fetch(_EXACT, *values)}

        exact = store.run(volume.url, lambda c, v=(LARGEST, interval, since), w=work: w(c, *v))  # type: ignore[misc]
        buckets += len(exact)
        worst = max(worst, *(abs(answered[bucket] - p95) / max(p95, 1) for bucket, p95 in exact.items()))
    return Row(
        number=6,
        measure=f"p95 compared with the exact nearest rank, {buckets} buckets, at {volume.runs:,} runs",
        service=f"off by {worst:.2%} at most",
        result=f"{worst:.2%}",
        goal=f"<= {ACCURACY:.0%}",
        reached=worst <= ACCURACY,
        stored=store.runs_in(volume.url),
        note="The proof for any input is in the property tests.",
        figures={"largest_error": Figures((worst,))},
    )


def page_row(visitor: Reader, volume: Volume, options: Options) -> Row:
    """Row 7: the page, whose first charts come with it."""
    path = f"/projects/{LARGEST}?range=30d"
    page = visitor.p95_ms(path, options)
    packed = len(gzip.compress(visitor.get(path)[1], 6))
    return Row(
        number=7,
        measure=f"project page with its charts, 30 d, at {volume.runs:,} runs, p95",
        service=f"{page:.1f} ms, {packed / 1024:.0f} KB gzipped",
        result=f"{page.median:.1f} ms",
        goal=f"< {PAGE_MS} ms",
        reached=page.median < PAGE_MS,
        stored=store.runs_in(volume.url),
        figures={"page_p95_ms": page, "page_gzipped_bytes": Figures((packed,))},
    )


def explorer_row(visitor: Reader, volume: Volume, options: Options) -> Row:
    """Row 13: each filter's first page and, where there are so many, its page 1,000; the same of each order."""
    row = {"number": 13, "measure": f"run explorer at {volume.runs:,} runs, p95", "goal": f"< {EXPLORER_MS} ms"}
    if visitor.get(EXPLORER)[0] != http.client.OK:
        return Row(**row, service="", result="", reached=None, note=f"There is no {EXPLORER}.")  # type: ignore[arg-type]
    times: dict[str, Figures] = {}
    for given in FILTERS:
        first = f"{EXPLORER}?{urlencode(given)}"
        deep, depth = _older(volume, given, options.deep_page)
        name = urlencode(given) or "all"
        times[f"{name} page 1"] = visitor.p95_ms(first, options, is_one_of_many=True)
        if depth > 1:
            times[f"{name} page {depth}"] = visitor.p95_ms(deep, options, is_one_of_many=True)
    for given, sort, page in product(SORTED_FILTERS, SORTS, (1, options.deep_page)):
        query = urlencode({**given, "sort": sort, "page": page})
        times[query] = visitor.p95_ms(f"{EXPLORER}?{query}", options, is_one_of_many=True)
    name, slowest = max(times.items(), key=lambda item: item[1].median)
    return Row(
        **row,  # type: ignore[arg-type]  # Of these types.
        service=f"slowest: {slowest:.1f} ms ({name})",
        result=f"{slowest.median:.1f} ms",
        reached=slowest.median < EXPLORER_MS,
        stored=store.runs_in(volume.url),
        figures=times,
    )


def _older(volume: Volume, given: Mapping[str, str], last: int) -> tuple[str, int]:
    """That page of a list, or its last one if it has fewer; and which one that is.

    Its address has the place of the run before it, as the link on the page before has: to follow a thousand of these, for
    each filter, takes longer than all other rows.
    """
    conditions = conditions_of(RunFilter.parse(given), datetime.now(UTC))
    limit = conditions.value((last - 1) * PAGE_RUNS + 1, "bigint")
    sql = _PLACES.format(walk=conditions.walk, keep=conditions.keep, limit=limit)

    async def work(connection: Connection) -> list[Place]:
        return [Place(*row) for row in await connection.fetch(sql, *conditions.values)]

    places = store.run(volume.url, work)
    page = max(1, math.ceil(len(places) / PAGE_RUNS))
    token = {Direction.OLDER.value: places[(page - 1) * PAGE_RUNS - 1].token} if page > 1 else {}
    return f"{EXPLORER}?{urlencode({**given, **token})}", page
