"""`runtally-agents`: lists the model calls that coding agents keep on this machine, and sends them to a server."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from runtally_client.agent_files import registry
from runtally_client.agent_files.reading import Home, Notes, Run

if TYPE_CHECKING:
    from runtally_client.agent_files.sync import Sync

DONE, FAILED, WRONG_USAGE = 0, 1, 2
WATCH_SECONDS = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 runs were refused or the server was out of reach, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    for name in options.agent:
        if name in registry.UNFIT:
            return _complain(f"{name} can't be read: {registry.UNFIT[name]}.")
    if options.home and not options.home.is_dir():
        return _complain(f"{options.home} is no folder. --home is the folder that holds .claude, .codex and so on.")
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.WARNING)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # The reader of the list has what it wants.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  # Python flushes it once more at its end.
        return DONE
    except KeyboardInterrupt:
        return DONE


def _list(options: argparse.Namespace) -> int:
    notes = Notes()
    for run in _runs(options, notes):
        sys.stdout.write(json.dumps(run, ensure_ascii=False) + "\n")
    _say(notes)
    return DONE


def _report(options: argparse.Namespace) -> int:
    from runtally_client.agent_files import prices, report

    try:
        known = prices.of_file(options.prices) if options.prices else prices.bundled()
    except (OSError, ValueError):
        return _complain(f"{options.prices} is no file that `runtally prices export` wrote.")
    gc.disable()  # Runs refer to nothing that refers to them, and looking for that takes a fifth of the time.
    notes = Notes()
    groups, total = report.summed(_runs(options, notes), options.by, known)
    write = report.as_json if options.json else report.as_table
    sys.stdout.write(write(groups, total, options.by) + "\n")
    if known is None:
        sys.stderr.write(
            "No prices: this client was not built by `make clients`. Name a file of `runtally prices export` with --prices.\n"
        )
    elif total.unpriced:
        sys.stderr.write(f"{total.unpriced:,} calls have no price, and are not in the cost.\n")
    _say(notes)
    return DONE


def _sync(options: argparse.Namespace) -> int:
    from runtally_client.agent_files.sync import Sync

    try:
        sync = Sync(options.url, options.key, options.project)
    except ValueError:
        return _complain("--url must be like https://runtally.example.com.")
    return _send(options, sync)


def _send(options: argparse.Namespace, sync: Sync) -> int:
    told = ""
    while True:
        notes, before = Notes(), sync.processed
        is_taken = sync.send(_runs(options, notes), notes)
        if sync.processed > before or not options.watch:
            added, there = sync.processed - sync.duplicates, sync.duplicates + sync.reported
            sys.stdout.write(f"{added:,} runs added, {there:,} there already, {sync.refused:,} refused.\n")
            sys.stdout.flush()
        if sync.problem and sync.problem != told:
            _complain(f"Not all was sent: {sync.problem}.")
        told = sync.problem
        if not options.watch:
            _say(notes)
            if not is_taken:
                _complain("Some runs were not taken; run it again later, which adds nothing twice.")
            return DONE if is_taken else FAILED
        time.sleep(options.watch)


def _runs(options: argparse.Namespace, notes: Notes) -> Iterator[Run]:
    since = options.since.isoformat() if options.since else ""
    # The other commands have threads of their own, beside which no process should begin.
    processes = (os.cpu_count() or 1) if options.run is _report and not options.compactions else 1
    home = Home(options.home, processes, compactions=options.compactions)
    for run in registry.read(home, notes, options.agent):
        if run["timestamp"] >= since:
            user = getattr(options, "user", None)
            yield {**run, "userId": user} if user else run


def _say(notes: Notes) -> None:
    """Say what was left out, and what the files cannot tell."""
    for why, count in notes.left_out.items():
        sys.stderr.write(f"Left out: {why}{f' ({count:,} times)' if count > 1 else ''}.\n")
    for what in notes.unknown:
        sys.stderr.write(f"Not known: {what}.\n")


def _complain(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return WRONG_USAGE


def _day(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-11-01") from None
    return moment.astimezone(timezone.utc)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runtally-agents",
        description="The model calls that coding agents keep on this machine: counts, names and times, never a prompt or an answer.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reads = argparse.ArgumentParser(add_help=False)
    reads.add_argument(
        "--home", type=Path, help="the home folder to read, instead of your own and the agents' variables"
    )
    names = [agent.name for agent in registry.AGENTS]
    reads.add_argument("--agent", action="append", default=[], choices=[*names, *registry.UNFIT], metavar="NAME",
                       help=f"one of {', '.join(names)}; can be repeated, and is all of them by default")  # fmt: skip
    reads.add_argument("--since", type=_day, metavar="DATE", help="leave out earlier calls")
    reads.add_argument(
        "--compactions", action="store_true", help="also work out what /compact of Claude Code used from its sums"
    )
    command = commands.add_parser("list", parents=[reads], help="print each call as one line of JSON")
    command.add_argument("--json", action="store_true", help="the default, and the only form")
    command.set_defaults(run=_list)
    command = commands.add_parser("report", parents=[reads], help="print sums, without a server")
    command.add_argument("--by", choices=["day", "month", "session", "model", "repo", "agent"], default="day")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--prices", type=Path, help="a file that `runtally prices export` wrote, instead of the build's prices"
    )
    command.set_defaults(run=_report)
    command = commands.add_parser("sync", parents=[reads], help="send the calls to a server; again adds nothing")
    environment = os.environ.get
    command.add_argument("--url", default=environment("RUNTALLY_URL", "http://127.0.0.1:8000"), help="or RUNTALLY_URL")
    command.add_argument(
        "--key", default=environment("RUNTALLY_API_KEY"), help="better in RUNTALLY_API_KEY, which others can't see"
    )
    command.add_argument("--project", default=environment("RUNTALLY_PROJECT", "default"), help="or RUNTALLY_PROJECT")
    command.add_argument("--user", help="who made the calls")
    command.add_argument("--watch", type=_positive, nargs="?", const=WATCH_SECONDS, metavar="SECONDS",
                         help=f"go on, looking every {WATCH_SECONDS} seconds")  # fmt: skip
    command.set_defaults(run=_sync)
    return parser


def _positive(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds
