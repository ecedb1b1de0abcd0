"""The SQL that writes runs and sums, as the database gets it: in `sql/`, so that a review sees how it changes.

What reads is proved by what it answers.

`UPDATE_SQL=1 make test ARGS=tests/structure/test_sql.py` writes it anew.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent, wrap

import pytest

from runtally.ingest import queries as ingest
from runtally.pricing.repricing import recost
from runtally.usage.upkeep import queries as upkeep

FOLDER = Path(__file__).parent / "sql"


def constants(module: object) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        if name.isupper() and name[0] != "_" and isinstance(value, str) and " " in value:
            yield name, value


STATEMENTS: Mapping[str, Mapping[str, str]] = {
    "ingest": dict(constants(ingest)),
    "merging": {name: sql for name, sql in constants(upkeep) if "MERGE" in name or name == "TRY_LOCK"},
    "recosting": dict(constants(recost)),
}


def text_of(statements: Mapping[str, str]) -> str:
    blocks = []
    for name, sql in statements.items():
        lines = [part for line in dedent(sql.strip("\n")).splitlines() for part in wrapped(line)]
        blocks.append("\n".join((f"-- {name}", *lines)))
    return "\n\n".join(blocks) + "\n"


def wrapped(line: str) -> list[str]:
    """Short lines, because a diff is by line."""
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    return wrap(line, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_sql_is_the_one_that_was_reviewed(name: str) -> None:
    file, text = FOLDER / f"{name}.sql", text_of(STATEMENTS[name])
    if "UPDATE_SQL" in os.environ:
        file.write_text(text)

    assert file.read_text() == text, "see in the diff of UPDATE_SQL=1 whether this is meant"
