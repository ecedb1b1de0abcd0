"""`runtally import`."""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from runtally.access.erasure import ChosenBy, ChosenRuns, FoundRuns, erase_chosen, look_up
from runtally.audit import OPERATOR
from runtally.client.files import RowFile
from runtally.client.formats.registry import COLUMNS, FORMATS
from runtally.client.mapping import Options, listed, parse_constants, parse_links, parse_values
from runtally.client.post import Poster, Totals
from runtally.client.rows import DryRun, RunMaker, load_file
from runtally.client.run import InvalidMapping, UnreadableFile, as_text
from runtally.client.values import UNIX_EPOCH
from runtally.clock import system_clock, zone_named
from runtally.db.database import Database
from runtally.errors import RuntallyError
from runtally.fields import is_project_id, trimmed
from runtally.money import plain
from runtally.privacy import ContentRule
from runtally.settings import PrivacyMode, Settings, load_settings
from webapp.cli.opening import Server, places_of, server_options, with_database
from webapp.cli.output import Progress, echo

_TAG = "metadata.import"


class Moment(click.ParamType[datetime]):
    """An ISO 8601 time, UTC unless it has an offset."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail("write a time as 2026-11-01T00:00:00Z", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Zone(click.ParamType[tzinfo]):
    """A time zone by its IANA name."""

    name = "zone"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        return zone_named(str(value)) or self.fail("write a zone such as Europe/Berlin", param, ctx)


def mapping_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe columns to a command, which receives them checked, as `options`."""

    @click.option("--map", "links", multiple=True, metavar="COLUMN=FIELD[:UNIT]", help="The field that a column fills.")
    @click.option("--value", "values", multiple=True, metavar="COLUMN:VALUE=OTHER", help="Read VALUE as OTHER.")
    @click.option("--set", "constants", multiple=True, metavar="FIELD=VALUE", help="The same value for every row.")
    @click.option(
        "--default", "fallbacks", multiple=True, metavar="FIELD=VALUE", help="The value for rows without one."
    )
    @click.option("--ignore", "ignored", multiple=True, metavar="COLUMN", help="Do not use this column.")
    @click.option(
        "--format",
        type=click.Choice([*FORMATS, COLUMNS]),
        help="What the file is, where its columns do not say so; `columns` for none of the others.",
    )
    @click.option("--zone", type=Zone(), default="UTC", help="The zone of times without one, such as Europe/Berlin.")
    @click.option("--decimal-comma", is_flag=True, help="Read 1.234,5 as a number.")
    @click.option("--allow-empty", is_flag=True, help="Take calls that have neither tokens nor a cost.")
    @click.option(
        "--epoch", type=Moment(), default=UNIX_EPOCH, help="The start of times that have a unit; 1970 by default."
    )
    @wraps(command)
    def with_options(**given: Any) -> None:  # noqa: ANN401  # Click's own values.
        content = ContentRule.of(PrivacyMode.STRICT, load_settings().content_keys)
        try:
            options = Options(
                content=content,
                links=parse_links(given.pop("links"), content),
                values=parse_values(given.pop("values")),
                constants=parse_constants("--set", given.pop("constants"), content),
                fallbacks=parse_constants("--default", given.pop("fallbacks"), content),
                ignored=frozenset(given.pop("ignored")),
                format=given.pop("format") or "",
                **{name: given.pop(name) for name in ("allow_empty", "decimal_comma", "zone", "epoch")},
            )
            command(options=options, **given)
        except (InvalidMapping, UnreadableFile) as error:
            raise click.UsageError(error.message) from None

    return with_options


def _checked_id(_context: click.Context, _option: click.Parameter, project_id: str | None) -> str | None:
    if project_id is None:
        return None
    project_id = trimmed(project_id)
    if not is_project_id(project_id):
        raise click.BadParameter("give 1 to 128 characters that are not all blank")
    return project_id


@click.command("import")
@click.argument("path", metavar="FILE", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--project",
    "project_id",
    metavar="ID",
    callback=_checked_id,
    help="The project to send the runs to; not needed with --dry-run.",
)
@mapping_options
@server_options
@click.option("--batch-size", type=click.IntRange(1, 1000), default=500, show_default=True, help="Runs in a request.")
@click.option("--dry-run", is_flag=True, help="Send nothing; show what would be sent.")
@click.option("--undo", "undone", metavar="ID", help="Delete the runs of an earlier import of the project, for good.")
@click.option("--yes", is_flag=True, help="With --undo: do not ask; for scripts.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: the format, the counts and the totals as JSON.")
def import_file(  # noqa: PLR0913  # An argument for each option.
    *,
    path: Path | None,
    project_id: str | None,
    options: Options,
    server: Server,
    batch_size: int,
    dry_run: bool,
    undone: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Send the rows of FILE (.csv, .tsv, .jsonl or .json, gzipped or not) to a running server as runs.

    Exports of Langfuse, LangSmith, LiteLLM, MLflow, Helicone and OpenRouter are recognised by themselves.

    Columns named like a field of a run (inputTokens, input_tokens, prompt_tokens, cost_usd, latency_s ...) are found;
    others are mapped with --map, or to metadata with --map COLUMN=metadata.KEY, or ignored. Units: latencyMs takes
    :ms :s :min :us :ns, timestamp takes :s :ms :us :ns, costUSD takes :usd :cents. Rows without a time are rejected
    unless --default timestamp=now gives them that of the import. Prompts and answers are never sent. Running it again,
    also after an interruption, adds nothing twice. Each import has an id, metadata.import of its runs: --undo ID deletes
    these in the database of DATABASE_URL, in all sums and in the reporting table, after a look at what they are.

    \b
    Examples:
      runtally import runs.jsonl --project support-agent
      runtally import usage.csv.gz --project search --set provider=openai --map took=latencyMs:s --dry-run
      runtally import calls.csv --project chat --map result=status --value result:ok=success --value result:failed=error
      runtally import --undo 20261127-0930-5f2c --project chat
    """
    if project_id is None and (undone or not dry_run):
        raise click.UsageError("Say which project the runs are of, with --project ID.")
    if as_json and (undone or not dry_run):
        raise click.UsageError("--json is for --dry-run of a FILE.")
    if (path is None) is (undone is None):
        raise click.UsageError("Give a FILE, or --undo with the id of an import.")
    if path is None:
        _undo(project_id or "default", undone or "", asks=not yes, only_looks=dry_run)
        return
    import_id = f"{system_clock():%Y%m%d-%H%M}-{secrets.token_hex(2)}"
    if not dry_run:
        options.constants[_TAG] = import_id
    maker, totals = RunMaker(project_id or "default", options, takes_sums=dry_run), Totals()
    with RowFile(path) as file:
        if dry_run:
            _look(file, maker, totals, batch_size, as_json=as_json)
        else:
            try:
                asyncio.run(_send(server, file, maker, totals, batch_size))
            finally:
                if totals.added:
                    undoing = f"runtally import --undo {import_id} --project {project_id}"
                    echo(f"This is import {import_id}; `{undoing}` deletes its runs.", err=True)
    if totals.rejected:
        raise click.exceptions.Exit(1)


def _undo(project_id: str, import_id: str, *, asks: bool, only_looks: bool) -> None:
    """Show what an import has added, and delete it if that is wanted."""
    chosen = ChosenRuns(project_id, ChosenBy.IMPORT, (import_id,))

    async def look(settings: Settings, database: Database) -> FoundRuns:
        async with places_of(settings, database) as places:
            return await look_up(places, chosen)

    async def undo(settings: Settings, database: Database) -> FoundRuns:
        async with places_of(settings, database) as places:
            return await erase_chosen(places, OPERATOR, chosen, system_clock, "import.undone", import_id)

    found = with_database(look)
    if not found.first_at or not found.last_at:
        echo(f"{project_id} has no runs of an import {import_id}; nothing was deleted.")
        raise click.exceptions.Exit(1)
    span = f"{found.first_at:%Y-%m-%d %H:%M} to {found.last_at:%Y-%m-%d %H:%M} UTC"
    archived = f"; {found.archived:,} of them are archived" if found.archived else ""
    amount = plain(found.cost_usd)
    echo(f"Import {import_id} added {found.runs:,} runs to {project_id}: {span}, {amount} USD{archived}.")
    if only_looks or (asks and not click.confirm("Delete them for good?")):
        echo("Nothing was deleted.")
        return
    echo(f"Deleted {with_database(undo).runs:,} runs.")


def _look(file: RowFile, maker: RunMaker, totals: Totals, batch_size: int, *, as_json: bool) -> None:
    dry = DryRun()
    with Progress("Reading") as progress:
        asyncio.run(load_file(dry, file, maker, totals, batch_size=batch_size, on_progress=progress.show))
    if as_json:
        echo(_summary(maker, totals))
        return
    if maker.sums:
        echo(f"{maker.format.title if maker.format else 'Sums'}: {maker.sums:,} sums, which can't become runs.")
        echo(f"Totals: {maker.figures}.")
        return
    echo(f"{totals.processed:,} rows would be sent, {totals.rejected:,} would not. Nothing was sent.")
    if dry.first:
        echo(f"The first run: {as_text(dry.first)}")
    _report(maker, totals)


async def _send(server: Server, file: RowFile, maker: RunMaker, totals: Totals, batch_size: int) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with Poster(server.target()) as poster:
        await poster.check()
        try:
            with Progress("Importing") as progress:
                await load_file(poster, file, maker, totals, batch_size=batch_size, on_progress=progress.show)
        except RuntallyError:
            if totals.added:
                echo(f"{totals.added:,} runs were added before it stopped.", err=True)
            raise
    echo(
        f"{totals.added:,} runs added, {totals.duplicates:,} there already, {totals.rejected:,} rows rejected, "
        f"in {loop.time() - started:.1f} s."
    )
    _report(maker, totals)


def _summary(maker: RunMaker, totals: Totals) -> str:
    """The result of a preview as JSON."""
    document = {
        "format": maker.format.name if maker.format else COLUMNS,
        "runs": totals.processed,
        "sums": maker.sums,
        "rejected": totals.rejected,
        "unused": list(_unused(maker)),
        "totals": maker.figures.sums,
    }
    return msgspec.json.Encoder(decimal_format="number").encode(document).decode()


def _unused(maker: RunMaker) -> Iterable[str]:
    return maker.unused if maker.format else maker.planner.doubtful


def _report(maker: RunMaker, totals: Totals) -> None:
    """Print how each column was used, the totals of the file and of what was stored, and the first rejected rows."""
    planner = maker.planner
    if maker.format:
        echo(f"Read as {maker.format.title}.")
    else:
        used = (f"{column} as {', '.join(targets)}" for column, targets in planner.used.items())
        echo(f"Used: {listed(used) or 'no column'}.")
        for label, columns in (
            ("Ignored", planner.ignored),
            ("Never sent, named like content", planner.never_sent),
            ("Not found in any row", planner.never_found()),
        ):
            if columns:
                echo(f"{label}: {listed(columns)}.")
    if str(maker.figures):
        echo(f"Totals of the file: {maker.figures}.")
    if maker.figures.sums != totals.figures.sums:
        echo(f"Totals without the rejected rows: {str(totals.figures) or 'nothing'}.")
    if unused := list(_unused(maker)):
        echo(
            f"Warning: not used, but named like tokens, a cost or a time: {listed(unused)}. "
            "Use them with --map COLUMN=FIELD, or leave them out with --ignore COLUMN.",
            err=True,
        )
    for rejection in totals.rejections:
        echo(f"Line {rejection.line}: {rejection.reason}", err=True)
    if totals.rejected > len(totals.rejections):
        echo(f"... and {totals.rejected - len(totals.rejections):,} more rejected rows.", err=True)
