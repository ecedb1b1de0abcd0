"""Anthropic's reports of an organisation: usage of messages, and costs. Both are sums of days."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, count, filled, moment, number

_PROVIDER = "anthropic"


def _read_usage(row: Row) -> Iterator[Row]:
    written = row.get("cachecreation")
    short = count(at(written, "ephemeral_5m_input_tokens") or row.get("cachecreationephemeral5minputtokens")) or 0
    long = count(at(written, "ephemeral_1h_input_tokens") or row.get("cachecreationephemeral1hinputtokens")) or 0
    cached = count(row.get("cachereadinputtokens")) or 0
    tier, region = row.get("servicetier"), row.get("inferencegeo")
    yield filled(
        provider=_PROVIDER,
        model=row.get("model"),
        period=_period(row),
        inputTokens=(count(row["uncachedinputtokens"]) or 0) + cached + short + long,
        cachedInputTokens=cached,
        cacheWriteTokens=short + long,
        outputTokens=count(row.get("outputtokens")),
        units=filled(cacheWrite1h=long or None, webSearch=count(at(row.get("servertooluse"), "web_search_requests"))),
        serviceTier=None if tier == "standard" else tier,
        region=None if region in ("global", "not_available") else region,
        longerThan=_longer_than(row.get("contextwindow")),
        metadata=filled(workspace=row.get("workspaceid"), key=row.get("apikeyid")),
    )


def _longer_than(window: object) -> int | None:
    """Return the lower end of a window such as `200k-1M`."""
    text = str(window or "").partition("-")[0].removesuffix("k")
    return int(text) * 1000 if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


_DIGITS = 5


def _read_costs(row: Row) -> Iterator[Row]:
    yield filled(
        provider=_PROVIDER,
        model=row.get("model"),
        period=_period(row),
        # Cents, as text.
        costUSD=number(row["amount"]) / 100,
        currency=str(row.get("currency")).upper(),
        metadata=filled(line=row.get("description") or row["costtype"], workspace=row.get("workspaceid")),
    )


def _period(row: Row) -> tuple[object, object]:
    return moment(row.get("startingat")), moment(row.get("endingat"))


USAGE = Format(
    "anthropic-usage", "Anthropic's report of usage", frozenset({"uncachedinputtokens", "startingat"}), _read_usage,
    known=frozenset({
        "endingat", "cachereadinputtokens", "outputtokens", "cachecreation", "cachecreationephemeral5minputtokens",
        "cachecreationephemeral1hinputtokens",
    }),
    is_of_sums=True,
)  # fmt: skip
COSTS = Format(
    "anthropic-costs", "Anthropic's report of costs", frozenset({"costtype", "amount", "startingat"}), _read_costs,
    known=frozenset({"endingat", "listamount", "tokentype"}), is_of_sums=True,
)  # fmt: skip
