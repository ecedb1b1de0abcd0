"""The measures, which are summed over runs. Each row drives the tables of sums and all statements on them."""

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import BigInteger, Numeric
from sqlalchemy.types import TypeEngine

from runtally.units import TOKEN_KINDS, Unit

ADDED = "1"
"""The weight of runs that are all added. Otherwise a weight is SQL: 1 for a run that is added, -1 for one that is
subtracted.
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """A sum over runs: of one of their columns, or of their number."""

    name: str
    """The column in the tables of sums, and the field in Python."""
    comment: str
    column_type: type[TypeEngine[int] | TypeEngine[Decimal]]
    python_type: type[int] | type[Decimal]
    summed: str | None = None
    """The column of runs that is summed; without one, runs are counted."""
    condition: str | None = None
    """SQL over runs: only these are summed."""
    in_totals: bool = True
    """Whether `rollup_totals` has it too."""
    in_dimensions: bool = False
    """Whether sums by dimension have it too."""
    server_default: str | None = None
    """An SQL default, for a measure that was added to tables with rows."""

    def over_runs(self, weight: str = ADDED) -> str:
        """Return SQL that sums the measure over rows of runs."""
        value = f"{weight} * {self.summed}" if self.summed and weight != ADDED else self.summed or weight
        whole = f"sum({value})" + (f" FILTER (WHERE {self.condition})" if self.condition else "")
        # A group has runs, but perhaps none that meets the condition or has a value.
        return f"coalesce({whole}, 0)" if self.summed or self.condition else whole

    def of_run(self, weight: str = ADDED) -> str:
        """Return SQL of what one run adds to the measure; NULL for nothing."""
        value = f"{weight} * {self.summed}" if self.summed and weight != ADDED else self.summed or weight
        return f"CASE WHEN {self.condition} THEN {value} END" if self.condition else value

    @property
    def over_sums(self) -> str:
        """Return SQL that adds up rows of sums. A sum of `bigint` is `numeric` in Postgres."""
        return f"sum({self.name})::bigint" if self.column_type is BigInteger else f"sum({self.name})"


def _count(
    name: str,
    comment: str,
    condition: str | None = None,
    *,
    in_dimensions: bool = True,
    server_default: str | None = None,
) -> Measure:
    return Measure(
        name,
        comment,
        BigInteger,
        int,
        condition=condition,
        in_dimensions=in_dimensions,
        server_default=server_default,
    )


def _tokens(kind: Unit) -> Measure:
    # Sums of counts that clients send may exceed any integer.
    return Measure(
        kind.count_column,
        kind.meaning,
        Numeric,
        int,
        summed=kind.count_column,
        in_totals=kind.is_in_totals,
        in_dimensions=kind.is_in_dimensions,
        server_default=kind.sums_default,
    )


def _cost(name: str, comment: str, condition: str | None = None, *, server_default: str | None = None) -> Measure:
    return Measure(
        name,
        comment,
        Numeric,
        Decimal,
        "cost_usd",
        condition,
        in_dimensions=condition is None,
        server_default=server_default,
    )


MEASURES = (
    _count("runs", "Runs."),
    _count("errors", "Runs that ended in an error.", "status = 'error'"),
    _count("timeouts", "Runs that ended in a timeout.", "status = 'timeout'"),
    _count("unpriced", "Runs whose cost is not known.", "cost_usd IS NULL"),
    _count(
        "partly_priced",
        "Runs of which a unit has no price, so that their cost is a minimum.",
        "cost_is_minimum",
        in_dimensions=False,
        server_default="0",
    ),
    _count(
        "without_usage",
        "Runs of models with a price that report no usage, so that their cost is that of nothing.",
        "without_usage",
        server_default="0",
    ),
    _count("estimated", "Runs whose cost is an estimate.", "cost_estimated", in_dimensions=False),
    _cost("cost_usd", "Cost in US dollars."),
    *map(_tokens, TOKEN_KINDS),
    _cost("error_cost_usd", "Cost of runs that ended in an error.", "status = 'error'", server_default="0"),
    _cost("timeout_cost_usd", "Cost of runs that ended in a timeout.", "status = 'timeout'", server_default="0"),
    Measure(
        "cache_savings_usd",
        "What caches saved in US dollars.",
        Numeric,
        Decimal,
        "cache_savings_usd",
        in_totals=False,
        in_dimensions=True,
        server_default="0",
    ),
)
"""All measures, in the order of their columns."""
TOTAL_MEASURES = tuple(measure for measure in MEASURES if measure.in_totals)
"""The measures of `rollup_totals`."""


def measures_named(*names: str) -> tuple[Measure, ...]:
    """Return these measures, in the order of `MEASURES`."""
    return tuple(measure for measure in MEASURES if measure.name in names)


def columns_over_runs(measures: tuple[Measure, ...] = MEASURES, weight: str = ADDED) -> str:
    """Return SQL of the columns that sum measures over rows of runs."""
    return ",\n         ".join(f"{measure.over_runs(weight)} AS {measure.name}" for measure in measures)


def columns_over_sums(measures: tuple[Measure, ...] = MEASURES) -> str:
    """Return SQL of the columns that add up rows of sums."""
    return ",\n         ".join(f"{measure.over_sums} AS {measure.name}" for measure in measures)
