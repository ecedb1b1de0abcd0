"""Reports of an organisation by Anthropic and OpenAI: usage, and costs. All are sums of days."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, by_name, count, filled, moment, number, table


def _read_anthropic_usage(row: Row) -> Iterator[Row]:
    written = row.get("cachecreation")
    short = count(at(written, "ephemeral_5m_input_tokens") or row.get("cachecreationephemeral5minputtokens")) or 0
    long = count(at(written, "ephemeral_1h_input_tokens") or row.get("cachecreationephemeral1hinputtokens")) or 0
    cached = count(row.get("cachereadinputtokens")) or 0
    tier, region = "fast" if row.get("speed") == "fast" else row.get("servicetier"), row.get("inferencegeo")
    yield filled(
        provider="anthropic",
        model=row.get("model"),
        period=_anthropic_period(row),
        requests=count(row.get("requests")),
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
    if text.startswith("≤"):
        return 0
    return int(text) * 1000 if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


_DIGITS = 5


def _read_anthropic_costs(row: Row) -> Iterator[Row]:
    yield filled(
        provider="anthropic",
        model=row.get("model"),
        period=_anthropic_period(row),
        # Cents, as text.
        costUSD=number(row["amount"]) / 100,
        currency=str(row.get("currency")).upper(),
        metadata=filled(line=row.get("description") or row["costtype"], workspace=row.get("workspaceid")),
    )


def _read_analytics(row: Row) -> Iterator[Row]:
    """A row of the SDK's lists of usage and cost: what it is of, and what it was, are objects of their own."""
    usage = table(row.get("usage"))
    one = row | by_name(table(row["group"])) | by_name(usage or table(row.get("cost")))
    yield from _read_anthropic_usage(one) if usage else _read_anthropic_costs(one)


def _read_console_usage(row: Row) -> Iterator[Row]:
    yield from _read_anthropic_usage(
        {
            **row,
            **dict(zip(("startingat", "endingat"), _console_period(row), strict=True)),
            **{name: row.get(theirs) for name, theirs in _CONSOLE_COUNTS.items()},
            "model": row["modelversion"],
            "servertooluse": {"web_search_requests": row.get("websearchcount")},
            "servicetier": row.get("usagetype"),
            "workspaceid": row.get("workspace"),
            "apikeyid": row.get("apikey"),
        }
    )


_CONSOLE_COUNTS = {
    "uncachedinputtokens": "usageinputtokensnocache",
    "cachecreationephemeral5minputtokens": "usageinputtokenscachewrite5m",
    "cachecreationephemeral1hinputtokens": "usageinputtokenscachewrite1h",
    "cachereadinputtokens": "usageinputtokenscacheread",
    "outputtokens": "usageoutputtokens",
}


def _read_console_costs(row: Row) -> Iterator[Row]:
    yield filled(
        provider="anthropic",
        # As it is shown: Claude Haiku 4.5.
        model=str(row.get("model") or "").lower().replace(" ", "-").replace(".", "-"),
        period=_console_period(row),
        costUSD=number(row["costusd"]),
        metadata=filled(
            line=row.get("tokentype") or row.get("costtype"), workspace=row.get("workspace"), key=row.get("apikey")
        ),
    )


def _console_period(row: Row) -> tuple[object, object]:
    """Return a day, or the moment that stands for a shorter time."""
    at = moment(row["usagedateutc"])
    return at, at if len(str(row["usagedateutc"]).strip()) > len("2026-11-27") else None


def _anthropic_period(row: Row) -> tuple[object, object]:
    return moment(row.get("startingat")), moment(row.get("endingat"))


ANTHROPIC_USAGE = Format(
    "anthropic-usage", "Anthropic's report of usage", frozenset({"uncachedinputtokens", "startingat"}), _read_anthropic_usage,
    known=frozenset({
        "endingat", "cachereadinputtokens", "outputtokens", "cachecreation", "cachecreationephemeral5minputtokens",
        "cachecreationephemeral1hinputtokens",
    }),
    is_of_sums=True,
)  # fmt: skip
ANALYTICS = Format(
    "anthropic-analytics", "Anthropic's analytics of usage and costs", frozenset({"startingat", "group"}), _read_analytics,
    known=frozenset({"endingat", "usage", "cost"}), is_of_sums=True,
)  # fmt: skip
ANTHROPIC_COSTS = Format(
    "anthropic-costs", "Anthropic's report of costs", frozenset({"costtype", "amount", "startingat"}), _read_anthropic_costs,
    known=frozenset({"endingat", "listamount", "tokentype"}), is_of_sums=True,
)  # fmt: skip


CONSOLE_USAGE = Format(
    "anthropic-console-usage", "the usage that Anthropic's console exports", frozenset({"usagedateutc", "usageinputtokensnocache"}), _read_console_usage,
    known=frozenset({"modelversion", *_CONSOLE_COUNTS.values()}), is_of_sums=True,
)  # fmt: skip
CONSOLE_COSTS = Format(
    "anthropic-console-costs", "the costs that Anthropic's console exports", frozenset({"usagedateutc", "costusd"}), _read_console_costs,
    known=frozenset({"tokentype", "costtype", "listpriceusd"}), is_of_sums=True,
)  # fmt: skip


def _read_openai_usage(row: Row) -> Iterator[Row]:
    if row["nummodelrequests"] in (None, ""):
        # The console writes a line for a day without calls.
        return
    tier = row.get("servicetier")
    yield filled(
        provider="openai",
        model=row.get("model"),
        period=_openai_period(row),
        # The requests that searched are counted among those of their model, too.
        requests=None if "numrequests" in row else count(row["nummodelrequests"]),
        # The input holds what was cached and written.
        inputTokens=count(row.get("inputtokens")),
        cachedInputTokens=count(row.get("inputcachedtokens")),
        cacheWriteTokens=count(row.get("inputcachewritetokens")),
        outputTokens=count(row.get("outputtokens")),
        audioInputTokens=count(row.get("inputaudiotokens")),
        audioOutputTokens=count(row.get("outputaudiotokens")),
        units=filled(**{unit: count(row.get(theirs)) for unit, theirs in _OPENAI_UNITS.items()}),
        serviceTier="batch" if str(row.get("batch")).casefold() == "true" else None if tier == "default" else tier,
        metadata=filled(project=row.get("projectid"), key=row.get("apikeyid")),
    )


_OPENAI_UNITS = {
    "cacheWrite12h": "inputcachewrite12htokens",
    "cachedAudioInput": "inputcachedaudiotokens",
    "imageInput": "inputimagetokens",
    "cachedImageInput": "inputcachedimagetokens",
    "imageOutput": "outputimagetokens",
    "images": "images",
    "characters": "characters",
    "audioSeconds": "seconds",
    "webSearch": "numrequests",
}


def _read_openai_costs(row: Row) -> Iterator[Row]:
    amount = table(row.get("amount"))
    value = amount.get("value", row.get("amountvalue"))
    if value in (None, ""):
        return
    tier, model = _model_of(str(row["lineitem"] or ""))
    yield filled(
        provider="openai",
        model=model,
        period=_openai_period(row),
        costUSD=number(value),
        currency=str(amount.get("currency") or row.get("amountcurrency")).upper(),
        serviceTier=tier,
        metadata=filled(line=row["lineitem"], project=row.get("projectid"), key=row.get("apikeyid")),
    )


def _model_of(line: str) -> tuple[str | None, str | None]:
    """Return the tier and the model that a line begins with: `priority | gpt-5.6-sol, cached input`, or only `tts-1`."""
    tier, _, text = line.rpartition(" | ")
    model, comma, _ = text.partition(", ")
    return (tier or None, model) if " " not in model and (comma or "-" in model) else (None, None)


def _openai_period(row: Row) -> tuple[object, object]:
    return moment(row.get("starttime")), moment(row.get("endtime"))


OPENAI_USAGE = Format(
    "openai-usage", "OpenAI's report of usage", frozenset({"nummodelrequests"}), _read_openai_usage,
    known=frozenset({
        "starttime", "endtime", "starttimeiso", "endtimeiso", "inputtokens", "outputtokens", "inputcachedtokens",
        "inputcachewritetokens", "inputcachewrite30mtokens", "inputuncachedtokens", "inputaudiotokens", "outputaudiotokens",
        "inputtexttokens", "outputtexttokens", "inputcachedtexttokens", *_OPENAI_UNITS.values(),
    }),
    is_of_sums=True,
)  # fmt: skip
OPENAI_COSTS = Format(
    "openai-costs", "OpenAI's report of costs", frozenset({"lineitem"}), _read_openai_costs,
    known=frozenset({"starttime", "endtime", "starttimeiso", "endtimeiso", "amount", "amountvalue", "amountcurrency"}), is_of_sums=True,
)  # fmt: skip
