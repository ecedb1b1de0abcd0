"""`runtally experiments`: list, set."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote, urlencode

import click
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import Detail, InvalidThresholds
from runtally.experiments import edit
from runtally.experiments.queries import select_keys
from runtally.experiments.read import verdicts
from runtally.experiments.verdict import Check, Measured, Rule, Window
from runtally.models.experiment import Experiment
from runtally.money import plain
from runtally.settings import Settings
from webapp.cli.filters import ID
from webapp.cli.opening import demand_project, in_session, with_database
from webapp.cli.output import Record, attributes, echo_if_none, echo_json, json_option, record

# What click hands over for an option that was not given is None as well.
NO_LIMIT = "none"
_WINDOW = ("runs", "hours")
_OPTIONS = {
    "windowRuns": "--last-runs",
    "windowHours": "--last-hours",
    "minRuns": "--min-runs",
    "maxErrorRate": "--max-error-rate",
    "maxP95LatencyMs": "--max-p95-latency-ms",
    "maxCostPerRunUSD": "--max-cost-per-run-usd",
    "maxTotalCostUSD": "--max-total-cost-usd",
}
"""The options by the field names of the API, which errors use."""


class Limit(click.ParamType[Decimal | int | str]):
    """A number, or the word none."""

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole
        self.name = f"{'integer' if whole else 'number'}|{NO_LIMIT}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Decimal | int | str:
        text = str(value).strip().casefold()
        if text == NO_LIMIT:
            return NO_LIMIT
        try:
            number = int(text) if self._whole else Decimal(text)
        except (ValueError, InvalidOperation):
            number = Decimal("NaN")
        if not Decimal(number).is_finite():
            self.fail(f"write {'a whole number' if self._whole else 'a number'}, or {NO_LIMIT}", param, ctx)
        return number


@click.group()
def experiments() -> None:
    """Experiments: list, set. An experiment is made by the first run that names it.

    \b
    Example: runtally experiments list --project support-agent
    """


@experiments.command("list")
@click.option("--project", "project_id", type=ID, help="Only the experiments of this project.")
@json_option
def list_experiments(project_id: str | None, *, as_json: bool) -> None:
    """List experiments: verdict, window, and each threshold with the figure of the runs.

    \b
    Example: runtally experiments list --project support-agent
    """

    async def work(_settings: Settings, database: Database) -> tuple[Measured, ...]:
        await demand_project(database, project_id)
        async with database.connection() as connection:
            keys = await select_keys(connection, None if project_id is None else [project_id])
            return await verdicts(connection, system_clock(), keys)

    found = with_database(work)
    if as_json:
        echo_json(map(_record, found))
        return
    echo_if_none(found, "No experiments yet; the first run with an experimentId adds one.")
    for experiment in found:
        click.echo("\n".join(_lines(experiment)))


@experiments.command("set")
@click.argument("project_id", type=ID)
@click.argument("experiment_id", type=ID)
@click.option("--last-runs", "runs", type=Limit(whole=True), help="Judge at most this number of newest runs.")
@click.option("--last-hours", "hours", type=Limit(whole=True), help="Judge the runs of this number of hours.")
@click.option("--max-error-rate", type=Limit(), help="Largest share of failed runs, 0 to 1.")
@click.option("--max-p95-latency-ms", type=Limit(whole=True), help="Largest p95 latency in milliseconds.")
@click.option("--max-cost-per-run-usd", type=Limit(), help="Largest mean cost of a run in US dollars.")
@click.option("--max-total-cost-usd", type=Limit(), help="Largest cost of all runs judged in US dollars.")
@click.option("--min-runs", type=int, help="No verdict with fewer runs than this.")
@click.option(
    "--private/--public", default=None, help="Whether the badge's URL needs a token; --private makes a new one."
)
def set_experiment(
    project_id: str, experiment_id: str, *, private: bool | None, **rule: Decimal | int | str | None
) -> None:
    """Change the rule of an experiment, or who sees its badge, and print the badge's path.

    What is not given stays as it is; the word none takes a limit away.

    \b
    Example: runtally experiments set support-agent prompt-v2 --max-error-rate 0.02 --min-runs 50
    """
    given = {name: None if value == NO_LIMIT else value for name, value in rule.items() if value is not None}

    async def work(session: AsyncSession) -> Experiment:
        experiment = await edit.get(session, project_id, experiment_id)
        edit.set_rule(session, OPERATOR, experiment, _changed(edit.rule_of(experiment), given))
        if private:
            edit.make_private(session, OPERATOR, experiment)
        elif private is not None:
            edit.make_public(session, OPERATOR, experiment)
        return experiment

    try:
        click.echo(_badge_path(in_session(work)))
    except InvalidThresholds as error:
        raise click.UsageError(_in_options(error.details)) from None


def _in_options(details: Iterable[Detail]) -> str:
    wrong = "".join(f"\n  {detail.path} {detail.message}" for detail in details)
    for name, option in _OPTIONS.items():
        wrong = wrong.replace(name, option)
    return f"No experiment can have this rule; nothing was changed.{wrong}"


def _changed(rule: Rule, given: Mapping[str, Any]) -> Rule:
    window = {name: value for name, value in given.items() if name in _WINDOW}
    limits = {name: value for name, value in given.items() if name not in _WINDOW}
    return Rule(replace(rule.window, **window), replace(rule.thresholds, **limits))


def _badge_path(experiment: Experiment) -> str:
    """Return the badge's path with the project, so that the same id in another project never makes it ambiguous."""
    query = {"project": experiment.project_id}
    if experiment.badge_token:
        query["token"] = experiment.badge_token
    return f"/api/badge/experiment/{quote(experiment.id)}.svg?{urlencode(query)}"


def _record(experiment: Measured) -> Record:
    verdict = experiment.verdict
    return record(
        project_id=experiment.project_id,
        experiment_id=experiment.id,
        verdict=verdict.outcome,
        **attributes(verdict, "runs", "min_runs"),
        window_runs=experiment.rule.window.runs,
        window_hours=experiment.rule.window.hours,
        is_private=experiment.is_private,
        checks=[
            record(**attributes(check, "measure", "holds", "value", "is_minimum", "limit")) for check in verdict.checks
        ],
    )


def _lines(experiment: Measured) -> Iterator[str]:
    verdict = experiment.verdict
    seen = f"{verdict.runs:,} runs (at least {verdict.min_runs:,}) of {_window(experiment.rule.window)}"
    visible = "private" if experiment.is_private else "public"
    yield f"{experiment.project_id:24}  {experiment.id:32}  {verdict.outcome:7}  {seen}  {visible}"
    for check in verdict.checks:
        yield f"    {'holds' if check.holds else 'fails'}  {check.measure:16}  {_shown(check)}"


def _window(window: Window) -> str:
    parts = []
    if window.runs is not None:
        parts.append(f"the last {window.runs:,}")
    if window.hours is not None:
        parts.append(f"the last {window.hours:,} hours")
    return " in ".join(parts)


def _shown(check: Check) -> str:
    value = "not known" if check.value is None else plain(check.value)
    return f"{'at least ' if check.is_minimum else ''}{value}, limit {plain(check.limit)}"
