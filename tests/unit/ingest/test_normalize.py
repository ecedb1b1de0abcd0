"""A run as it is stored, field by field."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from runtally.errors import InvalidPayload
from runtally.fields import MAX_METADATA_KEYS, MAX_NAME
from runtally.ingest.normalize import NormalRun, normalize
from runtally.ingest.wire import WireRun
from runtally.money import MAX_USD
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PARTS = {
    "cachedInputTokens": ("cached_input_tokens", "prompt_tokens_details", "cached_tokens"),
    "reasoningTokens": ("reasoning_tokens", "completion_tokens_details", "reasoning_tokens"),
    "audioInputTokens": ("audio_input_tokens", "prompt_tokens_details", "audio_tokens"),
    "audioOutputTokens": ("audio_output_tokens", "completion_tokens_details", "audio_tokens"),
}


def normalized(mode: PrivacyMode = PrivacyMode.DEFAULT, /, **fields: Any) -> NormalRun:  # noqa: ANN401  # Any field.
    sent = msgspec.convert({"provider": "openai", "model": "gpt-4o", **fields}, WireRun)
    return normalize(sent, "p", NOW, ContentRule.of(mode, CONTENT_KEYS.split(",")))


def test_provider_and_model_have_no_blanks_at_their_ends() -> None:
    run = normalized(provider=" openai ", model="\tgpt-4o\n").run

    assert (run.provider, run.model) == ("openai", "gpt-4o")


@pytest.mark.parametrize(
    ("fields", "trace_id"),
    [
        ({"traceId": "", "metadata": {"traceId": "inside"}}, "inside"),
        ({"traceId": "  ", "metadata": {"traceId": " inside "}}, "inside"),
        ({"traceId": "outside", "metadata": {"traceId": "inside"}}, "outside"),
        ({"metadata": {"traceId": "inside"}}, "inside"),
        ({"traceId": ""}, None),
        ({"metadata": {"traceId": ""}}, None),
        ({"metadata": {"traceId": 7}}, None),
    ],
)
def test_an_empty_trace_id_is_none_and_metadata_fills_it(fields: dict[str, Any], trace_id: str | None) -> None:
    assert normalized(**fields).run.trace_id == trace_id


def test_a_trace_id_in_metadata_is_as_long_as_any_name_and_no_longer() -> None:
    assert MAX_NAME == 256
    assert normalized(metadata={"traceId": "x" * 256}).run.trace_id == "x" * 256
    with pytest.raises(InvalidPayload) as refused:
        normalized(metadata={"traceId": "x" * 257})
    assert [detail.path for detail in refused.value.details] == ["metadata.traceId"]


@pytest.mark.parametrize(
    ("mode", "preview", "warnings"),
    [
        (PrivacyMode.DEFAULT, "hello", ()),
        (PrivacyMode.STRICT, None, ("prompt_preview_dropped",)),
        (PrivacyMode.REJECT, None, ("prompt_preview_dropped",)),
        (PrivacyMode.OFF_METADATA_SCRUB, "hello", ()),
    ],
)
def test_a_preview_that_is_kept_brings_no_warning(
    mode: PrivacyMode, preview: str | None, warnings: tuple[str, ...]
) -> None:
    found = normalized(mode, promptPreview="hello")

    assert (found.run.prompt_preview, found.warnings) == (preview, warnings)
    assert normalized(mode).warnings == ()


@pytest.mark.parametrize("field", PARTS)
def test_a_field_of_the_run_comes_before_what_metadata_says(field: str) -> None:
    column, details, name = PARTS[field]
    metadata = {"usage": {details: {name: 7}}}

    assert getattr(normalized(inputTokens=9, outputTokens=9, metadata=metadata).run, column) == 7
    for count in (5, 0):
        both = normalized(PrivacyMode.DEFAULT, inputTokens=9, outputTokens=9, metadata=metadata, **{field: count})
        assert getattr(both.run, column) == count


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("traceId", "trace_id"),
        ("experimentId", "experiment_id"),
        ("sessionId", "session_id"),
        ("userId", "user_id"),
    ],
)
def test_ids_have_no_blanks_at_their_ends_and_an_empty_one_is_none(field: str, column: str) -> None:
    assert getattr(normalized(**{field: " an id "}).run, column) == "an id"
    assert getattr(normalized(**{field: "  "}).run, column) is None
    assert getattr(normalized().run, column) is None


def test_a_run_keeps_its_id_and_one_without_gets_one_of_its_own() -> None:
    assert normalized(runId=" mine ").run.id == "mine"
    ids = {normalized(**fields).run.id for fields in ({}, {}, {"runId": ""}, {"runId": " "})}
    assert len(ids) == 4
    assert all(ids)


def test_a_new_run_is_its_first_version() -> None:
    assert normalized().run.version == 1


@pytest.mark.parametrize(
    ("usage", "cost"),
    [({"cost": Decimal("0.5")}, "0.5"), ({"total_cost": 2}, "2"), ({"cost": True}, None), ({"cost": 0}, "0")],
)
def test_a_cost_in_metadata_is_a_number(usage: dict[str, object], cost: str | None) -> None:
    found = normalized(metadata={"usage": usage}).upstream_usd

    assert found == (Decimal(cost) if cost else None)


BYOK = {"is_byok": True, "cost_details": {"upstream_inference_cost": Decimal("0.0360795")}}


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({**BYOK, "cost": Decimal("0.001803975")}, "0.037883475"),
        ({**BYOK, "is_byok": False, "cost": 0}, "0.0360795"),
        ({**BYOK, "is_byok": False, "cost": Decimal("0.04")}, None),
        ({**BYOK, "cost_details": None, "cost": Decimal("0.04")}, None),
        ({"cost_in_usd_ticks": 261_656_000}, "0.0261656"),
        ({"cost": {"total_cost": Decimal("0.0125"), "request_cost": Decimal("0.012")}}, "0.0125"),
        ({"cost": {"total_cost": "much"}}, None),
    ],
)
def test_what_a_call_cost_as_a_whole_takes_the_place_of_a_clients_figure(
    usage: dict[str, object], cost: str | None
) -> None:
    run = normalized(costUSD=msgspec.Raw(b"0.001803975"), metadata={"usage": usage}).run

    assert run.reported_cost_usd == Decimal(cost or "0.001803975")


def test_a_field_comes_before_its_legacy_name_which_fills_an_empty_one() -> None:
    assert normalized(latencyMs=5, latency=msgspec.Raw(b"7")).run.latency_ms == 5
    assert normalized(latency=msgspec.Raw(b"7.5")).run.latency_ms == 8
    assert normalized(costUSD=msgspec.Raw(b"1"), cost=msgspec.Raw(b"2")).run.reported_cost_usd == 1
    assert normalized(cost=msgspec.Raw(b"2")).run.reported_cost_usd == 2
    tokens = {"input": msgspec.Raw(b"2"), "output": msgspec.Raw(b"3")}
    assert normalized(inputTokens=1, tokens=tokens).run.input_tokens == 1
    assert normalized(outputTokens=1, tokens=tokens).run.output_tokens == 1
    assert normalized(tokens=tokens).run.output_tokens == 3


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}, "must nest at most 5 levels"),
        ({"a": {str(number): 1 for number in range(MAX_METADATA_KEYS)}}, "must have at most 10,000 keys"),
        ({"a" * 64 * 1024 + "b": 1}, "of 65,536 characters together"),
        ({"messages": [{chr(0xFDFA) * 1024 + str(number): 1 for number in range(64)}]}, "characters together"),
        ({"a": "x" * 16 * 1024}, "must be at most 16384 bytes of JSON"),
        ({"a": "\0"}, "must not hold a NUL character"),
    ],
)
def test_metadata_that_is_too_deep_or_too_large_is_refused(metadata: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidPayload) as raised:
        normalized(metadata=metadata)

    [detail] = raised.value.details
    assert detail.path == "metadata"
    assert why in detail.message


def test_metadata_may_nest_five_levels() -> None:
    assert normalized(metadata={"a": {"b": {"c": {"d": {"e": 1}}}}}).run.version == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "success"),
        ({"errorCode": ""}, "success"),
        ({"errorCode": "429"}, "error"),
        ({"errorCode": "429", "status": "timeout"}, "timeout"),
        ({"status": "error"}, "error"),
    ],
)
def test_a_run_with_an_error_code_failed_unless_it_says_how_it_ended(fields: dict[str, str], status: str) -> None:
    assert normalized(PrivacyMode.DEFAULT, **fields).run.status == status


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("errorCode", "error_code"),
        ("finishReason", "finish_reason"),
        ("promptHash", "prompt_hash"),
        ("idempotencyKey", "idempotency_key"),
        ("id", "client_id"),
    ],
)
def test_a_text_is_kept_as_it_is_and_an_empty_one_is_none(field: str, column: str) -> None:
    assert getattr(normalized(PrivacyMode.DEFAULT, **{field: "as sent "}).run, column) == "as sent "
    assert getattr(normalized(PrivacyMode.DEFAULT, **{field: ""}).run, column) is None


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def paths_refused(mode: PrivacyMode = PrivacyMode.DEFAULT, /, **fields: Any) -> list[str]:  # noqa: ANN401  # Any field.
    with pytest.raises(InvalidPayload) as refused:
        normalized(mode, **fields)
    return [detail.path for detail in refused.value.details]


CONTENT: list[tuple[dict[str, msgspec.Raw], list[str]]] = [
    ({}, []),
    ({"prompt": raw('"secret"')}, ["prompt"]),
    ({"completion": raw('{"text": "secret"}')}, ["completion"]),
    ({"prompt": raw('"secret"'), "completion": raw('""')}, ["prompt", "completion"]),
    # Some SDKs send null for a field that they leave out.
    ({"prompt": raw("null")}, []),
    ({"prompt": raw("null"), "completion": raw('"secret"')}, ["completion"]),
]


@pytest.mark.parametrize("mode", [PrivacyMode.DEFAULT, PrivacyMode.STRICT, PrivacyMode.OFF_METADATA_SCRUB])
@pytest.mark.parametrize(("fields", "content"), CONTENT)
def test_prompt_and_completion_are_dropped_with_a_warning(
    mode: PrivacyMode, fields: dict[str, msgspec.Raw], content: list[str]
) -> None:
    assert normalized(mode, **fields).warnings == tuple(f"{name}_dropped" for name in content)


@pytest.mark.parametrize(("fields", "content"), CONTENT)
def test_prompt_and_completion_are_refused_where_the_server_is_set_to(
    fields: dict[str, msgspec.Raw], content: list[str]
) -> None:
    if content:
        assert paths_refused(PrivacyMode.REJECT, **fields) == content
    else:
        assert normalized(PrivacyMode.REJECT, **fields).warnings == ()


def test_content_in_metadata_is_dropped_with_a_warning() -> None:
    found = normalized(metadata={"env": "prod", "prompt": "secret", "user": {"prompt": "secret"}})

    assert found.run.metadata == {"env": "prod", "user": {}}
    assert found.warnings == ("metadata_content_dropped",)
    assert normalized(metadata={"env": {"name": "prod"}}).warnings == ()


@pytest.mark.parametrize("field", ["costUSD", "cost"])
@pytest.mark.parametrize("amount", ["0", "0.000000000001", str(MAX_USD), "null"])
def test_a_reported_cost_is_from_nothing_to_the_most(field: str, amount: str) -> None:
    reported = normalized(PrivacyMode.DEFAULT, **{field: raw(amount)}).run.reported_cost_usd

    assert reported == (None if amount == "null" else Decimal(amount))


@pytest.mark.parametrize("field", ["costUSD", "cost"])
@pytest.mark.parametrize("amount", ["-0.01", f"{MAX_USD + 1}", '"1"', "true", "[]"])
def test_any_other_cost_is_refused(field: str, amount: str) -> None:
    assert paths_refused(PrivacyMode.DEFAULT, **{field: raw(amount)}) == [field]


@pytest.mark.parametrize(
    ("number", "count"),
    [("0", 0), ("0.4", 0), ("2.5", 3), ("3.5", 4), (f"{2**53 - 1}", 2**53 - 1), ("1e3", 1000), ("null", None)],
)
def test_a_legacy_number_is_rounded_half_up(number: str, count: int | None) -> None:
    run = normalized(latency=raw(number), tokens={"input": raw(number), "output": raw(number)}).run

    assert (run.latency_ms, run.input_tokens, run.output_tokens) == (count, count, count)


@pytest.mark.parametrize("number", ["-1", f"{2**53}", '"1"', "true", "{}"])
def test_any_other_legacy_number_is_refused_by_its_path(number: str) -> None:
    assert paths_refused(latency=raw(number)) == ["latency"]
    assert paths_refused(tokens={"input": raw(number)}) == ["tokens.input"]
    assert paths_refused(tokens={"output": raw(number)}) == ["tokens.output"]


def test_legacy_tokens_may_be_of_one_kind() -> None:
    run = normalized(tokens={"output": raw("3")}).run

    assert (run.input_tokens, run.output_tokens) == (None, 3)


def test_a_run_is_of_the_time_that_it_says_or_of_now() -> None:
    said = normalized(timestamp="2026-11-20T10:00:00+02:00").run

    assert (said.occurred_at, said.created_at) == (datetime(2026, 11, 20, 8, tzinfo=UTC), NOW)
    assert normalized().run.occurred_at == normalized(timestamp="").run.occurred_at == NOW
    assert paths_refused(timestamp="yesterday") == ["timestamp"]


def test_tags_are_each_kept_once_and_come_before_those_in_metadata() -> None:
    metadata = {"tags": ["inside"]}

    assert normalized(tags=[" a ", "b", "a"], metadata=metadata).run.tags == ["a", "b"]
    assert normalized(metadata=metadata).run.tags == ["inside"]
    assert normalized(tags=[" "]).run.tags is None


def test_every_wrong_field_is_reported_at_once() -> None:
    assert paths_refused(
        PrivacyMode.REJECT,
        prompt=raw('"secret"'),
        metadata={"traceId": "x" * 257},
        costUSD=raw("-1"),
        latency=raw("-1"),
        timestamp="yesterday",
    ) == ["prompt", "costUSD", "latency", "metadata.traceId", "timestamp"]


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"total_cost": MAX_USD}, MAX_USD),
        ({"total_cost": MAX_USD + 1, "cost": 1}, Decimal(1)),
        ({"total_cost": Decimal("0.5"), "cost": 1}, Decimal("0.5")),
        ({"total_cost": -1}, None),
        ({"total_cost": "1"}, None),
        (["total_cost"], None),
    ],
)
def test_an_aggregators_total_is_an_amount_that_a_run_can_cost(usage: object, cost: Decimal | None) -> None:
    assert normalized(metadata={"usage": usage}).upstream_usd == cost
