"""Write the text of an alert: a title, sentences, and a JSON document. Pure.

Names come from programs and people, so each one in a text is `quoted`; the facts of the document have it as it is.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Protocol

import msgspec

from runtally.alerts.channel import shorten
from runtally.alerts.rules import Breach, UnusualHour
from runtally.alerts.week import WeeklySpend
from runtally.clock import HOUR
from runtally.models.alert import AlertKind
from runtally.money import as_json

TYPES = {
    AlertKind.BUDGET: "budget.threshold_reached",
    AlertKind.ANOMALY: "cost.unusual",
    AlertKind.ERROR_RATE: "error_rate.high",
    AlertKind.LATENCY: "latency.high",
    AlertKind.CACHE_HIT_RATE: "cache_hit_rate.low",
    AlertKind.RUN_COST: "run.costly",
    AlertKind.NEW_MODEL: "model.first_used",
    AlertKind.UNPRICED_MODEL: "model.unpriced",
    AlertKind.KEY_EXPIRY: "key.expires_soon",
    AlertKind.REPORT: "report.weekly",
    AlertKind.BILL: "bill.differs",
    AlertKind.TEST: "alert.test",
    AlertKind.CONFIRMATION: "alert.confirmation",
}


MOST_OF_NAME = 80
"""The most characters of a name in a text."""
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+")
# No name ends its quotation itself. And all that browsers take for a full stop in a host.
_MARKS = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u201f\uff02', "'"))
_DOTS = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))


@dataclass(frozen=True, slots=True)
class ProjectLink:
    """The project that an alert is about, and the URL of its page where PUBLIC_URL is set."""

    project_id: str
    name: str
    url: str | None

    @property
    def shown(self) -> str:
        """The name as texts have it; what all projects together are called is no one's name."""
        return quoted(self.name) if self.project_id else self.name


@dataclass(frozen=True, slots=True)
class ModelCost:
    """The cost of one provider's model."""

    provider: str
    model: str
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Message:
    """The text of an alert. A project has one alert of each kind, subject and level."""

    kind: AlertKind
    subject: str
    level: int
    title: str
    text: str
    document: str
    named: tuple[str, ...] = ()
    """The values, runs, models or keys that it names, so that the next alert names others."""


def anomaly_message(project: ProjectLink, hour: UnusualHour, models: Sequence[ModelCost], now: datetime) -> Message:
    is_over = now >= hour.hour + HOUR
    when = f"{hour.hour:%d %b %Y, %H:%M} to {hour.hour + HOUR:%H:%M} UTC"
    so_far = "" if is_over else " so far"
    sentences = [
        f"{project.shown} cost {money(hour.cost_usd)}{so_far} in the hour {when}.",
        f"{money(hour.usual_usd)} is usual at this hour of the week; up to {money(hour.limit_usd)} is normal variation.",
    ]
    if models:
        sentences.append(
            f"Most of it: {', '.join(f'{quoted(model.model)} {money(model.cost_usd)}' for model in models)}."
        )
    facts = {
        "hour": iso(hour.hour),
        "costUSD": as_json(hour.cost_usd),
        "usualUSD": as_json(hour.usual_usd),
        "limitUSD": as_json(hour.limit_usd),
        "models": [
            {"provider": model.provider, "model": model.model, "costUSD": as_json(model.cost_usd)} for model in models
        ],
    }
    return compose(
        AlertKind.ANOMALY,
        project,
        now,
        subject=iso(hour.hour),
        title=f"{project.shown} costs far more than usual",
        sentences=sentences,
        facts=facts,
    )


class _Cost(Protocol):
    @property
    def unpriced(self) -> int: ...
    @property
    def is_minimum(self) -> bool: ...


def minimum_of(cost: _Cost) -> str:
    """Return why a cost may be more, in words that follow it; nothing where all of it is known."""
    what = "runs" if cost.unpriced else "units of runs" if cost.is_minimum else ""
    return f" or more, for some {what} have no price" if what else ""


def report_message(project: ProjectLink, spend: WeeklySpend, now: datetime) -> Message:
    week, drivers = spend.week, spend.drivers
    last_day = week.end - timedelta(days=1)
    minimum = minimum_of(spend)
    when, runs = f"from {week.start:%d %b} to {last_day:%d %b %Y} (UTC)", "run" if spend.runs == 1 else "runs"
    sentences = [
        f"{project.shown} cost {money(spend.cost_usd)}{minimum and f'{minimum},'} {when}, in {spend.runs:,} {runs}.",
        f"The week before cost {money(spend.previous_usd)}{_change_in_percent(spend)}.",
    ]
    if drivers:
        changes = ", ".join(
            f"{quoted(driver.model)} {_signed(driver.change_usd)} (now {money(driver.cost_usd)})" for driver in drivers
        )
        sentences.append(f"Changed most: {changes}.")
    facts = {
        "week": week.name,
        "costUSD": as_json(spend.cost_usd),
        "previousCostUSD": as_json(spend.previous_usd),
        "runs": spend.runs,
        "unpricedRuns": spend.unpriced,
        "drivers": [
            {
                "provider": driver.provider,
                "model": driver.model,
                "costUSD": as_json(driver.cost_usd),
                "previousCostUSD": as_json(driver.previous_usd),
            }
            for driver in drivers
        ],
    }
    return compose(
        AlertKind.REPORT,
        project,
        now,
        subject=week.name,
        title=f"{project.shown}: {money(spend.cost_usd)} in the week to {last_day:%d %b}",
        sentences=sentences,
        facts=facts,
    )


def trial_message(project: ProjectLink, subject: str, now: datetime) -> Message:
    return compose(
        AlertKind.TEST,
        project,
        now,
        subject=subject,
        title=f"Test of the alerts of {project.shown}",
        sentences=["Alerts of this project arrive here. Nothing has happened: this was only a test."],
        facts={},
    )


def confirmation_message(project: ProjectLink, subject: str, now: datetime) -> Message:
    """Return the question whether alerts are wanted; the channel adds the link that confirms it, and none to the project."""
    return compose(
        AlertKind.CONFIRMATION,
        replace(project, url=None),
        now,
        subject=subject,
        title=f"Confirm that you want the alerts of {project.shown}",
        sentences=[
            "Somebody who manages this project in Runtally entered this address for its alerts.",
            "Open the link below within seven days and press the button to get them. Without that nothing is sent here.",
        ],
        facts={},
    )


def compose(  # noqa: PLR0913  # Each is named at the call.
    kind: AlertKind,
    project: ProjectLink,
    now: datetime,
    *,
    subject: str,
    level: int = 0,
    title: str,
    sentences: Sequence[str],
    facts: Mapping[str, object],
    named: tuple[str, ...] = (),
) -> Message:
    """Return the message with its JSON document."""
    link = {} if project.url is None else {"url": project.url}
    data = {"projectId": project.project_id, "projectName": project.name, **facts, **link}
    # Many receivers show `text` and nothing else.
    text = "\n".join([title, *sentences, *([project.url] if project.url else [])])
    document = {"type": TYPES[kind], "timestamp": iso(now), "text": text, "data": data}
    return Message(kind, subject, level, title, "\n".join(sentences), msgspec.json.encode(document).decode(), named)


def quoted(name: str) -> str:
    """Return a name between quotation marks: cut, on one line, and with nothing that becomes a link."""
    # What is cut could end as an address does, so that is looked for afterwards.
    return f'"{unlinked(shorten(name.translate(_MARKS), MOST_OF_NAME))}"'


def unlinked(text: str) -> str:
    """Return a text as one line without control and direction characters, of which programs make no links: https[:]//example[.]com."""
    visible = "".join(each for each in " ".join(text.split()) if not unicodedata.category(each).startswith("C"))
    return _HOST.sub(_unlinked_host, visible.translate(_DOTS).replace("://", "[:]//"))


def _unlinked_host(match: re.Match[str]) -> str:
    # Names of models have full stops, too; the end of a host is a word, or one in Punycode.
    end = match[0].rpartition(".")[2]
    is_host = (len(end) > 1 and end.isalpha()) or end.casefold().startswith("xn--")
    return match[0].replace(".", "[.]") if is_host else match[0]


def iso(at: datetime) -> str:
    """Return the time as JSON documents have it: 2026-11-23T08:00:00Z."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def money(amount_usd: Decimal) -> str:
    """Return dollars with cents; never a rounded zero."""
    return f"${amount_usd:,.2f}" if amount_usd >= Decimal("0.01") or not amount_usd else "less than a cent"


def _signed(amount_usd: Decimal) -> str:
    return f"{'-' if amount_usd < 0 else '+'}{money(abs(amount_usd))}"


def _change_in_percent(spend: WeeklySpend) -> str:
    if not spend.previous_usd:
        return ""
    percent = round(100 * (spend.cost_usd - spend.previous_usd) / spend.previous_usd)
    return f", so this is {abs(percent):,}% {'less' if percent < 0 else 'more'}" if percent else ", about the same"


_FACTS = {
    AlertKind.ERROR_RATE: "errorRate",
    AlertKind.LATENCY: "p95LatencyMs",
    AlertKind.CACHE_HIT_RATE: "cacheHitRate",
}
OF_USUAL = "usual"
"""The end of the subject of an alert on an hour that is far from usual."""
_SECOND_MS = 1000


def rule_message(project: ProjectLink, breach: Breach, now: datetime) -> Message:
    kind, span = breach.rule.kind, breach.span
    limit = _amount(kind, breach.limit)
    when = f"{span.since:%d %b %Y, %H:%M} to {span.until:%H:%M} UTC"
    side = "below" if breach.rule.alerts_below else "above"
    if breach.usual is None:
        why = f"The alert rule is {side} {limit}."
    else:
        far = "down" if breach.rule.alerts_below else "up"
        usual = _amount(kind, breach.usual)
        why = f"{usual} is usual at this hour of the week; {far} to {limit} is normal variation."
    facts = {
        "since": iso(span.since),
        "until": iso(span.until),
        "runs": breach.runs,
        _FACTS[kind]: as_json(_rounded(breach.value)),
        "limit": as_json(_rounded(breach.limit)),
        "usual": None if breach.usual is None else as_json(_rounded(breach.usual)),
    }
    return compose(
        kind,
        project,
        now,
        subject=f"{iso(span.since)} {'threshold' if breach.usual is None else OF_USUAL}",
        title=f"{project.shown}: {_title(breach)}",
        sentences=[f"{_sentence(breach)} in {breach.runs:,} runs, {when}.", why],
        facts=facts,
    )


def _title(breach: Breach) -> str:
    value = _amount(breach.rule.kind, breach.value)
    match breach.rule.kind:
        case AlertKind.ERROR_RATE:
            return f"error rate is {value}"
        case AlertKind.LATENCY:
            return f"p95 latency is {value}"
    return f"cache hit rate is {value}"


def _sentence(breach: Breach) -> str:
    title = _title(breach).replace(" is ", " was ")
    return f"The {title}"


def _amount(kind: AlertKind, value: Decimal) -> str:
    if kind is not AlertKind.LATENCY:
        return f"{max(value, Decimal(0)):.1%}"
    return f"{value / _SECOND_MS:.1f} s" if value >= _SECOND_MS else f"{value:.0f} ms"


def _rounded(value: Decimal) -> Decimal:
    return round(value, 6)
