"""Row 16: every page that shows what grows with the runs."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from benchmarks import store
from benchmarks.latency import Reader
from benchmarks.options import Options
from benchmarks.result import Row
from benchmarks.volume import EXPERIMENTER, LARGEST, Volume

PAGE_MS = 50
_EXPERIMENT = f"/experiments/{EXPERIMENTER}/prompt-1"
PAGES = (
    *("/", "/?range=24h", "/?range=30d", "/?sort=change", "/?metric=errors", "/?metric=latency"),
    *("/?model=gpt-4o", "/?provider=openai"),
    *(f"/projects/{LARGEST}{given}" for given in ("", "?range=24h", "?range=30d", "?model=gpt-4o", "?provider=openai")),
    *(f"/projects/{LARGEST}?status={status}&range=30d" for status in ("success", "error")),
    *(f"/projects/{EXPERIMENTER}{given}" for given in ("?range=30d", "?range=30d&experiment=prompt-1")),
    *(f"/projects/{LARGEST}/{part}" for part in ("costs", "sessions", "traces", "agents", "compare")),
    *(f"/projects/{LARGEST}/{part}" for part in ("errors", "speed", "cache", "budgets", "settings", "send")),
    "/breakdown",
    *("/experiments", _EXPERIMENT),
    *("/runs", f"/runs?project={LARGEST}", f"/runs?project={EXPERIMENTER}&experiment=prompt-1"),
    *("/admin/prices", "/admin/prices/covered", "/admin/prices/catalogue", "/admin/prices/discounts"),
    *("/admin/users", "/admin/audit", "/admin/health", "/admin/budgets", "/admin/clients"),
)


def pages_row(visitor: Reader, volume: Volume, options: Options) -> Row:
    """Measure as an admin who sees all projects."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    past = {"since": now - timedelta(days=12, hours=7), "until": now - timedelta(days=9)}
    in_url = urlencode({name: f"{at:%Y-%m-%dT%H:%MZ}" for name, at in past.items()})
    paths = (*PAGES, f"/?{in_url}", f"/projects/{LARGEST}?{in_url}")
    times = {path: visitor.p95_ms(path, options, is_one_of_many=True) for path in paths}
    path, slowest = max(times.items(), key=lambda item: item[1].median)
    return Row(
        number=16,
        measure=f"{len(paths)} pages at {volume.runs:,} runs, p95",
        service=f"slowest: {slowest:.1f} ms ({path})",
        result=f"{slowest.median:.1f} ms",
        goal=f"< {PAGE_MS} ms",
        reached=slowest.median < PAGE_MS,
        stored=store.runs_in(volume.url),
        figures=times,
    )
