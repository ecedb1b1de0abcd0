"""OpenRouter: the console's file of single calls, and the activity by day, model and endpoint, which is sums."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, count, filled, moment, number

_PROVIDER = "openrouter"


def _read_call(row: Row) -> Iterator[Row]:
    has_failed = str(row.get("cancelled")).casefold() == "true"
    yield filled(
        runId=row["generationid"],
        provider=_PROVIDER,
        model=row.get("modelpermaslug") or row.get("model"),
        timestamp=row.get("createdat"),
        status="error" if has_failed else "success",
        errorCode="cancelled" if has_failed else None,
        finishReason=row.get("finishreasonnormalized") or row.get("finishreason"),
        inputTokens=row.get("tokensprompt"),
        outputTokens=row.get("tokenscompletion"),
        cachedInputTokens=count(row.get("tokenscached")),
        reasoningTokens=count(row.get("tokensreasoning")),
        latencyMs=count(row.get("generationtimems")),
        timeToFirstTokenMs=count(row.get("timetofirsttokenms")),
        costUSD=row.get("costtotal"),
        userId=row.get("user"),
        metadata=filled(app=row.get("appname"), upstream=row.get("providername")),
    )


def _read_day(row: Row) -> Iterator[Row]:
    yield filled(
        provider=_PROVIDER,
        model=row.get("modelpermaslug") or row.get("model"),
        period=(moment(row["date"]), None),
        requests=count(row.get("requests")),
        inputTokens=count(row.get("prompttokens")),
        outputTokens=count(row.get("completiontokens")),
        reasoningTokens=count(row.get("reasoningtokens")),
        # What was paid to OpenRouter, and to the providers with keys of one's own.
        costUSD=number(row.get("usage")) + number(row.get("byokusageinference")),
    )


CALLS = Format(
    "openrouter-calls", "OpenRouter's calls", frozenset({"generationid", "tokensprompt", "costtotal"}), _read_call,
    known=frozenset({
        "createdat", "tokenscompletion", "tokensreasoning", "tokenscached", "generationtimems", "timetofirsttokenms",
        "costcache", "costwebsearch", "costfileprocessing",
    }),
)  # fmt: skip
ACTIVITY = Format(
    "openrouter-activity", "OpenRouter's activity", frozenset({"date", "usage", "byokusageinference"}), _read_day,
    known=frozenset({"requests", "prompttokens", "completiontokens", "reasoningtokens"}), is_of_sums=True,
)  # fmt: skip
