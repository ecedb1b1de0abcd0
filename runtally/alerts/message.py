"""Write what an alert says: a title, sentences, and a JSON document. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from runtally.alerts.anomaly import HOUR, UnusualHour
from runtally.alerts.week import WeeklySpend
from runtally.budgets.use import Use
from runtally.models.alert import AlertKind
from runtally.money import as_json, plain

TYPES = {
    AlertKind.BUDGET: "budget.threshold_reached",
    AlertKind.ANOMALY: "cost.unusual",
    AlertKind.REPORT: "report.weekly",
    AlertKind.TEST: "alert.test",
}


@dataclass(frozen=True, slots=True)
class ProjectLink:
    """The project that an alert is about, and the URL of its page where PUBLIC_URL is set."""

    project_id: str
    name: str
    url: str | None


@dataclass(frozen=True, slots=True)
class ModelCost:
    """The cost of one provider's model."""

    provider: str
    model: str
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Message:
    """An alert as it is sent. A project has one of each kind, subject and level."""

    kind: AlertKind
    subject: str
    level: int
    title: str
    text: str
    document: str


def budget_message(project: ProjectLink, use: Use, percent: int) -> Message:
    forecast = use.forecast_usd
    used = _percent(use.spent_usd, use.amount_usd)
    minimum = " or more, for some runs have no price" if use.unpriced else ""
    sentences = [
        f"{project.name} has used {used} of its budget of {_money(use.amount_usd)} for {use.month.start:%B %Y}.",
        f"That is {_money(use.spent_usd)}{minimum}.",
    ]
    if forecast is not None:
        sentences.append(f"At the pace of the last 7 days the month ends at {_money(forecast)}.")
    facts = {
        "month": use.month.name,
        "thresholdPercent": percent,
        "budgetUSD": as_json(use.amount_usd),
        "spentUSD": as_json(use.spent_usd),
        "forecastUSD": None if forecast is None else as_json(forecast),
        "unpricedRuns": use.unpriced,
    }
    return _message(
        AlertKind.BUDGET,
        project,
        use.now,
        subject=f"{use.month.name} {plain(use.amount_usd)}",
        level=percent,
        title=f"{project.name} has reached {percent}% of its budget",
        sentences=sentences,
        facts=facts,
    )


def anomaly_message(project: ProjectLink, found: UnusualHour, models: Sequence[ModelCost], now: datetime) -> Message:
    is_over = now >= found.hour + HOUR
    when = f"{found.hour:%d %b %Y, %H:%M} to {found.hour + HOUR:%H:%M} UTC"
    so_far = "" if is_over else " so far"
    sentences = [
        f"{project.name} cost {_money(found.cost_usd)}{so_far} in the hour {when}.",
        f"At this hour of the week {_money(found.usual_usd)} is usual, and up to {_money(found.limit_usd)} nothing special.",
    ]
    if models:
        sentences.append(f"Most of it: {', '.join(f'{one.model} {_money(one.cost_usd)}' for one in models)}.")
    facts = {
        "hour": _time(found.hour),
        "costUSD": as_json(found.cost_usd),
        "usualUSD": as_json(found.usual_usd),
        "limitUSD": as_json(found.limit_usd),
        "models": [{"provider": one.provider, "model": one.model, "costUSD": as_json(one.cost_usd)} for one in models],
    }
    return _message(
        AlertKind.ANOMALY,
        project,
        now,
        subject=_time(found.hour),
        level=0,
        title=f"{project.name} costs far more than usual",
        sentences=sentences,
        facts=facts,
    )


def report_message(project: ProjectLink, spend: WeeklySpend, now: datetime) -> Message:
    week, drivers = spend.week, spend.drivers
    last_day = week.end - timedelta(days=1)
    minimum = " or more, for some runs have no price," if spend.unpriced else ""
    when, runs = f"from {week.start:%d %b} to {last_day:%d %b %Y} (UTC)", "run" if spend.runs == 1 else "runs"
    sentences = [
        f"{project.name} cost {_money(spend.cost_usd)}{minimum} {when}, in {spend.runs:,} {runs}.",
        f"The week before cost {_money(spend.previous_usd)}{_change_in_percent(spend)}.",
    ]
    if drivers:
        changes = ", ".join(f"{one.model} {_signed(one.change_usd)} (now {_money(one.cost_usd)})" for one in drivers)
        sentences.append(f"Changed most: {changes}.")
    facts = {
        "week": week.name,
        "costUSD": as_json(spend.cost_usd),
        "previousCostUSD": as_json(spend.previous_usd),
        "runs": spend.runs,
        "unpricedRuns": spend.unpriced,
        "drivers": [
            {
                "provider": one.provider,
                "model": one.model,
                "costUSD": as_json(one.cost_usd),
                "previousCostUSD": as_json(one.previous_usd),
            }
            for one in drivers
        ],
    }
    return _message(
        AlertKind.REPORT,
        project,
        now,
        subject=week.name,
        level=0,
        title=f"{project.name}: {_money(spend.cost_usd)} in the week to {last_day:%d %b}",
        sentences=sentences,
        facts=facts,
    )


def trial_message(project: ProjectLink, subject: str, now: datetime) -> Message:
    return _message(
        AlertKind.TEST,
        project,
        now,
        subject=subject,
        level=0,
        title=f"Test of the alerts of {project.name}",
        sentences=["Alerts of this project arrive here. Nothing has happened: this was only a test."],
        facts={},
    )


def _message(  # noqa: PLR0913  # Each is named at the call.
    kind: AlertKind,
    project: ProjectLink,
    now: datetime,
    *,
    subject: str,
    level: int,
    title: str,
    sentences: Sequence[str],
    facts: Mapping[str, object],
) -> Message:
    link = {} if project.url is None else {"url": project.url}
    data = {"projectId": project.project_id, "projectName": project.name, **facts, **link}
    # A name may hold any character; a title is one line.
    title = " ".join(title.split())
    # Many receivers show `text` and nothing else.
    text = "\n".join([title, *sentences, *([project.url] if project.url else [])])
    document = {"type": TYPES[kind], "timestamp": _time(now), "text": text, "data": data}
    return Message(kind, subject, level, title, "\n".join(sentences), msgspec.json.encode(document).decode())


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _money(amount_usd: Decimal) -> str:
    return f"${amount_usd:,.2f}" if amount_usd >= Decimal("0.01") or not amount_usd else "less than a cent"


def _signed(amount_usd: Decimal) -> str:
    return f"{'-' if amount_usd < 0 else '+'}{_money(abs(amount_usd))}"


def _change_in_percent(spend: WeeklySpend) -> str:
    if not spend.previous_usd:
        return ""
    percent = round(100 * (spend.cost_usd - spend.previous_usd) / spend.previous_usd)
    return f", so this is {abs(percent):,}% {'less' if percent < 0 else 'more'}" if percent else ", about the same"


def _percent(part: Decimal, whole: Decimal) -> str:
    """Round down: 99.99 % is not all of it."""
    return f"{int(part * 100 // whole):,}%"
