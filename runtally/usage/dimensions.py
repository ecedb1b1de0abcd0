"""What runs can be grouped by, one row each."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dimension:
    """A property of runs by which sums over them are told apart."""

    name: str
    sql: str
    """Its value, over the columns of runs."""
    filter_field: str
    """The field of `RunFilter` that keeps the runs of one value."""
    is_in_cells: bool = False
    """Whether stored cells tell it apart."""
    is_in_totals: bool = False
    """Whether stored totals do too."""
    has_value: str = "TRUE"
    """A condition on runs that have a value; the others are in no group."""


PROJECT = Dimension("project", "project_id", "project_id", is_in_cells=True, is_in_totals=True)
PROVIDER = Dimension("provider", "provider", "provider", is_in_cells=True)
MODEL = Dimension("model", "model", "model", is_in_cells=True)
STATUS = Dimension("status", "status", "status")
EXPERIMENT = Dimension("experiment", "experiment_id", "experiment_id", has_value="experiment_id IS NOT NULL")

DIMENSIONS: Mapping[str, Dimension] = {one.name: one for one in (PROJECT, PROVIDER, MODEL, STATUS, EXPERIMENT)}
BY_MODEL = (PROVIDER, MODEL)
