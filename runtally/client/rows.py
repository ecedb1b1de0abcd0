"""Convert rows to runs, and runs to batches. A row that cannot be a run is counted and left out.

A file is imported by posting these batches, or only previewed.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from runtally.client import values
from runtally.client.fields import FIELDS, Field, is_usage, provider_and_model, squashed
from runtally.client.files import Row, RowFile
from runtally.client.formats.declaration import Format, by_name
from runtally.client.formats.registry import FORMATS, recognised
from runtally.client.mapping import ColumnPlanner, Link, Options, Plan, value_at
from runtally.client.post import Batch, Figures, Posts, Receipt, Rejection, Totals, send_all
from runtally.client.run import InvalidMapping, OutgoingRun
from runtally.client.values import BadValue, Kind

_STATUSES: Final = ("success", "error", "timeout")
_METADATA: Final = FIELDS["metadata"]
_WITHOUT_UNIT: Final[dict[Kind, Callable[[object], object]]] = {
    Kind.TEXT: values.text,
    Kind.TEXTS: values.texts,
    Kind.COUNT: values.count,
    Kind.OBJECT: values.json_object,
}


class RowRejected(Exception):
    """A row that cannot be a run; the text says why, without a value of the row."""


class RunMaker:
    """Makes the runs of one import into one project."""

    def __init__(self, project_id: str, options: Options, *, takes_sums: bool = False) -> None:
        self.project_id = project_id
        self.planner = ColumnPlanner(options)
        self.format: Format | None = None
        """The format of the file, if its rows are not runs by their columns."""
        self.unused: dict[str, None] = {}
        """Columns that look like tokens, a cost or a time, and that the format does not read."""
        self.figures = Figures()
        """The sums of all rows, those included that cannot be a run for another reason."""
        self.sums = 0
        self._options = options
        self._takes_sums = takes_sums
        self._ids = _RowIds(project_id, options)
        self._constants = self._converted(options.constants)
        self._fallbacks = self._converted(options.fallbacks)
        # A provider in the model's name takes precedence over the default for rows without one.
        self._fallback_provider = self._fallbacks.pop("provider", None)

    def recognise(self, row: dict[str, Any]) -> None:
        """Choose the format of the file by its first row. Raises `InvalidMapping` for sums where only runs are taken."""
        named = self._options.format
        # Who maps columns knows them.
        chosen = FORMATS.get(named) if named else None if self._options.links else recognised(row)
        if chosen and not chosen.columns <= by_name(row).keys():
            raise InvalidMapping(f"This is not {chosen.title}, which has other columns; leave --format out.")
        if chosen and chosen.is_of_sums and not self._takes_sums:
            raise InvalidMapping(
                f"This is {chosen.title}: sums of days, not calls, so that nothing in it can become a run. "
                "--dry-run prints its totals; import the calls themselves from another file."
            )
        self.format = chosen

    def runs_of(self, row: dict[str, Any]) -> Iterator[OutgoingRun]:
        """The runs of a row of the file's format: one of a file of columns. Raises `RowRejected`."""
        if self.format is None:
            yield self.run_of(row)
            return
        self.unused.update(dict.fromkeys(self.format.unused(row)))
        try:
            calls = tuple(self.format.read(by_name(row)))
        except ValueError as error:
            raise RowRejected(str(error)) from None
        for call in calls:
            if self.format.is_of_sums:
                self.sums += 1
                self.figures.add(call.get)
            else:
                yield self.run_of(call)

    def run_of(self, row: dict[str, Any]) -> OutgoingRun:
        """The run of a row. Raises `RowRejected`."""
        plan = self.planner.plan(row)
        found = {
            field.name: value
            for field, links in plan.items()
            if field is not _METADATA and (value := self._first(row, links)) is not None
        }
        found = {**self._fallbacks, **found, **self._constants}
        self._name_provider(found)
        self.figures.add(lambda wire: found.get(FIELDS[squashed(wire)].name))
        self._check(found)
        found.setdefault("run_id", self._ids.id_of(row))
        return OutgoingRun(**found, metadata=self._metadata(row, plan))

    def _first(self, row: dict[str, Any], links: tuple[Link, ...]) -> Any:  # noqa: ANN401  # As the field takes it.
        for link in links:
            value = self._raw(row, link)
            if not values.is_missing(value):
                try:
                    added = [self._raw(row, Link(column, link.field)) for column in link.plus]
                    more = sum(values.count(each) for each in added if not values.is_missing(each))
                    found = self._convert(link.field, value, link.unit)
                    return found + more if link.plus else found
                except BadValue as error:
                    raise RowRejected(f"{link.field.wire} {error} (column {link.column!r})") from None
        return None

    def _raw(self, row: dict[str, Any], link: Link) -> Any:  # noqa: ANN401  # A file holds any JSON value.
        value = value_at(row, link.column)
        if self._options.values and isinstance(value, str | int):
            written = str(value).lower() if isinstance(value, bool) else str(value).strip()  # As JSON has it.
            return self._options.values.get((link.column, written), value)
        return value

    def _convert(self, field: Field, value: object, unit: str | None) -> Any:  # noqa: ANN401  # As the field takes it.
        if (
            self._options.decimal_comma
            and isinstance(value, str)
            and field.kind.is_number
            and field.kind is not Kind.TIME
        ):
            value = value.replace(".", "").replace(",", ".")
        match field.kind:
            case Kind.DURATION:
                return values.milliseconds(value, unit)
            case Kind.MONEY:
                return values.money(value, unit)
            case Kind.TIME:
                return values.moment(value, unit, self._options.epoch, self._options.zone)
            case kind:
                return _WITHOUT_UNIT[kind](value)

    def _converted(self, constants: dict[str, str]) -> dict[str, Any]:
        """The constants as their fields take them, without those of the metadata."""
        by_name = {field.name: field for field in FIELDS.values()}
        try:
            return {
                # The server gives a run without a time the time of its arrival.
                name: None if (name, value) == ("timestamp", "now") else self._convert(by_name[name], value, None)
                for name, value in constants.items()
                if name in by_name
            }
        except BadValue as error:
            raise InvalidMapping(f"A value of --set or --default {error}.") from None

    def _name_provider(self, found: dict[str, Any]) -> None:
        """Read the provider off the model's name where nothing else says it."""
        if "provider" not in found and "model" in found:
            provider, found["model"] = provider_and_model(found["model"])
            provider = provider or self._fallback_provider
            if provider:
                found["provider"] = provider

    def _check(self, found: dict[str, Any]) -> None:
        if "model" not in found:
            raise RowRejected("model is missing; map a column to it, or say --default model=NAME")
        if "provider" not in found:
            raise RowRejected("provider is not said and the model could be anyone's; say --default provider=NAME")
        if "timestamp" not in found:
            raise RowRejected("timestamp is missing; map a column to it, or say --default timestamp=now")
        failed = found.get("status", "success") != "success"
        if not (failed or self._options.allow_empty or any(map(is_usage, found))):
            raise RowRejected("has neither tokens nor a cost; map a column to inputTokens, or say --allow-empty")
        if found.get("status", "success") not in _STATUSES:
            raise RowRejected("status must be success, error or timeout; translate with --value COLUMN:VALUE=error")

    def _metadata(self, row: dict[str, Any], plan: Plan) -> dict[str, Any] | None:
        given: dict[str, Any] = {}
        for link in plan.get(_METADATA, ()):
            value = self._raw(row, link)
            if values.is_missing(value):
                continue
            if link.metadata_key:
                given[link.metadata_key] = value
                continue
            try:
                given |= values.json_object(value)
            except BadValue as error:
                raise RowRejected(f"metadata {error} (column {link.column!r})") from None
        fallbacks, constants = _labels(self._options.fallbacks), _labels(self._options.constants)
        return self._options.content.scrub({**fallbacks, **given, **constants}).metadata or None


class _RowIds:
    """Ids for rows that have none: the same row in the same project always gets the same id.

    Neither the name of the file, nor its compression, nor the order of its columns changes it, so a second import adds
    nothing. Rows that are equal in all columns are numbered.
    """

    def __init__(self, project_id: str, options: Options) -> None:
        self._project = project_id.encode()
        self._content = options.content
        self._columns = [link.column for link in options.links]
        # Digests as integers: about 100 bytes a row, which is what a file of millions of rows can afford.
        self._seen: dict[int, int] = {}
        self._encoder = msgspec.json.Encoder(order="deterministic", decimal_format="number")

    def id_of(self, row: dict[str, Any]) -> str:
        # Content is not even hashed; a column that is mapped to a number is none, whatever its name.
        known = self._content.scrub(row).metadata | {name: row[name] for name in self._columns if name in row}
        digest = hashlib.blake2b(self._encoder.encode(known), key=self._project[:64], digest_size=12).digest()
        number = self._seen[int.from_bytes(digest)] = self._seen.get(int.from_bytes(digest), 0) + 1
        return f"row-{digest.hex()}" + (f"-{number}" if number > 1 else "")


def batches(rows: Iterable[Row | Rejection], maker: RunMaker, totals: Totals, *, size: int) -> Iterator[Batch]:
    """The runs of the rows in batches of `size`; what cannot be a run is counted into `totals`."""
    runs: list[OutgoingRun] = []
    lines: list[int] = []
    for row in rows:
        if isinstance(row, Rejection):
            totals.reject(row)
            continue
        try:
            found = list(maker.runs_of(row.values))
        except RowRejected as error:
            totals.reject(Rejection(row.line, str(error)))
            continue
        runs.extend(found)
        lines.extend([row.line] * len(found))
        while len(runs) >= size:
            yield Batch(maker.project_id, runs[:size], lines[:size])
            runs, lines = runs[size:], lines[size:]
    if runs:
        yield Batch(maker.project_id, runs, lines)


def _labels(constants: dict[str, str]) -> dict[str, str]:
    """The constants of the metadata, by their key."""
    prefix = "metadata."
    return {name.removeprefix(prefix): value for name, value in constants.items() if name.startswith(prefix)}


class DryRun:
    """Takes batches like a server that is always content, sends nothing, and keeps the first run to show."""

    def __init__(self) -> None:
        self.first: OutgoingRun | None = None

    async def post(self, project_id: str, runs: Sequence[OutgoingRun]) -> Receipt:  # noqa: ARG002  # As a poster has it.
        self.first = self.first or runs[0]
        return Receipt(processed=len(runs))


async def load_file(  # noqa: PLR0913  # What it works on, then how.
    poster: Posts,
    file: RowFile,
    maker: RunMaker,
    totals: Totals,
    *,
    batch_size: int,
    on_progress: Callable[[int, int], None],
) -> None:
    """Post all rows of the file and count them into `totals`. `on_progress` hears how many bytes of how many are read.

    Raises what the poster raises, `UnreadableFile`, and `InvalidMapping` for an option that names no column of the file.
    """
    rows = _checked(file, maker)
    await send_all(
        poster,
        batches(rows, maker, totals, size=batch_size),
        totals,
        lambda _batch: on_progress(file.position, file.size),
    )


def _checked(file: RowFile, maker: RunMaker) -> Iterator[Row | Rejection]:
    """The rows; the first one tells the format, and has the columns that options name, before anything is sent."""
    unchecked = True
    for row in file:
        if unchecked and isinstance(row, Row):
            maker.recognise(row.values)
            if file.has_header and maker.format is None:
                maker.planner.demand_columns(row.values)
            unchecked = False
        yield row
