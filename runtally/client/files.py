"""Read CSV and JSONL files row by row, plain or gzipped, with one row in memory at a time, and JSON documents whole."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, cast

import msgspec

from runtally.client.post import Rejection
from runtally.client.run import UnreadableFile

_DELIMITERS: Final = ",;\t"
_BOM: Final = b"\xef\xbb\xbf"
# A column of content, which is skipped, may hold a whole conversation; the csv module's own limit is 128 KiB.
_LARGEST_CELL: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """A row's values by column; `line` is where it starts, counted from 1."""

    line: int
    values: dict[str, Any]


def _csv_rows(stream: BinaryIO) -> Iterator[Row | Rejection]:
    csv.field_size_limit(_LARGEST_CELL)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        yield from _table(text)
    finally:
        # The wrapper would close the file when it is collected, and the file is not its own.
        text.detach()


def _table(text: io.TextIOWrapper) -> Iterator[Row | Rejection]:
    heading = text.readline()
    # The header holds names only, so the delimiter is the one that it has most of.
    delimiter = max(_DELIMITERS, key=heading.count)
    columns = next(csv.reader([heading], delimiter=delimiter), [])
    if not columns:
        raise UnreadableFile("The file is empty; its first line must name the columns.")
    if len(set(columns)) < len(columns):
        raise UnreadableFile(
            "Two columns of the header have the same name; rename one, or write a data frame with index=False."
        )
    reader = csv.reader(text, delimiter=delimiter)
    line = 2
    for cells in reader:
        if len(cells) > len(columns):
            yield Rejection(line, "has more cells than the header has names")
        elif cells:
            # Spreadsheets leave out empty cells at the end of a row.
            yield Row(line, dict(zip_longest(columns, cells, fillvalue="")))
        line = reader.line_num + 2


def _json_rows(stream: BinaryIO) -> Iterator[Row | Rejection]:
    # Numbers stay decimals: a cost must not be rounded on its way.
    decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
    for line, text in enumerate(stream, start=1):
        document = text.removeprefix(_BOM).strip()
        if not document:
            continue
        try:
            yield Row(line, decoder.decode(document))
        except msgspec.ValidationError:
            yield Rejection(line, "is no JSON object")
        except msgspec.DecodeError:
            yield Rejection(line, "is no JSON")


def _document_rows(stream: BinaryIO) -> Iterator[Row | Rejection]:
    """The objects of one JSON document: a list, or the list under `data` or `results`, with what stands beside it."""
    text = stream.read(_LARGEST_DOCUMENT + 1)
    if len(text) > _LARGEST_DOCUMENT:
        raise UnreadableFile(f"The file is larger than {_LARGEST_DOCUMENT // 1_000_000} MB; write one object a line.")
    try:
        document = msgspec.json.Decoder(float_hook=Decimal).decode(text.removeprefix(_BOM))
    except msgspec.DecodeError:
        raise UnreadableFile("The file is no JSON document; name it .jsonl if it has one object a line.") from None
    for place, item in enumerate(_items(document), start=1):
        yield Row(place, item) if isinstance(item, dict) else Rejection(place, "is no JSON object")


def _items(document: object) -> Iterator[Any]:
    beside: dict[str, Any] = {}
    inner: object = document
    if isinstance(document, dict):
        inner = next((document[name] for name in _LISTS if isinstance(document.get(name), list)), None)
        # A bucket's time is beside its list.
        beside = {name: value for name, value in document.items() if name not in _LISTS and name not in _PAGING}
    if not isinstance(inner, list):
        yield document
        return
    for item in inner:
        for each in _items(item):
            yield {**beside, **each} if isinstance(each, dict) else each


_LISTS: Final = ("data", "results")
_PAGING: Final = ("object", "has_more", "next_page", "meta")
_LARGEST_DOCUMENT: Final = 256_000_000

_READERS: Final[dict[str, Callable[[BinaryIO], Iterator[Row | Rejection]]]] = {
    ".csv": _csv_rows,
    ".tsv": _csv_rows,
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _document_rows,
}


class RowFile:
    """An open file; iterate over it for its rows, with a rejection in place of each that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._zipped = path.suffix.lower() == ".gz"
        kind = Path(path.stem if self._zipped else path.name).suffix.lower()
        if kind not in _READERS:
            raise UnreadableFile(
                f"{path.name} is of no known kind; name it .csv, .tsv, .jsonl or .json, gzipped with .gz."
            )
        self._read = _READERS[kind]
        self.has_header = self._read is _csv_rows
        self._raw = path.open("rb")
        self.size = path.stat().st_size

    @property
    def position(self) -> int:
        """The number of bytes of the file that were read, before decompression."""
        return self._raw.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[Row | Rejection]:
        # GzipFile is a binary stream in all but its declared type.
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=self._raw)) if self._zipped else self._raw
        try:
            yield from self._read(stream)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise UnreadableFile(f"{self._name} is no whole gzip file; copy it again.") from None
        except RecursionError:
            raise UnreadableFile(f"{self._name} is nested too deeply for a report or an export.") from None
        except UnicodeDecodeError:
            raise UnreadableFile(f"{self._name} is not UTF-8; save it as UTF-8.") from None
        except csv.Error as error:
            raise UnreadableFile(f"{self._name} is no CSV: {error}.") from None
