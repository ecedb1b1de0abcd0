"""The page of an experiment: its checks, its rule and its badge."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Permission, Scope, demand, may
from runtally.errors import Detail, InvalidThresholds
from runtally.experiments import edit
from runtally.experiments.read import verdict_on
from runtally.experiments.verdict import Measured, Rule, Thresholds, Window, validate
from runtally.models.experiment import RATE_DECIMALS
from runtally.money import plain
from webapp import threshold_text
from webapp.form import Form, sent_form
from webapp.pages.experiments.badges import BadgePanel, badge_panel
from webapp.pages.experiments.experiments import Cell, cells_of, key_of
from webapp.pages.project.frame import ProjectHeading, heading_of
from webapp.rendering import Page, render, see_other
from webapp.security import project_editor, signed_in

blueprint = Blueprint("experiment", __name__)


class ExperimentPage(Page, frozen=True):
    """The page of an experiment."""

    fragment: ClassVar[str] = "experiments/_experiment.html"

    experiment: Measured
    project: ProjectHeading
    verdict: str
    window: str
    now: datetime
    cells: tuple[Cell, ...]
    form: Form
    may_edit: bool
    badge: BadgePanel
    compare_url: str

    @property
    def document_title(self) -> str:
        return f"{self.verdict} · {self.experiment.id}"


@blueprint.get("/experiments/<segment:project_id>/<segment:experiment_id>")
@signed_in
async def experiment(project_id: str, experiment_id: str) -> ResponseReturnValue:
    """The experiment as its runs have it now."""
    demand(actor(), Scope.METRICS_READ, project_id)
    experiment = await _read(project_id, experiment_id)
    return await render(await _page(experiment, filled(experiment.rule)))


@blueprint.post("/experiments/<segment:project_id>/<segment:experiment_id>/thresholds")
@project_editor
async def set_thresholds(project_id: str, experiment_id: str) -> ResponseReturnValue:
    """Set the rule of an experiment; errors show the page again with 422."""
    form = await sent_form()
    try:
        rule = parsed(form)
    except InvalidThresholds as error:
        return await _refused(project_id, experiment_id, form.refused(error))
    async with services().cells.for_project(project_id).database.session() as session:
        experiment = await edit.get(session, project_id, experiment_id)
        conflict = form.conflict_with(filled(edit.rule_of(experiment)))
        if conflict is None:
            edit.set_rule(session, actor(), experiment, rule)
    if conflict is not None:
        return await _refused(project_id, experiment_id, conflict)
    url = url_for(".experiment", project_id=project_id, experiment_id=experiment_id)
    return see_other(url, flash="Thresholds saved.")


async def _read(project_id: str, experiment_id: str) -> Measured:
    async with services().cells.for_project(project_id).database.snapshot() as connection:
        memo = services().cells.for_project(project_id).memo
        return await verdict_on(connection, services().clock(), project_id, experiment_id, memo)


async def _refused(project_id: str, experiment_id: str, form: Form) -> ResponseReturnValue:
    return await render(await _page(await _read(project_id, experiment_id), form), 422)


async def _page(experiment: Measured, form: Form) -> ExperimentPage:
    async with services().cells.for_project(experiment.project_id).database.connection() as connection:
        project = await heading_of(connection, experiment.project_id)
    return ExperimentPage(
        experiment=experiment,
        project=project,
        verdict=threshold_text.outcome_text(experiment.verdict),
        window=threshold_text.window_text(experiment.rule.window),
        now=services().clock(),
        cells=cells_of(experiment),
        form=form,
        may_edit=may(actor(), Permission.EDIT_PROJECT, experiment.project_id),
        badge=badge_panel(experiment),
        compare_url=url_for("comparison.compare", a=key_of(experiment.project_id, experiment.id)),
    )


# The names are those of the API, which the errors of the domain name too.
LABELS = {
    "windowRuns": "Runs judged",
    "windowHours": "Hours judged",
    "minRuns": "Runs needed",
    "maxErrorRate": "Error rate",
    "maxP95LatencyMs": "p95 latency",
    "maxCostPerRunUSD": "Cost per run",
    "maxTotalCostUSD": "Total cost",
}
# A percent is a hundredth of the share that is stored.
_PERCENT_DECIMALS = RATE_DECIMALS - 2


class _NotANumber(Exception):
    """The text is not a number of the required form."""


def filled(rule: Rule) -> Form:
    """The form as the rule is now; what has no limit is empty."""
    limits = rule.thresholds
    values: Mapping[str, Decimal | int | None] = {
        "windowRuns": rule.window.runs,
        "windowHours": rule.window.hours,
        "minRuns": limits.min_runs,
        "maxErrorRate": None if limits.max_error_rate is None else limits.max_error_rate * 100,
        "maxP95LatencyMs": limits.max_p95_latency_ms,
        "maxCostPerRunUSD": limits.max_cost_per_run_usd,
        "maxTotalCostUSD": limits.max_total_cost_usd,
    }
    return Form.showing("", {name: "" if value is None else plain(Decimal(value)) for name, value in values.items()})


def parsed(form: Form) -> Rule:
    """The rule that was sent. Raises `InvalidThresholds` with all that is wrong, in words that name the field."""
    # Where a field can't be read the rest is looked at as if it had not been changed, to say all that is wrong at once.
    plain = filled(Rule())
    values, unread = dict[str, Any](), dict[str, Detail]()
    for name, read in _READERS.items():
        try:
            values[name] = read(form.value(name).strip())
        except _NotANumber as error:
            unread[name] = Detail(name, str(error))
            values[name] = read(plain.value(name))
    rule = _rule_of(values)
    try:
        validate(rule)
        wrong: tuple[Detail, ...] = ()
    except InvalidThresholds as error:
        wrong = tuple(detail for detail in error.details if detail.path not in unread)
    if unread or wrong:
        raise InvalidThresholds(details=_named((*unread.values(), *wrong)))
    return rule


def _rule_of(values: Mapping[str, Any]) -> Rule:
    return Rule(
        Window(values["windowRuns"], values["windowHours"]),
        Thresholds(
            values["maxErrorRate"],
            values["maxP95LatencyMs"],
            values["maxCostPerRunUSD"],
            values["maxTotalCostUSD"],
            values["minRuns"] or 1,
        ),
    )


def _named(details: Iterable[Detail]) -> tuple[Detail, ...]:
    """The constraints as sentences about what the page calls the field."""
    return tuple(replace(detail, message=f"{LABELS[detail.path]} {_in_words(detail.message)}.") for detail in details)


def _in_words(message: str) -> str:
    for name, label in LABELS.items():
        message = message.replace(name, label.lower())
    return message


def _whole(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise _NotANumber("must be a whole number") from None


def _amount(text: str) -> Decimal | None:
    return _number(text.removeprefix("$").replace(",", ""))


def _percent(text: str) -> Decimal | None:
    number = _number(text.removesuffix("%"))
    if number is None:
        return None
    exponent = number.as_tuple().exponent
    is_exact = isinstance(exponent, int) and -exponent <= _PERCENT_DECIMALS
    if not is_exact or not 0 <= number <= 100:  # noqa: PLR2004  # Percent.
        raise _NotANumber(f"must be from 0 to 100 percent, with at most {_PERCENT_DECIMALS} decimals")
    return number.scaleb(-2)


def _number(text: str) -> Decimal | None:
    if not text.strip():
        return None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise _NotANumber("must be a number, with a point before its decimals") from None
    if not number.is_finite():
        raise _NotANumber("must be a number, with a point before its decimals")
    return number


_READERS: Mapping[str, Callable[[str], Decimal | int | None]] = {
    "windowRuns": _whole,
    "windowHours": _whole,
    "minRuns": _whole,
    "maxErrorRate": _percent,
    "maxP95LatencyMs": _whole,
    "maxCostPerRunUSD": _amount,
    "maxTotalCostUSD": _amount,
}
