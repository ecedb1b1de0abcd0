"""Rows 3, 4 and 11: what changes with the number of stored runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import store
from benchmarks.latency import Reader
from benchmarks.options import Options
from benchmarks.processes import Running
from benchmarks.result import Figures, Row
from benchmarks.rows.ingest import Ingested, first_void, post, post_batches
from benchmarks.volume import LARGEST, Volume

RATE_GOAL = 0.95
METRICS_MS, METRICS_GROWTH = 10, 1.3
RANGES = ("7d", "30d")


@dataclass(frozen=True, slots=True)
class Ingest:
    """Rates with a large table and, in turn with them, with an empty one."""

    full: Figures
    empty: Figures
    void: str | None


@dataclass(frozen=True, slots=True)
class Size:
    """The results at one number of stored runs."""

    runs: int
    stored: int
    ingest: Mapping[str, Ingest]
    metrics: Mapping[str, Figures]
    """p95 of the server's time in milliseconds, by range."""


def ingest_rates(volume: Volume, full: Running, empty_url: str, empty: Running, options: Options) -> dict[str, Ingest]:
    """Single runs and batches."""
    found = {}
    for name, load in (("single", post), ("batch", post_batches)):
        rounds: tuple[list[Ingested], list[Ingested]] = [], []
        for number in range(options.rounds + 1):
            seconds = (options.seconds if number else options.warm_up_seconds) / 2
            for (server, url), taken in zip(((empty, empty_url), (full, volume.url)), rounds, strict=True):
                ingested = load(server, url, seconds)
                if number:
                    taken.append(ingested)
        before, after = (Figures.of(each.rate for each in taken) for taken in rounds)
        found[name] = Ingest(after, before, first_void([*rounds[0], *rounds[1]]))
    return found


def metrics_times(reader: Reader, options: Options) -> dict[str, Figures]:
    """GET /api/metrics of the largest project, in each range."""
    return {name: reader.p95_ms(f"/api/metrics?projectId={LARGEST}&range={name}", options) for name in RANGES}


def ingest_rows(sizes: Sequence[Size]) -> list[Row]:
    """Row 3, at the largest size."""
    size = sizes[-1]
    return [
        Row(
            number=3,
            measure=f"{name} ingest at {size.runs:,} runs, relay on",
            service=f"{found.full:,.0f} runs/s",
            yardstick=f"empty table {found.empty:,.0f} runs/s",
            result=f"{found.full.over(found.empty):.2f} x",
            goal=f">= {RATE_GOAL} x",
            reached=found.full.over(found.empty) >= RATE_GOAL,
            stored=size.stored,
            void=found.void,
            figures={"runs_per_second": found.full, "empty_runs_per_second": found.empty},
        )
        for name, found in size.ingest.items()
    ]


def metrics_rows(first: Size, size: Size) -> list[Row]:
    """Row 4: a size compared with the smallest."""
    rows = []
    for name in RANGES:
        now, before = size.metrics[name], first.metrics[name]
        rows.append(
            Row(
                number=4,
                measure=f"GET /api/metrics {name} at {size.runs:,} runs, p95",
                service=f"{now:.1f} ms",
                yardstick=f"at {first.runs:,} {before:.1f} ms",
                result=f"{now.median:.1f} ms, {now.over(before):.2f} x",
                goal=f"< {METRICS_MS} ms, <= {METRICS_GROWTH} x",
                reached=now.median < METRICS_MS and now.over(before) <= METRICS_GROWTH if size is not first else None,
                stored=size.stored,
                note="" if size is not first else "Needs two SIZES.",
                figures={"p95_ms": now, "smallest_p95_ms": before},
            )
        )
    return rows


def storage_row(volume: Volume) -> Row:
    """Row 11."""
    stored = store.runs_in(volume.url)
    each = store.stored_bytes(volume.url) / stored
    return Row(
        number=11,
        measure=f"stored bytes a run at {volume.runs:,} runs",
        service=f"{each:.0f} bytes",
        result=f"{each:.0f} bytes",
        goal="none; row 22 has one",
        reached=None,
        stored=stored,
        note=store.largest_relations(volume.url),
        figures={"bytes": Figures((each,))},
    )
