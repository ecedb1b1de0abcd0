"""A run as it is stored, field by field."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from runtally.errors import InvalidPayload
from runtally.fields import MAX_NAME
from runtally.ingest.normalize import NormalRun, normalize
from runtally.ingest.wire import WireRun
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PARTS = {
    "cachedInputTokens": ("cached_input_tokens", "prompt_tokens_details", "cached_tokens"),
    "reasoningTokens": ("reasoning_tokens", "completion_tokens_details", "reasoning_tokens"),
    "audioInputTokens": ("audio_input_tokens", "prompt_tokens_details", "audio_tokens"),
    "audioOutputTokens": ("audio_output_tokens", "completion_tokens_details", "audio_tokens"),
}


def normalized(mode: PrivacyMode = PrivacyMode.DEFAULT, **fields: Any) -> NormalRun:  # noqa: ANN401  # Any field.
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
