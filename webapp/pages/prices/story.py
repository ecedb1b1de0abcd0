"""The history of a price as a story: what it was at first, and what changed when, by whom and why. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct
from quart import url_for

from runtally.models.price import PriceEntry
from runtally.pricing.amounts import amounts_of
from webapp import formats
from webapp.changes import change
from webapp.pages.prices.frame import AMOUNT_NAMES, amount, day, scope_of, source_of, state_of, variants_of


class Step(Struct, frozen=True):
    """An amount: before and after; `before` is empty where it is the first."""

    name: str
    before: str
    after: str
    change: str


class Chapter(Struct, frozen=True):
    """An entry of the registry, described as a change of the one before it."""

    id: int
    url: str
    when: str
    scope: str
    steps: tuple[Step, ...]
    remark: str
    """What to say besides the amounts: that none changed, or when it ends if no later price is scheduled."""
    note: str
    who: str
    state: str
    """Empty for what is over, which most of a history is."""


def story_of(entries: Sequence[PriceEntry], now: datetime) -> tuple[Chapter, ...]:
    """Return a chapter for each entry, in the order of the entries."""
    return tuple(_chapter(one, _before(one, entries), entries, now) for one in entries)


def _before(entry: PriceEntry, entries: Sequence[PriceEntry]) -> PriceEntry | None:
    """Return the entry that this one followed, for the same project and tier."""
    start = entry.effective_from
    if start is None or entry.withdrawn_at is not None:
        return None
    earlier = [
        one
        for one in entries
        if one.withdrawn_at is None
        and _is_alike(one, entry)
        and one.effective_to is not None
        and one.effective_to <= start
    ]
    return max(earlier, key=lambda one: one.effective_to or start, default=None)


def _chapter(entry: PriceEntry, before: PriceEntry | None, entries: Sequence[PriceEntry], now: datetime) -> Chapter:
    state, steps = state_of(entry, now), tuple(_steps(entry, before))
    return Chapter(
        id=entry.id or 0,
        url=url_for("price.price", entry_id=entry.id),
        when=f"From {day(entry.effective_from)}" if entry.effective_from else "Initial price",
        scope=" · ".join(scope_of(entry)),
        steps=steps,
        remark=" ".join(_remarks(entry, entries, has_steps=bool(steps))),
        note=entry.note or "",
        who=source_of(entry),
        state="" if state == "over" else state,
    )


def _steps(entry: PriceEntry, before: PriceEntry | None) -> Iterator[Step]:
    was, is_now = (dict(amounts_of(partial(getattr, one))) if one else {} for one in (before, entry))
    for column, name in AMOUNT_NAMES.items():
        old, new = was.get(column), is_now.get(column)
        if before is None and new is not None:
            yield Step(name, "", amount(new), "")
        elif old != new:
            changed = change(new, old) if old is not None and new is not None else None
            yield Step(name, amount(old), amount(new), f"{changed.arrow}{changed.text}" if changed else "")
    rules_before, rules = (
        {one.when: one.text for one in variants_of(each)} if each else {} for each in (before, entry)
    )
    for when in dict.fromkeys((*rules_before, *rules)):
        if rules_before.get(when) != rules.get(when):
            yield Step("Variant", rules_before.get(when, ""), rules.get(when, formats.NOTHING), "")


def _remarks(entry: PriceEntry, entries: Sequence[PriceEntry], *, has_steps: bool) -> Iterator[str]:
    if not has_steps:
        yield "No amount changed."
    end = entry.effective_to
    if entry.withdrawn_at is not None:
        yield f"Withdrawn on {formats.day(entry.withdrawn_at)}. It no longer applies."
    elif end is not None and not any(one.effective_from == end and _is_alike(one, entry) for one in entries):
        yield f"Ends on {day(end)}. No later price is scheduled."


def _is_alike(one: PriceEntry, other: PriceEntry) -> bool:
    return (one.project_id, one.above_input_tokens) == (other.project_id, other.above_input_tokens)
