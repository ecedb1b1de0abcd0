"""`make bench`: measure the yardsticks and the service in turn, print a table, write results.json and the plot."""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import against, at_volume, machine, plot, table
from benchmarks.options import Options
from benchmarks.progress import Progress
from benchmarks.result import Figures, Row
from benchmarks.rows import archive, badge, cells, connections, cost, ingest, otlp, relay, running, tracking
from benchmarks.rows.volumes import Size
from benchmarks.store import Postgres, postgres
from benchmarks.wrk import check_installed

HERE = Path(__file__).parent
BY_NUMBER: dict[int, tuple[str, Callable[[Postgres, Options], list[Row]]]] = {
    1: ("single runs", ingest.single_runs),
    2: ("batches", ingest.batches),
    8: ("badge", badge.badges),
    9: ("memory", running.memory),
    10: ("start", running.start),
    12: ("two workers", ingest.several_workers),
    14: ("cost", cost.costs),
    15: ("relay", relay.relayed),
    18: ("tracked keys", tracking.tracked_batches),
    19: ("OTLP", otlp.otlp),
    21: ("cells", cells.two_cells),
    22: ("archive", archive.archived),
    23: ("connections", connections.flushes),
}
"""The rows that need no stored runs."""


def main() -> None:
    """Everything that ROWS and SIZES ask for; results are written for whatever was measured."""
    options = Options.of_environment()
    check_installed()
    # So that whatever was measured is written also when a time limit ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    rows: list[Row] = []
    sizes: list[Size] = []
    with postgres() as server:
        if options.against:
            against.compare(options.against, server, options)
            return
        described = machine.described(server)
        try:
            _measure(server, options, rows, sizes)
        finally:
            # What was measured before a failure took its time, too.
            rows.sort(key=lambda row: row.number)
            _write(described, options, rows, sizes)
            print(*table.lines(rows), sep="\n")
    sys.exit(any(row.void for row in rows))


def _measure(server: Postgres, options: Options, rows: list[Row], sizes: list[Size]) -> None:
    wanted = [number for number in BY_NUMBER if number in options.rows]
    with Progress(len(wanted) + at_volume.steps(options)) as progress:
        for number in wanted:
            name, measure = BY_NUMBER[number]
            progress.begin(f"row {number}: {name}")
            rows += measure(server, options)
            progress.end()
        at_volume.measure(server, options, progress, rows, sizes)
    for name in ("ingest", "badge"):
        server.drop(name)


def _write(described: dict[str, object], options: Options, rows: list[Row], sizes: list[Size]) -> None:
    folder = Path(os.environ.get("BENCH_RESULTS") or HERE)
    results = {
        "machine": described,
        "short": options.is_short,
        "rows": [asdict(row) | {"verdict": row.verdict, "figures": _figures(row.figures)} for row in rows],
        "sizes": [asdict(size) for size in sizes],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
    plot.write(sizes, folder / "results.svg")


def _figures(figures: object) -> dict[str, object]:
    named: dict[str, Figures] = dict(figures)  # type: ignore[call-overload]  # A mapping of figures.
    return {name: {"median": each.median, "values": each.values} for name, each in named.items()}


if __name__ == "__main__":
    main()
