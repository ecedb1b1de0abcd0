"""The live run document: what it looks like, what it must be, and its signature."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidJson, InvalidPayload
from runtally.fields import MAX_AHEAD, trimmed
from runtally.models.run import CostSource, Status, StoredRun
from runtally.privacy import ContentRule
from runtally.reporting.document import LiveRun, decode, encode, is_signed, sign
from runtally.settings import PrivacyMode
from tests.documents import NOW, make_document, make_stored_run

RULE = ContentRule.of(PrivacyMode.DEFAULT, ("prompt", "messages"))
FULL = make_stored_run(
    "p",
    status=Status.TIMEOUT,
    error_code="E1",
    cached_input_tokens=1,
    cache_write_tokens=2,
    reasoning_tokens=3,
    units={"webSearch": 2, "audioSeconds": 12.345678, "made": 2**53 - 1},
    service_tier="flex",
    region="us",
    latency_ms=4,
    cost_usd=Decimal("0.000000000001"),
    cost_source=CostSource.CATALOG,
    cost_estimated=True,
    reported_cost_usd=Decimal("123456789.000000000001"),
    price_entry_id=5,
    experiment_id="e",
    trace_id="t",
    session_id="s",
    user_id="u",
    tags=["a", "b"],
    key_id=UUID(int=7),
    finish_reason="stop",
    time_to_first_token_ms=8,
    client_id="c",
    idempotency_key="k",
    prompt_hash="h",
    prompt_preview="p",
    version=7,
)


def refused_paths(document: object) -> set[str]:
    with pytest.raises(InvalidPayload) as refused:
        decode(json.dumps(document).encode(), NOW, RULE)
    return {detail.path for detail in refused.value.details}


def test_a_run_survives_the_way_with_every_field() -> None:
    assert decode(encode(FULL, None), NOW, RULE) == FULL


def test_the_document_has_every_column_of_a_run_in_camel_case() -> None:
    document = json.loads(encode(FULL, None))

    assert len(document) == len(StoredRun.__struct_fields__)
    assert {"id", "projectId", "occurredAt", "costUSD", "reportedCostUSD", "createdAt", "version"} <= set(document)
    assert set(LiveRun.__struct_encode_fields__) - {"timestamp"} == set(document)


def test_amounts_are_numbers_with_every_digit() -> None:
    text = encode(FULL, None).decode()

    assert '"costUSD":0.000000000001,' in text
    assert '"reportedCostUSD":123456789.000000000001,' in text


def test_metadata_keeps_its_digits() -> None:
    document = encode(make_stored_run("p"), '{"n": 0.1000000000000000055511}')

    assert b'"metadata":{"n": 0.1000000000000000055511}' in document
    assert decode(document, NOW, RULE).metadata == {"n": Decimal("0.1000000000000000055511")}


def test_times_are_iso_8601_in_utc() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))

    document = json.loads(encode(make_stored_run("p", occurred_at=elsewhere), None))

    assert document["occurredAt"] == "2026-11-20T09:30:00Z"


def test_a_time_with_another_offset_is_the_same_moment() -> None:
    run = decode(json.dumps(make_document("p", occurredAt="2026-11-20T11:30:00+02:00")).encode(), NOW, RULE)

    assert run.occurred_at == NOW
    assert run.occurred_at.tzinfo is UTC


def test_the_time_may_be_called_timestamp_as_where_runs_come_in() -> None:
    document = make_document("p", occurredAt=None, timestamp="2026-11-20T09:30:00Z")

    assert decode(json.dumps(document).encode(), NOW, RULE).occurred_at == NOW


def test_a_whole_number_may_be_written_as_json_schema_knows_it() -> None:
    body = json.dumps(make_document("p", version=2.0, latencyMs=12.0, inputTokens=350)).replace("350", "3.5e2")

    run = decode(body.encode(), NOW, RULE)

    assert (run.version, run.latency_ms, run.input_tokens) == (2, 12, 350)


def test_unknown_fields_are_ignored() -> None:
    document = make_document("p", region="eu")
    unknown = {"prompt": "unknown-text", "fromANewerVersion": {"messages": ["unknown-text"]}}

    run = decode(json.dumps(document | unknown).encode(), NOW, RULE)

    assert run == decode(json.dumps(document).encode(), NOW, RULE)
    assert "unknown-text" not in repr(run)


@pytest.mark.parametrize(
    "name", ["projectId", "id", "provider", "model", "status", "createdAt", "version", "occurredAt"]
)
def test_a_required_field_that_is_missing_is_named(name: str) -> None:
    assert refused_paths(make_document("p", **{name: None})) == {name}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("projectId", " "),
        ("projectId", "p" * 129),
        ("id", ""),
        ("id", "r" * 257),
        ("id", "a\0"),
        ("provider", " "),
        ("model", "m" * 257),
        ("status", "failed"),
        ("inputTokens", -1),
        ("outputTokens", 2**53),
        ("cachedInputTokens", 1.5),
        ("cacheWriteTokens", "1"),
        ("reasoningTokens", True),
        ("latencyMs", -1),
        ("costUSD", -0.01),
        ("costUSD", "0.01"),
        ("costUSD", 10**12 + 1),
        ("priceEntryId", 2**63),
        ("reportedCostUSD", -1),
        ("costSource", "guessed"),
        ("costEstimated", 1),
        ("priceEntryId", -1),
        ("promptPreview", "x" * 161),
        ("errorCode", "e" * 257),
        ("metadata", [1]),
        ("metadata", {"a": {"b": {"c": {"d": {"e": {}}}}}}),
        ("metadata", {"a": "x" * 16 * 1024}),
        ("metadata", {"a": "\0"}),
        ("occurredAt", "yesterday"),
        ("occurredAt", "2026-11-20T09:30:00"),
        ("occurredAt", "2019-12-31T23:59:59Z"),
        ("occurredAt", (NOW + MAX_AHEAD + timedelta(seconds=1)).isoformat()),
        ("createdAt", "2019-12-31T23:59:59Z"),
        ("version", 0),
        ("version", 2**31),
        ("version", "1"),
    ],
)
def test_a_field_that_breaks_its_constraint_is_named(name: str, value: object) -> None:
    assert refused_paths(make_document("p", **{name: value})) == {name}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("projectId", "p" * 128),
        ("id", "r" * 256),
        ("inputTokens", 2**53 - 1),
        ("outputTokens", 2**53 - 1),
        ("cachedInputTokens", 2**53 - 1),
        ("cacheWriteTokens", 2**53 - 1),
        ("reasoningTokens", 2**53 - 1),
        ("promptPreview", "x" * 160),
        ("costUSD", 10**12),
        ("priceEntryId", 2**63 - 1),
        ("errorCode", "e" * 256),
        ("metadata", {"a": {"b": {"c": {"d": {"e": 1}}}}}),
        ("occurredAt", "2020-01-01T00:00:00Z"),
        ("occurredAt", (NOW + MAX_AHEAD).isoformat()),
        ("version", 2**31 - 1),
    ],
)
def test_a_field_at_its_limit_is_taken_as_it_is(name: str, value: object) -> None:
    run = decode(json.dumps(make_document("p", **{name: value})).encode(), NOW, RULE)

    taken = json.loads(encode(run, json.dumps(run.metadata)))[name]
    if name == "occurredAt":
        taken, value = datetime.fromisoformat(taken), datetime.fromisoformat(str(value))
    assert taken == value


def test_every_bad_field_is_named_at_once() -> None:
    assert refused_paths(make_document("p", provider="", inputTokens=-1)) == {"provider", "inputTokens"}
    assert refused_paths(make_document("p", costUSD=-1, occurredAt="2019-01-01T00:00:00Z")) == {"costUSD", "occurredAt"}


def test_no_message_repeats_a_value() -> None:
    with pytest.raises(InvalidPayload) as refused:
        decode(json.dumps(make_document("p", status="sk-secret", model=7)).encode(), NOW, RULE)

    assert "sk-secret" not in str(refused.value.details)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"run"', b"null", b"\xff\xfe", b'{"unheardOf": "\xff"}', b"[" * 100_000]
)
def test_a_document_must_be_a_json_object(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        decode(body, NOW, RULE)


def test_content_in_metadata_is_dropped_for_any_sender() -> None:
    document = make_document("p", metadata={"prompt": "x", "user": "u", "deep": {"Messages": ["x"], "n": 1}})

    assert decode(json.dumps(document).encode(), NOW, RULE).metadata == {"user": "u", "deep": {"n": 1}}


@pytest.mark.parametrize(("mode", "kept"), [(PrivacyMode.DEFAULT, "Once"), (PrivacyMode.STRICT, None)])
def test_a_preview_is_kept_unless_the_rule_says_strict(mode: PrivacyMode, kept: str | None) -> None:
    body = json.dumps(make_document("p", promptPreview="Once")).encode()

    assert decode(body, NOW, ContentRule.of(mode, ())).prompt_preview == kept


def test_the_signature_is_lower_case_hex_hmac_sha256_of_the_raw_body() -> None:
    assert sign(b"body", "secret") == hmac.new(b"secret", b"body", hashlib.sha256).hexdigest()


@pytest.mark.parametrize("prefix", ["", "sha256="])
def test_a_signature_counts_with_and_without_its_prefix(prefix: str) -> None:
    assert is_signed(b"body", prefix + sign(b"body", "new"), ["new", "old"])
    assert is_signed(b"body", prefix + sign(b"body", "old"), ["new", "old"])


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "sha256=",
        "sha256=sha256=" + sign(b"body", "secret"),
        "sha1=" + sign(b"body", "secret"),
        sign(b"body", "secret").upper(),
        sign(b"body ", "secret"),
        sign(b"body", "Secret"),
        sign(b"body", "secret")[:-1],
        "é",
    ],
)
def test_any_other_signature_does_not_count(signature: str) -> None:
    assert not is_signed(b"body", signature, ["secret"])


def test_nothing_counts_without_a_secret() -> None:
    assert not is_signed(b"body", sign(b"body", ""), [])


amounts = st.decimals(0, 10**12, places=12)
counts = st.integers(0, 2**53 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=256)


@given(
    cost=st.none() | amounts,
    tokens=st.none() | counts,
    run_id=texts.filter(lambda text: text == trimmed(text)),
    occurred_at=st.datetimes(datetime(2020, 1, 1), datetime(2026, 11, 20), timezones=st.just(UTC)),  # noqa: DTZ001  # Hypothesis adds the zone.
    metadata=st.none()
    | st.dictionaries(texts, st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts, max_size=3),
)
def test_any_stored_run_can_be_pushed(
    cost: Decimal | None, tokens: int | None, run_id: str, occurred_at: datetime, metadata: dict[str, Any] | None
) -> None:
    run = make_stored_run("p", run_id, cost_usd=cost, input_tokens=tokens, occurred_at=occurred_at)
    text = None if metadata is None else msgspec.json.encode(metadata).decode()

    arrived = decode(encode(run, text), NOW, ContentRule.of(PrivacyMode.OFF_METADATA_SCRUB, ()))

    run.metadata = metadata
    assert arrived == run


def test_metadata_with_too_much_in_its_keys_is_refused_before_content_is_looked_for() -> None:
    document = make_document("p", metadata={"messages": [{"k" * 64 * 1024 + "1": 1}]})

    with pytest.raises(InvalidPayload) as raised:
        decode(json.dumps(document).encode(), NOW, RULE)

    [detail] = raised.value.details
    assert detail.path == "metadata"
    assert "65,536 characters together" in detail.message
