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
from runtally.models.alert import AlertKind, AlertRule
from runtally.money import plain

UNUSUAL = "_unusual"
"""The end of the name of the field that also compares with the usual hour."""
MAX_MIN_RUNS = 1_000_000
MAX_MS = 86_400_000
_HUNDRED = Decimal(100)


async def list_rules(session: AsyncSession, project_id: str) -> Sequence[AlertRule]:
    """List the rules of a project."""
    return (await session.exec(select(AlertRule).where(AlertRule.project_id == project_id))).all()


def as_fields(rules: Sequence[AlertRule]) -> dict[str, str]:
    """Return the fields of the form for these rules."""
    fields = {name: "" for kind in RULE_KINDS for name in (kind, kind + UNUSUAL)}
    fields["min_runs"] = str(min((rule.min_runs for rule in rules), default=MIN_RUNS))
    for rule in rules:
        if rule.threshold is not None:
            scale = 1 if rule.kind == AlertKind.LATENCY else _HUNDRED
            fields[rule.kind] = plain(rule.threshold * scale)
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
    for kind in RULE_KINDS:
        threshold, of_unusual = thresholds[kind], sent.get(kind + UNUSUAL) == "1"
        rule = known.get(kind)
        if threshold is None and not of_unusual:
            if rule is not None:
                await session.delete(rule)
            continue
        rule = rule or AlertRule(
            project_id=project_id, kind=kind, of_unusual=of_unusual, min_runs=min_runs, updated_at=now
        )
        rule.threshold, rule.of_unusual, rule.min_runs, rule.updated_at = threshold, of_unusual, min_runs, now
        session.add(rule)
        kept.append(rule)
    after = _shown(kept)
    if before != after:
        record(session, by, Change("alert_rules.set", project_id, project_id, before, after))


def _read(sent: Mapping[str, str]) -> tuple[dict[AlertKind, Decimal | None], int]:
    thresholds, wrong = dict[AlertKind, Decimal | None](), list[Detail]()
    for kind in RULE_KINDS:
        try:
            thresholds[kind] = _threshold(kind, sent.get(kind, ""))
        except (InvalidOperation, ValueError):
            of = f"milliseconds from 1 to {MAX_MS:,}" if kind is AlertKind.LATENCY else "a percent from 0 to 100"
            wrong.append(Detail(kind, f"Give {of}, or leave it empty for no threshold."))
    min_runs = parse_whole(sent.get("min_runs", "").strip() or str(MIN_RUNS))
    if min_runs is None or not 0 < min_runs <= MAX_MIN_RUNS:
        wrong.append(Detail("min_runs", f"Give a whole number from 1 to {MAX_MIN_RUNS:,}."))
    if wrong or min_runs is None:
        raise InvalidAlertRule(details=tuple(wrong))
    return thresholds, min_runs


def _threshold(kind: AlertKind, text: str) -> Decimal | None:
    """Parse a threshold into its stored unit. Raises `ValueError` and `InvalidOperation`."""
    text = text.strip().removesuffix("%").removesuffix("ms").replace(",", "").strip()
    if not text:
        return None
    value = Decimal(text)
    least, most = (1, MAX_MS) if kind is AlertKind.LATENCY else (0, 100)
    if not value.is_finite() or not least <= value <= most:
        raise ValueError
    return round(value if kind is AlertKind.LATENCY else value / _HUNDRED, 6)


def _shown(rules: Iterable[AlertRule]) -> dict[str, object]:
    found: dict[str, object] = {}
    for rule in rules:
        found[f"{rule.kind}_threshold"] = rule.threshold
        found[f"{rule.kind}{UNUSUAL}"] = rule.of_unusual
        found[f"{rule.kind}_min_runs"] = rule.min_runs
    return found
