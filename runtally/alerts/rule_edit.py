"""The form of a project's alert rules, which has all of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation

from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.alerts.rules import MIN_RUNS, RULE_KINDS
from runtally.audit import Actor, Change, record
from runtally.budgets.edit import lock_owner
from runtally.errors import Detail, InvalidAlertRule
from runtally.fields import parse_whole
from runtally.models.alert import EVENT_KINDS, SWITCHES, AlertKind, AlertRule
from runtally.money import plain

UNUSUAL = "_unusual"
"""The end of the name of the field that also compares with the usual hour."""
MAX_MIN_RUNS = 1_000_000
_PERCENT = (Decimal(100), Decimal(0), Decimal(100), "a percent from 0 to 100")
_THRESHOLDS = {
    AlertKind.ERROR_RATE: _PERCENT,
    AlertKind.LATENCY: (Decimal(1), Decimal(1), Decimal(86_400_000), "milliseconds from 1 to 86,400,000"),
    AlertKind.CACHE_HIT_RATE: _PERCENT,
    AlertKind.RUN_COST: (Decimal(1), Decimal("0.0001"), Decimal(1_000_000), "US dollars from 0.0001 to 1,000,000"),
    AlertKind.KEY_EXPIRY: (Decimal(1), Decimal(1), Decimal(90), "days from 1 to 90"),
}
"""What the form's number of each kind is a multiple of, its least and most, and these in words."""


async def list_rules(session: AsyncSession, project_id: str) -> Sequence[AlertRule]:
    """List the rules of a project."""
    return (await session.exec(select(AlertRule).where(AlertRule.project_id == project_id))).all()


def as_fields(rules: Sequence[AlertRule]) -> dict[str, str]:
    """Return the fields of the form for these rules."""
    fields = {name: "" for kind in RULE_KINDS for name in (kind, kind + UNUSUAL)}
    fields |= dict.fromkeys(EVENT_KINDS, "")
    fields["min_runs"] = str(min((rule.min_runs for rule in rules), default=MIN_RUNS))
    for rule in rules:
        if rule.threshold is not None:
            fields[rule.kind] = plain(rule.threshold * _THRESHOLDS[AlertKind(rule.kind)][0])
        elif rule.kind in SWITCHES:
            fields[rule.kind] = "1"
        if rule.of_unusual:
            fields[rule.kind + UNUSUAL] = "1"
    return fields


async def set_rules(session: AsyncSession, by: Actor, project_id: str, sent: Mapping[str, str], now: datetime) -> None:
    """Set the rules that a form describes; a kind with neither a threshold nor a comparison has none.

    Raises `InvalidAlertRule` with every field that is wrong, and `NotFound`.
    """
    thresholds, min_runs = _read(sent)
    await lock_owner(session, project_id)
    known = {rule.kind: rule for rule in await list_rules(session, project_id)}
    before = _shown(known.values())
    kept = list[AlertRule]()
    for kind in (*RULE_KINDS, *EVENT_KINDS):
        threshold, of_unusual = thresholds.get(kind), kind in RULE_KINDS and sent.get(kind + UNUSUAL) == "1"
        rule = known.get(kind)
        is_on = sent.get(kind) == "1" if kind in SWITCHES else threshold is not None or of_unusual
        if not is_on:
            if rule is not None:
                await session.delete(rule)
            continue
        rule = rule or AlertRule(
            project_id=project_id, kind=kind, of_unusual=of_unusual, min_runs=min_runs, updated_at=now
        )
        if (rule.threshold, rule.of_unusual, rule.min_runs) != (threshold, of_unusual, min_runs):
            rule.threshold, rule.of_unusual, rule.min_runs, rule.updated_at = threshold, of_unusual, min_runs, now
        session.add(rule)
        kept.append(rule)
    after = _shown(kept)
    if before != after:
        record(session, by, Change("alert_rules.set", project_id, project_id, before, after))


def _read(sent: Mapping[str, str]) -> tuple[dict[AlertKind, Decimal | None], int]:
    thresholds, wrong = dict[AlertKind, Decimal | None](), list[Detail]()
    for kind, (_, _, _, of) in _THRESHOLDS.items():
        try:
            thresholds[kind] = _threshold(kind, sent.get(kind, ""))
        except (InvalidOperation, ValueError):
            wrong.append(Detail(kind, f"Give {of}, or leave it empty for no threshold."))
    min_runs = parse_whole(sent.get("min_runs", "").strip() or str(MIN_RUNS))
    if min_runs is None or not 0 < min_runs <= MAX_MIN_RUNS:
        wrong.append(Detail("min_runs", f"Give a whole number from 1 to {MAX_MIN_RUNS:,}."))
    if wrong or min_runs is None:
        raise InvalidAlertRule(details=tuple(wrong))
    return thresholds, min_runs


def _threshold(kind: AlertKind, text: str) -> Decimal | None:
    """Parse a threshold into its stored unit. Raises `ValueError` and `InvalidOperation`."""
    text = text.strip().removeprefix("$").removesuffix("%").removesuffix("ms").replace(",", "").strip()
    if not text:
        return None
    value = Decimal(text)
    scale, least, most, _ = _THRESHOLDS[kind]
    if not value.is_finite() or not least <= value <= most:
        raise ValueError
    return round(value / scale, 6)


def _shown(rules: Iterable[AlertRule]) -> dict[str, object]:
    found: dict[str, object] = {}
    for rule in rules:
        if rule.kind in EVENT_KINDS:
            found[rule.kind] = rule.threshold or True
            continue
        found[f"{rule.kind}_threshold"] = rule.threshold
        found[f"{rule.kind}{UNUSUAL}"] = rule.of_unusual
        found[f"{rule.kind}_min_runs"] = rule.min_runs
    return found
