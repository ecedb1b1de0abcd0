"""OpenAI's reports of an organisation: usage of completions, and costs. Both are sums of days."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, count, filled, moment, number

_PROVIDER = "openai"


def _read_usage(row: Row) -> Iterator[Row]:
    if not str(row.get("object", "organization.usage")).startswith("organization.usage"):
        return
    tier = row.get("servicetier")
    yield filled(
        provider=_PROVIDER,
        model=row.get("model"),
        period=_period(row),
        requests=count(row["nummodelrequests"]),
        # The input holds what was cached and written.
        inputTokens=count(row.get("inputtokens")),
        cachedInputTokens=count(row.get("inputcachedtokens")),
        cacheWriteTokens=count(row.get("inputcachewritetokens")),
        outputTokens=count(row.get("outputtokens")),
        audioInputTokens=count(row.get("inputaudiotokens")),
        audioOutputTokens=count(row.get("outputaudiotokens")),
        units=filled(cacheWrite12h=count(row.get("inputcachewrite12htokens"))),
        serviceTier="batch" if row.get("batch") in (True, "true", "True") else None if tier == "default" else tier,
        metadata=filled(project=row.get("projectid"), key=row.get("apikeyid")),
    )


def _read_costs(row: Row) -> Iterator[Row]:
    if row.get("object") == "organization.costs.result":
        yield filled(
            provider=_PROVIDER,
            period=_period(row),
            costUSD=number(at(row["amount"], "value")),
            currency=str(at(row["amount"], "currency")).upper(),
            metadata=filled(line=row["lineitem"], project=row.get("projectid")),
        )


def _period(row: Row) -> tuple[object, object]:
    return moment(row.get("starttime")), moment(row.get("endtime"))


USAGE = Format(
    "openai-usage", "OpenAI's report of usage", frozenset({"nummodelrequests", "inputtokens", "outputtokens"}), _read_usage,
    known=frozenset({
        "starttime", "endtime", "inputcachedtokens", "inputcachewritetokens", "inputcachewrite30mtokens", "inputuncachedtokens",
        "inputcachewrite12htokens", "inputaudiotokens", "outputaudiotokens", "inputtexttokens", "outputtexttokens",
        "inputcachedtexttokens", "inputcachedaudiotokens", "inputcachedimagetokens", "inputimagetokens", "outputimagetokens",
    }),
    is_of_sums=True,
)  # fmt: skip
COSTS = Format(
    "openai-costs", "OpenAI's report of costs", frozenset({"amount", "lineitem"}), _read_costs,
    known=frozenset({"starttime", "endtime"}), is_of_sums=True,
)  # fmt: skip
