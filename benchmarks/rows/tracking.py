"""Rows 17, 18 and 20: what keys of metadata that are tracked cost where they are read, and where runs come in."""

from urllib.parse import urlencode

from benchmarks import store
from benchmarks.latency import Reader
from benchmarks.options import Options
from benchmarks.processes import Running, service
from benchmarks.result import Figures, Row
from benchmarks.rows.ingest import BATCH, BATCH_CONNECTIONS, Ingested, first_void, post_batches
from benchmarks.store import Postgres
from benchmarks.volume import LARGEST, Volume

GROUPED_MS, TWO_DIMENSIONS_MS = 50, 50
TRACKED_GOAL = 0.85
KEYS = {"metadata.feature": 5, "metadata.team": 200, "user": 50_000}
"""Tracked keys of the stored runs, and how many values each has."""
RANGES = ("24h", "7d", "30d")
PAGE_RANGES = (*RANGES, "12mo")
SENT_KEYS = ("region", "release", "feature", "attempt")
"""Keys of metadata that each run of the load has."""
_TRACK_NONE = "DELETE FROM tracked_keys"
_TRACK = "INSERT INTO tracked_keys (project_id, key, names, state, changed_at) VALUES ('', '{key}', '{{{key}}}', 'tracked', now())"


def grouped_row(visitor: Reader, volume: Volume, options: Options) -> Row:
    """Row 17: the project page by each key over each range, and what the API answers."""
    times = {
        f"page by {key} ({values:,} values), {name}": visitor.p95_ms(
            f"/projects/{LARGEST}?{urlencode({'by': key, 'range': name})}", options, is_one_of_many=True
        )
        for key, values in KEYS.items()
        for name in PAGE_RANGES
    }
    times |= {
        f"{key} ({values:,} values), {name}": _usage(visitor, options, range=name, groupBy=key)
        for key, values in KEYS.items()
        for name in RANGES
    }
    return _row(17, "groups of a tracked key, 24 h to 12 months", times, GROUPED_MS, volume)


def two_dimensions_row(admin: Reader, volume: Volume, options: Options) -> Row:
    """Row 20: a key by model and provider by model, each day of 30."""
    times = {
        " and ".join(by): _usage(admin, options, range="30d", bucketWidth="1d", groupBy=by)
        for by in (["metadata.feature", "model"], ["metadata.team", "provider"], ["provider", "model"])
    }
    return _row(20, "GET /api/usage, two dimensions, 30 d by day", times, TWO_DIMENSIONS_MS, volume)


def _usage(admin: Reader, options: Options, **query: object) -> Figures:
    path = f"/api/usage?{urlencode({'projectId': LARGEST, **query}, doseq=True)}"
    return admin.p95_ms(path, options, is_one_of_many=True)


def _row(number: int, measure: str, times: dict[str, Figures], goal_ms: int, volume: Volume) -> Row:
    name, slowest = max(times.items(), key=lambda item: item[1].median)
    return Row(
        number=number,
        measure=f"{measure}, at {volume.runs:,} runs, p95",
        service=f"slowest: {slowest:.1f} ms ({name})",
        result=f"{slowest.median:.1f} ms",
        goal=f"< {goal_ms} ms",
        reached=slowest.median < goal_ms,
        stored=store.runs_in(volume.url),
        figures=times,
    )


def tracked_batches(postgres: Postgres, options: Options) -> list[Row]:
    """Row 18: the same batches, relay on, where four of their keys are tracked, and where none is, in turn."""
    names = ("tracked", "untracked")
    databases = {name: postgres.create(f"ingest_{name}") for name in names}
    rounds: dict[str, list[Ingested]] = {name: [] for name in names}
    with service(databases["tracked"]) as tracked, service(databases["untracked"]) as untracked:
        servers: dict[str, Running] = {"tracked": tracked, "untracked": untracked}
        for name, url in databases.items():
            keys = SENT_KEYS if name == "tracked" else ()
            store.execute(url, _TRACK_NONE, *(_TRACK.format(key=key) for key in keys))
            post_batches(servers[name], url, options.warm_up_seconds)
        for _ in range(options.rounds):
            for name in names:
                rounds[name].append(post_batches(servers[name], databases[name], options.seconds))
    rates = {name: Figures.of(one.rate for one in rounds[name]) for name in names}
    stored = store.runs_in(databases["tracked"])
    for name in names:
        postgres.drop(f"ingest_{name}")
    ratio = rates["tracked"].over(rates["untracked"])
    return [
        Row(
            number=18,
            measure=f"batches of {BATCH} with {len(SENT_KEYS)} tracked keys, {BATCH_CONNECTIONS} connections, relay on",
            service=f"{rates['tracked']:,.0f} runs/s",
            yardstick=f"with none {rates['untracked']:,.0f} runs/s",
            result=f"{ratio:.2f} x",
            goal=f">= {TRACKED_GOAL} x",
            reached=ratio >= TRACKED_GOAL,
            stored=stored,
            void=first_void([*rounds["tracked"], *rounds["untracked"]]),
            figures={f"{name}_runs_per_second": rates[name] for name in names},
        )
    ]
