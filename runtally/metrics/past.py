"""What a process remembers of time that is over, so that no page adds it up again."""

from dataclasses import dataclass, field

from runtally.metrics.past_costs import PastCosts
from runtally.metrics.past_latencies import PastLatencies
from runtally.metrics.past_runs import PastRuns
from runtally.metrics.past_sums import PastSums


@dataclass(frozen=True, slots=True)
class Past:
    """Each beside the version of the rows that it is of, so that no run that comes, changes or goes is missed."""

    costs: PastCosts = field(default_factory=PastCosts)
    latencies: PastLatencies = field(default_factory=PastLatencies)
    runs: PastRuns = field(default_factory=PastRuns)
    sums: PastSums = field(default_factory=PastSums)
