"""The page of an experiment: its checks, their history by day, its rule and its badge."""

from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Permission, Scope, demand, may
from runtally.errors import InvalidThresholds, NotFound
from runtally.experiments import edit
from runtally.experiments.read import DayVerdict, Judged, history, verdict_on
from runtally.experiments.verdict import Measure, Measured, Outcome
from webapp import formats, threshold_text
from webapp.charts import verdicts as charts
from webapp.charts.chart import Chart
from webapp.charts.verdicts import Day
from webapp.form import Form, sent_form
from webapp.pages.experiments import thresholds
from webapp.pages.experiments.badges import BadgePanel, badge_panel
from webapp.pages.experiments.experiments import Cell, cells_of, key_of, values_of
from webapp.pages.panel.chart_answer import payload_of, picture_of
from webapp.pages.project.frame import ProjectHeading, heading_of
from webapp.rendering import Page, render, see_other
from webapp.report import ChartPart
from webapp.security import project_editor, signed_in

blueprint = Blueprint("experiment", __name__)


class DayMark(Struct, frozen=True):
    """A day of the history: its verdict, and the same in words."""

    outcome: Outcome
    title: str


class ExperimentPage(Page, frozen=True):
    """The page of an experiment."""

    fragment: ClassVar[str] = "experiments/_experiment.html"

    id: str
    project: ProjectHeading
    outcome: Outcome
    verdict: str
    runs: str
    min_runs: int
    window: str
    unpriced: int
    now: datetime
    cells: tuple[Cell, ...]
    marks: tuple[DayMark, ...]
    passed: str
    figures: tuple[ChartPart, ...]
    form: Form
    may_edit: bool
    badge: BadgePanel
    compare_url: str

    @property
    def document_title(self) -> str:
        return f"{self.verdict} · {self.id}"


@blueprint.get("/experiments/<segment:project_id>/<segment:experiment_id>")
@signed_in
async def experiment(project_id: str, experiment_id: str) -> ResponseReturnValue:
    """The experiment as its runs have it now."""
    demand(actor(), Scope.METRICS_READ, project_id)
    judged, past = await _read(project_id, experiment_id)
    return await render(await _page(judged, past, thresholds.filled(judged.experiment.rule)))


@blueprint.post("/experiments/<segment:project_id>/<segment:experiment_id>/thresholds")
@project_editor
async def set_thresholds(project_id: str, experiment_id: str) -> ResponseReturnValue:
    """Set the rule of an experiment; errors show the page again with 422."""
    form = await sent_form()
    try:
        rule = thresholds.parsed(form)
    except InvalidThresholds as error:
        return await _refused(project_id, experiment_id, form.refused(error))
    async with services().cells.of(project_id).database.session() as session:
        experiment = await edit.get(session, project_id, experiment_id)
        conflict = form.conflict_with(thresholds.filled(edit.rule_of(experiment)))
        if conflict is None:
            edit.set_rule(session, actor(), experiment, rule)
    if conflict is not None:
        return await _refused(project_id, experiment_id, conflict)
    url = url_for(".experiment", project_id=project_id, experiment_id=experiment_id)
    return see_other(url, flash="Thresholds saved.")


@blueprint.get(
    f"/experiments/<segment:project_id>/<segment:experiment_id>/<any({','.join(Measure)}):name>.<any(json,svg):kind>",
)
@signed_in
async def chart(project_id: str, experiment_id: str, name: str, kind: str) -> ResponseReturnValue:
    """The chart of a measure: its spec with its rows and its tooltips, or drawn."""
    demand(actor(), Scope.METRICS_READ, project_id)
    judged, past = await _read(project_id, experiment_id)
    found = dict(_charts(judged, past)).get(Measure(name))
    if found is None:
        raise NotFound("This experiment has no such limit.")
    if kind == "svg":
        return picture_of(found, experiment_id)
    return await payload_of(found)


async def _read(project_id: str, experiment_id: str) -> tuple[Judged, tuple[DayVerdict, ...]]:
    async with services().cells.of(project_id).database.snapshot() as connection:
        now, memo = services().clock(), services().cells.of(project_id).memo
        judged = await verdict_on(connection, now, project_id, experiment_id, memo)
        return judged, await history(connection, now, judged, memo)


async def _refused(project_id: str, experiment_id: str, form: Form) -> ResponseReturnValue:
    judged, past = await _read(project_id, experiment_id)
    return await render(await _page(judged, past, form), 422)


async def _page(judged: Judged, past: tuple[DayVerdict, ...], form: Form) -> ExperimentPage:
    experiment, verdict = judged.experiment, judged.verdict
    async with services().cells.of(experiment.project_id).database.connection() as connection:
        project = await heading_of(connection, experiment.project_id)
    return ExperimentPage(
        id=experiment.id,
        project=project,
        outcome=verdict.outcome,
        verdict=threshold_text.outcome_text(verdict),
        runs=formats.count(verdict.runs),
        min_runs=verdict.min_runs,
        window=threshold_text.window_text(experiment.rule.window),
        unpriced=experiment.stats.unpriced,
        now=services().clock(),
        cells=cells_of(judged),
        marks=tuple(_mark(one) for one in past),
        passed=_passed(past),
        figures=tuple(_figure(experiment, measure, found) for measure, found in _charts(judged, past)),
        form=form,
        may_edit=may(actor(), Permission.EDIT_PROJECT, experiment.project_id),
        badge=badge_panel(experiment),
        compare_url=url_for("comparison.compare", a=key_of(experiment.project_id, experiment.id)),
    )


def _figure(experiment: Measured, measure: Measure, found: Chart) -> ChartPart:
    src, picture = (
        url_for(
            "experiment.chart",
            project_id=experiment.project_id,
            experiment_id=experiment.id,
            name=measure.value,
            kind=kind,
        )
        for kind in ("json", "svg")
    )
    return ChartPart(found, src, f"{measure.value.replace('_', '-')}-chart", picture=picture)


def _charts(judged: Judged, past: tuple[DayVerdict, ...]) -> list[tuple[Measure, Chart]]:
    """Build a chart for each measure that has a limit, and for those that tell a trend without one."""
    limits = {check.measure: check.limit for check in judged.verdict.checks}
    values = [values_of(one.stats) for one in past]

    def chart_of(measure: Measure) -> Chart:
        days = [
            Day(one.day, value[measure], one.verdict.runs, _word(one.verdict.outcome))
            for one, value in zip(past, values, strict=True)
        ]
        return charts.history(measure, days, limits.get(measure))

    # The ones with a limit first; a total says little without one, because it is of a window of runs.
    shown = sorted(Measure, key=lambda measure: measure not in limits)
    return [(one, chart_of(one)) for one in shown if one in limits or one is not Measure.TOTAL_COST_USD]


def _word(outcome: Outcome) -> str:
    return "Not enough runs" if outcome is Outcome.UNKNOWN else outcome.capitalize()


def _mark(one: DayVerdict) -> DayMark:
    return DayMark(one.verdict.outcome, f"{formats.bucket(one.day, timedelta(days=1))}: {_word(one.verdict.outcome)}")


def _passed(past: tuple[DayVerdict, ...]) -> str:
    """Count the days that passed, of those with a verdict."""
    known = [one for one in past if one.verdict.outcome is not Outcome.UNKNOWN]
    passed = sum(one.verdict.outcome is Outcome.PASS for one in known)
    if not known:
        return f"No verdict in the last {len(past)} days"
    return f"Passed on {passed} of {len(known)} {'day' if len(known) == 1 else 'days'} with enough runs"
