"""What an alert says: in a line, in sentences for mail, and as JSON for webhooks. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from runtally.budgets.anomaly import HOUR, Unusual
from runtally.budgets.use import Use
from runtally.models.alert import AlertKind
from runtally.money import as_json, plain

TYPES = {
    AlertKind.BUDGET: "budget.threshold_reached",
    AlertKind.ANOMALY: "cost.unusual",
    AlertKind.TEST: "alert.test",
}


@dataclass(frozen=True, slots=True)
class About:
    """The project that an alert is about, and where its page is, if anybody told."""

    project_id: str
    name: str
    url: str | None


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What one provider's model cost."""

    provider: str
    model: str
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Message:
    """An alert as it is told. There is one of its kind, subject and level."""

    kind: AlertKind
    subject: str
    level: int
    title: str
    text: str
    document: str


def budget_message(about: About, use: Use, percent: int) -> Message:
    forecast = use.forecast_usd
    used = _percent(use.spent_usd, use.amount_usd)
    minimum = " or more, for some runs have no price" if use.unpriced else ""
    sentences = [
        f"{about.name} has used {used} of its budget of {_money(use.amount_usd)} for {use.month.start:%B %Y}.",
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
        about,
        use.now,
        subject=f"{use.month.name} {plain(use.amount_usd)}",
        level=percent,
        title=f"{about.name} has reached {percent}% of its budget",
        sentences=sentences,
        facts=facts,
    )


def anomaly_message(about: About, found: Unusual, models: Sequence[ModelCost], now: datetime) -> Message:
    is_over = now >= found.hour + HOUR
    when = f"{found.hour:%d %b %Y, %H:%M} to {found.hour + HOUR:%H:%M} UTC"
    so_far = "" if is_over else " so far"
    sentences = [
        f"{about.name} cost {_money(found.cost_usd)}{so_far} in the hour {when}.",
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
        about,
        now,
        subject=_time(found.hour),
        level=0,
        title=f"{about.name} costs far more than usual",
        sentences=sentences,
        facts=facts,
    )


def trial_message(about: About, subject: str, now: datetime) -> Message:
    return _message(
        AlertKind.TEST,
        about,
        now,
        subject=subject,
        level=0,
        title=f"Test of the alerts of {about.name}",
        sentences=["Somebody asked for this on the project's settings page. Alerts arrive here."],
        facts={},
    )


def _message(  # noqa: PLR0913  # Each is said at the call, by name.
    kind: AlertKind,
    about: About,
    now: datetime,
    *,
    subject: str,
    level: int,
    title: str,
    sentences: Sequence[str],
    facts: Mapping[str, object],
) -> Message:
    link = {} if about.url is None else {"url": about.url}
    data = {"projectId": about.project_id, "projectName": about.name, **facts, **link}
    document = msgspec.json.encode({"type": TYPES[kind], "timestamp": _time(now), "data": data}).decode()
    text = "\n".join([*sentences, *(["", about.url] if about.url else [])])
    # A name may hold any character; a subject of mail is one line.
    return Message(kind, subject, level, " ".join(title.split()), text, document)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _money(amount_usd: Decimal) -> str:
    return f"${amount_usd:,.2f}" if amount_usd >= Decimal("0.01") or not amount_usd else "less than a cent"


def _percent(part: Decimal, whole: Decimal) -> str:
    """Never more than is reached: 99.99 % are not all of it."""
    return f"{int(part * 100 // whole):,}%"
