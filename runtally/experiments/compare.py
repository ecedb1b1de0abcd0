"""Compare two experiments: the figures of each, and whether the difference is more than chance."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.experiments import estimate, queries
from runtally.experiments.estimate import Difference, Estimate, Sample
from runtally.experiments.rule import MAX_SAMPLE_RUNS


@dataclass(frozen=True, slots=True)
class Arm:
    """One of two experiments: its sample, and the estimates from it; None where the sample gives none."""

    sample: Sample
    cost_per_run: Estimate | None
    error_rate: Estimate | None
    p95_latency: Estimate | None

    @property
    def is_partial(self) -> bool:
        """Whether only some of the experiment's runs were read."""
        return self.sample.runs >= MAX_SAMPLE_RUNS


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second experiment compared with the first. A difference is None where there are too few runs."""

    first: Arm
    second: Arm

    @property
    def cost_per_run(self) -> Difference | None:
        return estimate.amounts_apart(self.first.cost_per_run, self.second.cost_per_run)

    @property
    def error_rate(self) -> Difference | None:
        return estimate.rates_apart(self.first.error_rate, self.second.error_rate)

    @property
    def p95_latency(self) -> Difference | None:
        return estimate.amounts_apart(self.first.p95_latency, self.second.p95_latency)


async def read_arm(connection: Connection, project_id: str, experiment_id: str, since: datetime) -> Arm:
    """Read the runs of an experiment since then; all figures are zero if there is no such experiment."""
    sample = await queries.select_sample(connection, project_id, experiment_id, since)
    return Arm(
        sample,
        estimate.mean(sample.mean_cost_usd, sample.cost_variance, sample.priced),
        estimate.rate(sample.failed, sample.runs),
        await _p95(connection, project_id, experiment_id, since, sample.timed) if sample.timed else None,
    )


async def _p95(connection: Connection, project_id: str, experiment_id: str, since: datetime, runs: int) -> Estimate:
    shares = [share for share in estimate.ranks(runs) if share <= 1]
    found = await queries.select_latencies(connection, project_id, experiment_id, since, shares)
    return estimate.percentile(found, runs)
