"""The columns of a run are declared once; the struct next to them names them again, and must agree."""

import typing

import msgspec
import pytest
from sqlalchemy import Table
from sqlmodel import SQLModel

from runtally.models import metadata
from runtally.models.run import Run, RunColumns, StoredRun


def test_the_struct_has_the_tables_columns_in_their_order() -> None:
    assert tuple(Run.metadata.tables["runs"].columns.keys()) == StoredRun.__struct_fields__


def test_the_struct_has_the_tables_types() -> None:
    for name, column in RunColumns.model_fields.items():
        field = {"meta": "metadata"}.get(name, name)
        declared = typing.get_type_hints(StoredRun)[field]
        nullable = type(None) in typing.get_args(column.annotation)
        assert nullable == (type(None) in typing.get_args(declared)), name


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_every_table_has_a_key_and_every_column_a_comment(table: Table) -> None:
    assert list(table.primary_key.columns)
    assert [column.name for column in table.columns if not column.comment] == []


def test_the_project_leads_the_key_of_runs() -> None:
    assert [column.name for column in Run.metadata.tables["runs"].primary_key.columns] == ["project_id", "id"]
    assert issubclass(Run, SQLModel)
    assert issubclass(StoredRun, msgspec.Struct)
