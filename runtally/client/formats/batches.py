"""Results of vendors' batches, a line for each request, at the batch's price. An answer may have no time of its own."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, count, filled, moment
from runtally.vendor_usage import tokens_of

_FIRST_ERROR = 400


def _call(answer: object, error: object, **fields: object) -> Row:
    began = moment(at(answer, "created") or at(answer, "created_at") or at(answer, "createTime"))
    usages = (at(answer, name) for name in ("usage", "usageMetadata", "usage_info"))
    return filled(
        **{**tokens_of(next(filter(None, usages), answer)), "serviceTier": "batch"},
        model=at(answer, "model") or at(answer, "modelVersion"),
        timestamp=began and began.isoformat(),
        status="error" if error else "success",
        errorCode=str(error) if error else None,
        **fields,
    )


def _read_openai(row: Row) -> Iterator[Row]:
    """OpenAI's batches, and those of Mistral and others that have its form: the answer and its status are in `response`.

    Of Claude's batches at Vertex it is the answer itself.
    """
    answer, status = at(row.get("response"), "body"), count(at(row.get("response"), "status_code"))
    answer = row.get("response") if answer is None else answer
    error = status if status and status >= _FIRST_ERROR else at(row.get("error"), "code")
    yield _call(answer, error or (row.get("error") and "error"), runId=row.get("id"))


def _read_anthropic(row: Row) -> Iterator[Row]:
    """Anthropic's message batches: what was cancelled or expired was no call."""
    answer, kind = at(row.get("result"), "message"), at(row.get("result"), "type")
    if kind in {"succeeded", "errored"}:
        error = at(row.get("result"), "error", "error", "type") or "error"
        yield _call(answer, None if kind == "succeeded" else error, provider="anthropic", runId=at(answer, "id"))


def _read_gemini(row: Row) -> Iterator[Row]:
    error = row.get("error") and (at(row["error"], "code") or "error")
    answer = row.get("response")
    yield _call(answer, error, provider="google", runId=at(answer, "responseId"))


def _read_bedrock(row: Row) -> Iterator[Row]:
    """Bedrock's batches, without what failed. Whoever asks names the records, so two batches may have one of the same name."""
    answer = row.get("modeloutput")
    if answer:
        yield _call(answer, None, provider="aws", runId=at(answer, "id"))


OPENAI_BATCH = Format("openai-batch", "results of OpenAI's batches", frozenset({"customid", "response"}), _read_openai)
ANTHROPIC_BATCH = Format(
    "anthropic-batch", "results of Anthropic's batches", frozenset({"customid", "result"}), _read_anthropic
)
GEMINI_BATCH = Format("gemini-batch", "results of Gemini's batches", frozenset({"key", "response"}), _read_gemini)
VERTEX_BATCH = Format(
    "vertex-batch", "results of Vertex's batches of Gemini", frozenset({"processedtime", "response"}), _read_gemini
)
BEDROCK_BATCH = Format(
    "bedrock-batch", "results of Bedrock's batches", frozenset({"recordid", "modelinput"}), _read_bedrock
)
