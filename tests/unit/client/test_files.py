"""Reading files row by row: kinds, compression, and lines that are none."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from runtally.client.files import Row, RowFile
from runtally.client.post import Rejection
from runtally.client.run import UnreadableFile


def rows_of(folder: Path, name: str, content: bytes) -> list[Row | Rejection]:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with RowFile(path) as file:
        return list(file)


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz"])
def test_csv_rows_come_with_the_line_they_start_at(tmp_path: Path, name: str) -> None:
    rows = rows_of(tmp_path, name, b'model,note\nm1,"two\nlines"\nm2,\n')

    assert rows == [Row(2, {"model": "m1", "note": "two\nlines"}), Row(4, {"model": "m2", "note": ""})]


@pytest.mark.parametrize(("name", "mark"), [("a.tsv", "\t"), ("a.csv", ";")])
def test_the_delimiter_is_the_header_s(tmp_path: Path, name: str, mark: str) -> None:
    rows = rows_of(tmp_path, name, f"model{mark}note\nm1{mark}a,b\n".encode())

    assert rows == [Row(2, {"model": "m1", "note": "a,b"})]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "a.csv", b"\xef\xbb\xbfmodel\nm1\n")

    assert rows == [Row(2, {"model": "m1"})]


def test_a_row_with_more_cells_than_the_header_is_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "a.csv", b"model\nm1,what,is,this\nm2\n")

    assert rows == [Rejection(2, "has more cells than the header has names"), Row(3, {"model": "m2"})]


def test_cells_that_are_missing_at_the_end_of_a_row_are_empty(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "a.csv", b"model,note\nm1\n\nm2,b\n")

    assert rows == [Row(2, {"model": "m1", "note": ""}), Row(4, {"model": "m2", "note": "b"})]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz"])
def test_json_lines_are_read_and_blank_ones_skipped(tmp_path: Path, name: str) -> None:
    rows = rows_of(tmp_path, name, b'{"model": "m1"}\n\n{"model": "m2", "usage": {"input_tokens": 3}}\n')

    assert rows == [Row(1, {"model": "m1"}), Row(3, {"model": "m2", "usage": {"input_tokens": 3}})]


@pytest.mark.parametrize(("line", "reason"), [(b"[1, 2]", "is no JSON object"), (b"{model: m}", "is no JSON")])
def test_a_line_that_is_no_object_is_rejected_without_its_text(tmp_path: Path, line: bytes, reason: str) -> None:
    rows = rows_of(tmp_path, "a.jsonl", line + b'\n{"model": "m2"}\n')

    assert rows == [Rejection(1, reason), Row(2, {"model": "m2"})]


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, "a.jsonl", b'{"cost": 0.022080000000000002}')

    assert isinstance(row, Row)
    assert str(row.values["cost"]) == "0.022080000000000002"


def test_a_cell_may_be_as_long_as_a_conversation(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "a.csv", b"model,prompt\nm1," + b"x" * 500_000 + b"\n")

    assert len(rows) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.parquet", b"", "of no known kind"),
        ("a.csv", b"model\n\xff\xfe\n", "save it as UTF-8"),
        ("a.csv", b"model,model\nm1,m2\n", "the same name"),
        ("a.csv", b"", "first line must name the columns"),
    ],
    ids=["kind", "encoding", "columns", "empty"],
)
def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    with pytest.raises(UnreadableFile, match=says):
        rows_of(tmp_path, name, content)


def test_a_truncated_gzip_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"model\n" + b"m1\n" * 100_000)[:-50])

    with RowFile(path) as file, pytest.raises(UnreadableFile, match="no whole gzip file"):
        list(file)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl"])
def test_the_position_ends_at_the_size_of_the_file(tmp_path: Path, name: str) -> None:
    lines: dict[str, Any] = {"a.jsonl": b'{"model": "m1"}\n'}
    content = lines.get(name, b"model\nm1\n")
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    with RowFile(path) as file:
        list(file)

        assert file.position == file.size
