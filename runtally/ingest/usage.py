"""Read the counts and the reported cost of `metadata.usage`, the usage object of any vendor's answer. Pure.

`vendor_usage` and its table are the Python client's own, so that an object means the same wherever it is read.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from runtally.fields import MAX_COUNT, camel
from runtally.models.run import StoredRun
from runtally.money import MAX_USD, to_usd
from runtally.units import TOKEN_KINDS, read_units
from runtally.vendor_usage import tokens_of

_FIELDS = {camel(kind.count_column): kind.count_column for kind in TOKEN_KINDS}
_BESIDE = ("cached_input_tokens", "cache_write_tokens")


def fill_from_usage(run: StoredRun, usage: Mapping[str, Any]) -> None:
    """Fill the run's empty counts, units, tier and region.

    An input that was sent without what was read from a cache and written to it, and an output without its reasoning, are
    completed. Where the sent input is yet another number, what the object counts beside its own is left out: it would be
    subtracted from tokens that do not hold it.
    """
    found = tokens_of({name: float(value) if isinstance(value, Decimal) else value for name, value in usage.items()})
    counts = {column: found[field] for field, column in _FIELDS.items() if _is_count(found.get(field))}
    raw = {
        "input_tokens": usage.get("input_tokens", usage.get("inputTokens")),
        "output_tokens": usage.get("completion_tokens"),
    }
    units = found.get("units") or {}
    for column, sent in raw.items():
        whole = counts.pop(column, None)
        if whole is None:
            continue
        now = getattr(run, column)
        if now is None or now == sent:
            setattr(run, column, whole)
        elif column == "input_tokens" and whole not in {sent, now}:
            counts = {name: count for name, count in counts.items() if name not in _BESIDE}
            units = {name: count for name, count in units.items() if not name.startswith("cacheWrite")}
    for column, count in counts.items():
        if getattr(run, column) is None:
            setattr(run, column, count)
    if counted := read_units(units, []):
        run.units = {**counted, **(run.units or {})}
    run.service_tier = run.service_tier or found.get("serviceTier")
    run.region = run.region or found.get("region")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


class Reported(NamedTuple):
    """The cost that a vendor's usage object has, in US dollars.

    `is_whole` if it is what the call cost, whatever a client took for it.
    """

    usd: Decimal | None = None
    is_whole: bool = False


def reported_cost(usage: Mapping[str, Any]) -> Reported:
    """Return what the vendor charged.

    OpenRouter's `cost` is its fee alone where the call was made with a key of one's own: what the upstream provider charges
    stands beside it. Otherwise the upstream's part is inside. Perplexity's `cost` is an object, and xAI counts in ticks of
    1e-10 dollars.
    """
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return Reported(_usd(cost.get("total_cost")), is_whole=True)
    ticks = _usd(usage.get("cost_in_usd_ticks"), _TICK)
    if ticks is not None:
        return Reported(ticks, is_whole=True)
    named = [usd for name in ("total_cost", "cost") if (usd := _usd(usage.get(name))) is not None]
    charged = next((usd for usd in named if usd), named[0] if named else None)
    details = usage.get("cost_details")
    upstream = _usd(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
    if upstream and (usage.get("is_byok") is True or charged == 0):
        return Reported((charged or Decimal(0)) + upstream, is_whole=True)
    return Reported(charged)


_TICK = Decimal("1e-10")


def _usd(value: object, unit: Decimal = Decimal(1)) -> Decimal | None:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return None
    usd = Decimal(value) * unit
    return to_usd(usd) if 0 <= usd <= MAX_USD else None
