"""Write the text of an alert by a rule. Pure."""

from datetime import datetime
from decimal import Decimal

from runtally.alerts.message import Message, ProjectLink, compose, iso
from runtally.alerts.rules import Breach
from runtally.models.alert import AlertKind
from runtally.money import as_json

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
        level=0,
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
