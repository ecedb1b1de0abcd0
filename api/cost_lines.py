"""The answer of GET /api/usage by line: which lines the costs of each group consist of."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.cells import MissingCells
from api.metrics import Count
from api.reply import Success
from runtally.fields import camel
from runtally.money import as_json
from runtally.runs.cost_lines import LINE, NAMES, GroupLines, measured
from runtally.units import Measured
from runtally.usage.dimensions import OTHER, OTHER_NAME
from runtally.usage.plan import Group

Amount = Annotated[
    msgspec.Raw, Meta(description="US dollars, every digit exact.", extra_json_schema={"type": "number"})
]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
DeletedUsd = Annotated[
    dict[str, Amount],
    Meta(
        description="Only over all projects, where any was deleted: what these had cost in each month that the answer touches, by "
        "any provider, such as `2026-11`. It is in no sum."
    ),
]


class LineGroup(msgspec.Struct, frozen=True, rename=camel, kw_only=True):
    """What a line of the costs of a group's runs came to."""

    group: Annotated[
        dict[str, str | None],
        Meta(description=f"The value of each dimension of groupBy; of `line` one of {', '.join(NAMES)}."),
    ]
    name: Annotated[str, Meta(description="The line for people.")]
    cost_usd: Annotated[Amount, Meta(description="Below zero where a service tier costs less.")]
    quantity: Annotated[
        msgspec.Raw | None,
        Meta(
            description="How many units were charged at their own price; null for lines without units.",
            extra_json_schema={"type": "number"},
        ),
    ]
    measured: Annotated[Measured | None, Meta(description="What the quantity counts.")]


class LineBucket(msgspec.Struct, frozen=True):
    """The lines of the groups that have runs in a bucket."""

    start: Moment
    end: Annotated[str, Meta(description="Exclusive.", extra_json_schema={"format": "date-time"})]
    groups: tuple[LineGroup, ...]


class AnswerPage(Success, frozen=True, kw_only=True, rename=camel):
    """What each page of an answer says, be it of groups or of lines."""

    start: Moment
    end: Moment
    bucket_width: str
    group_by: tuple[str, ...]
    overlapping: (
        Annotated[Literal[True], Meta(description="A run is in the group of each of its tags.")] | UnsetType
    ) = UNSET
    key_names: (
        Annotated[dict[str, str], Meta(description="Name of each key by its id, where groupBy has key.")] | UnsetType
    ) = UNSET
    has_more: bool
    next_page: str | None
    missing_cells: MissingCells | UnsetType = UNSET
    deleted_usd: DeletedUsd | UnsetType = msgspec.field(default=UNSET, name="deletedUSD")


class LinesAnswer(AnswerPage, frozen=True, kw_only=True):
    """A page of buckets, oldest first, and the lines over all of the time: group by group, the most expensive first."""

    buckets: tuple[LineBucket, ...]
    totals: Annotated[
        tuple[LineGroup, ...],
        Meta(description="Over all of the time, whatever the page. They add up to costUSD, to the last digit."),
    ]
    cost_usd: Annotated[Amount, Meta(description="All lines together.")]
    runs: Count
    unpriced: Annotated[int, Meta(ge=0, description="Runs whose cost is not known; they are in no line.")]


def deleted_usd(costs: Mapping[datetime, Decimal]) -> dict[str, msgspec.Raw] | UnsetType:
    """Return what deleted projects had cost, as answers have it."""
    return {f"{month:%Y-%m}": as_json(cost_usd) for month, cost_usd in costs.items()} or UNSET


def line_groups(dimensions: tuple[str, ...], group: Group, lines: GroupLines) -> Iterator[LineGroup]:
    """Yield the lines of a group, the most expensive first; `dimensions` are the names of groupBy, `line` among them."""
    for line, sums in lines.sorted:
        values = iter(group)
        yield LineGroup(
            group={name: line if name == LINE else value_of(next(values)) for name in dimensions},
            name=NAMES[line],
            cost_usd=as_json(sums.amount_usd),
            quantity=None if measured(line) is None else as_json(Decimal(sums.quantity)),
            measured=measured(line),
        )


def value_of(value: str | None) -> str | None:
    """Return a value of a group as answers have it."""
    return OTHER_NAME if value == OTHER else value
