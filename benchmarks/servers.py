"""Compare servers: uvicorn, granian and hypercorn, each with the bare Quart route and with the service.

python -m benchmarks.servers

Single runs over 64 connections, with one worker and with two; the programs take turns, so that a noisy machine is noisy
for all of them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import store
from benchmarks.options import Options
from benchmarks.processes import Running, free_port, runtally, serving
from benchmarks.result import Figures
from benchmarks.rows.ingest import bare_rate, post
from benchmarks.store import postgres
from benchmarks.wrk import check_installed

WORKERS = (1, 2)
BARE = "benchmarks.bare:app"
SERVICE = "webapp.cli.worker:application"


def uvicorn(application: str, port: int, workers: int) -> list[str]:
    """Return the command of uvicorn with uvloop and httptools, as in `runtally serve`."""
    factory = ["--factory"] if application == SERVICE else []
    return [
        *("uvicorn", application, *factory, "--loop", "uvloop", "--http", "httptools", "--ws", "none"),
        *("--no-access-log", "--log-level", "warning", "--port", str(port), "--workers", str(workers)),
    ]


def granian(application: str, port: int, workers: int) -> list[str]:
    """Return the command of granian with uvloop."""
    factory = ["--factory"] if application == SERVICE else []
    return [
        *("granian", application, *factory, "--interface", "asgi", "--loop", "uvloop", "--no-ws"),
        *("--log-level", "warning", "--port", str(port), "--workers", str(workers)),
    ]


def hypercorn(application: str, port: int, workers: int) -> list[str]:
    """Return the command of hypercorn with uvloop; it evaluates the text after the colon."""
    call = "()" if application == SERVICE else ""
    return [
        *("hypercorn", application + call, "--worker-class", "uvloop", "--log-level", "warning"),
        *("--bind", f"127.0.0.1:{port}", "--workers", str(workers)),
    ]


PROGRAMS: tuple[Callable[[str, int, int], Sequence[str]], ...] = (uvicorn, granian, hypercorn)


@dataclass(frozen=True, slots=True)
class Application:
    """An application that the programs serve, and its load."""

    name: str
    target: str
    path: str
    rate: Callable[[Running, float], float]
    environment: Mapping[str, str]


def main() -> None:
    """Prints a line for each application, number of workers and program."""
    options = Options.of_environment()
    check_installed()
    with postgres() as server:
        database = server.create("servers")
        runtally("migrate", database_url=database)
        runtally("prices", "sync", database_url=database)
        for application in (
            Application("bare Quart", BARE, "/live", bare_rate, {}),
            Application("service", SERVICE, "/api/health", _posting(database), {"DATABASE_URL": database}),
        ):
            for workers in WORKERS:
                _compare(application, workers, options)
        print(f"{store.runs_in(database):,} runs stored")
        server.drop("servers")


def _posting(database: str) -> Callable[[Running, float], float]:
    def rate(server: Running, seconds: float) -> float:
        posted = post(server, database, seconds)
        if posted.void:
            raise RuntimeError(posted.void)
        return posted.rate

    return rate


def _compare(application: Application, workers: int, options: Options) -> None:
    found: dict[str, list[float]] = {program.__name__: [] for program in PROGRAMS}
    for _ in range(options.rounds):
        for program in PROGRAMS:
            with _serving(program, application, workers) as server:
                application.rate(server, options.warm_up_seconds)
                found[program.__name__].append(application.rate(server, options.seconds))
    for name, rates in found.items():
        print(f"{application.name:12} {workers} worker(s)  {name:10} {Figures.of(rates):,.0f} req/s", flush=True)


@contextmanager
def _serving(
    program: Callable[[str, int, int], Sequence[str]], application: Application, workers: int
) -> Iterator[Running]:
    port = free_port()
    command = [sys.executable, "-m", *program(application.target, port, workers)]
    with serving(command, port, application.path, application.environment) as server:
        yield server


if __name__ == "__main__":
    main()
