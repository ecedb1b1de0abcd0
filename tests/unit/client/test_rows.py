"""Rows to runs: what is found by name, what options change, what is left out, and ids that stay."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.client.files import Row
from runtally.client.mapping import Options, parse_constants, parse_links, parse_values
from runtally.client.post import Rejection, Totals
from runtally.client.rows import RowRejected, RunMaker, batches
from runtally.client.run import InvalidMapping, OutgoingRun, as_text
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

CONTENT = ContentRule.of(PrivacyMode.STRICT, CONTENT_KEYS.split(","))


def a_maker(  # noqa: PLR0913  # One argument for each option of the command.
    *,
    links: Sequence[str] = (),
    values: Sequence[str] = (),
    constants: Sequence[str] = (),
    fallbacks: Sequence[str] = (),
    ignored: Iterable[str] = (),
    project_id: str = "p",
    allow_empty: bool = True,
) -> RunMaker:
    options = Options(
        content=CONTENT,
        links=parse_links(links, CONTENT),
        values=parse_values(values),
        constants=parse_constants("--set", constants, CONTENT),
        fallbacks=parse_constants("--default", fallbacks, CONTENT),
        ignored=frozenset(ignored),
        allow_empty=allow_empty,
        epoch=datetime(2026, 11, 1, tzinfo=UTC),
    )
    return RunMaker(project_id, options)


def a_row(**values: Any) -> dict[str, Any]:  # noqa: ANN401  # A file holds any JSON value.
    return {"provider": "acme", "model": "large", "timestamp": "2026-11-20T10:00:00Z", **values}


@pytest.mark.parametrize(
    ("column", "value", "field", "expected"),
    [
        ("inputTokens", "5", "input_tokens", 5),
        ("Input Tokens", "5", "input_tokens", 5),
        ("prompt_tokens", "5", "input_tokens", 5),
        ("completion_tokens", "7", "output_tokens", 7),
        ("cost_usd", "0.5", "cost_usd", Decimal("0.5")),
        ("latency_ms", "800", "latency_ms", 800),
        ("latency_s", "0.8", "latency_ms", 800),
        ("traceId", "t1", "trace_id", "t1"),
        ("run_id", "r1", "run_id", "r1"),
        ("error_code", "429", "error_code", "429"),
        ("user", "ann", "user_id", "ann"),
        ("session_id", "s1", "session_id", "s1"),
        ("ttft_ms", "210", "time_to_first_token_ms", 210),
        ("units", '{"webSearch": 2}', "units", {"webSearch": 2}),
        ("service_tier", "flex", "service_tier", "flex"),
        ("region", "us", "region", "us"),
        ("tags", '["a,b", "c"]', "tags", ["a,b", "c"]),
        ("tags", "a, b,", "tags", ["a", "b"]),
    ],
)
def test_columns_named_like_a_field_fill_it(column: str, value: str, field: str, expected: object) -> None:
    run = a_maker().run_of(a_row(**{column: value}))

    assert getattr(run, field) == expected


def test_token_counts_inside_a_usage_object_are_found() -> None:
    run = a_maker().run_of(a_row(usage={"prompt_tokens": 3, "completion_tokens": 4}))

    assert (run.input_tokens, run.output_tokens) == (3, 4)


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 1000, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 2000},
        {"usage": {"input_tokens": 1000, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 2000}},
        {
            "usage_input_tokens": "1000",
            "usage_cache_read_input_tokens": "5000",
            "usage_cache_creation_input_tokens": "2000",
        },
        {"inputTokens": 1000, "cacheReadInputTokens": 5000, "cacheWriteInputTokens": 2000},
    ],
)
def test_input_beside_anthropics_names_of_cached_tokens_leaves_them_out_and_they_are_added(
    usage: dict[str, Any],
) -> None:
    run = a_maker().run_of(a_row(**usage))

    assert (run.input_tokens, run.cached_input_tokens, run.cache_write_tokens) == (8000, 5000, 2000)


def test_input_that_includes_cached_tokens_stays_as_it_is() -> None:
    ours = a_maker().run_of(a_row(inputTokens=8000, cachedInputTokens=5000, cacheWriteTokens=2000))
    litellm = a_maker().run_of(a_row(usage={"prompt_tokens": 8000, "cache_read_input_tokens": 5000}))
    empty = a_maker().run_of(a_row(input_tokens="8", cache_read_input_tokens=""))

    assert (ours.input_tokens, litellm.input_tokens, empty.input_tokens) == (8000, 8000, 8)
    assert (ours.cached_input_tokens, litellm.cached_input_tokens) == (5000, 5000)


def test_the_summary_names_columns_that_were_added_to_the_input() -> None:
    maker = a_maker()

    maker.run_of(a_row(input_tokens=1, cache_read_input_tokens=2))

    assert maker.planner.used["cache_read_input_tokens"] == ["inputTokens", "cachedInputTokens"]


@pytest.mark.parametrize(
    "usage",
    [
        {
            "usage": {
                "prompt_tokens": 8000,
                "completion_tokens": 300,
                "prompt_tokens_details": {"cached_tokens": 5000},
                "completion_tokens_details": {"reasoning_tokens": 100},
            }
        },
        {
            "usage": {
                "input_tokens": 8000,
                "output_tokens": 300,
                "input_tokens_details": {"cached_tokens": 5000},
                "output_tokens_details": {"reasoning_tokens": 100},
            }
        },
        {
            "usage.prompt_tokens": "8000",
            "usage.completion_tokens": "300",
            "usage.prompt_tokens_details.cached_tokens": "5000",
            "usage.completion_tokens_details.reasoning_tokens": "100",
        },
        {
            "input_tokens": "8000",
            "output_tokens": "300",
            "input_tokens_details_cached_tokens": "5000",
            "output_tokens_details_reasoning_tokens": "100",
        },
    ],
)
def test_the_details_of_openais_usage_are_found_nested_and_flattened(usage: dict[str, Any]) -> None:
    run = a_maker().run_of(a_row(**usage))

    assert (run.input_tokens, run.output_tokens) == (8000, 300)
    assert (run.cached_input_tokens, run.reasoning_tokens) == (5000, 100)


@pytest.mark.parametrize(
    "column",
    ["date", "ts", "time", "datetime", "created", "created_at", "start_time", "starting_at", "request_created_at"],
)
@pytest.mark.parametrize(
    ("written", "sent"), [("2026-07-08", "2026-07-08T00:00:00Z"), ("1785943677.39", "1785943677.39")]
)
def test_the_usual_names_of_a_time_date_the_run(column: str, written: str, sent: str) -> None:
    run = a_maker().run_of({"provider": "acme", "model": "large", column: written})

    assert run.timestamp == sent


def test_a_time_within_the_day_counts_before_the_day() -> None:
    run = a_maker().run_of(a_row(timestamp="", date="2026-11-20", created_at="2026-11-20T10:00:00Z"))

    assert run.timestamp == "2026-11-20T10:00:00Z"


def test_a_row_without_a_time_gets_that_of_the_import_only_where_asked() -> None:
    filled = a_maker(fallbacks=["timestamp=now"])

    # Without one on the wire, the server takes the time of the arrival.
    assert filled.run_of(a_row(timestamp="")).timestamp is None
    assert filled.run_of(a_row()).timestamp == "2026-11-20T10:00:00Z"
    assert a_maker(constants=["timestamp=now"]).run_of(a_row()).timestamp is None


@pytest.mark.parametrize("column", ["latency", "duration", "took"])
def test_a_duration_without_a_unit_in_its_name_is_not_guessed(column: str) -> None:
    maker = a_maker()

    run = maker.run_of(a_row(**{column: "1.5"}))

    assert run.latency_ms is None
    assert list(maker.planner.ignored) == [column]


def test_a_mapped_column_is_read_in_its_unit() -> None:
    run = a_maker(links=["took=latencyMs:s", "at=timestamp:s"]).run_of(a_row(took="1.5", at="60"))

    assert (run.latency_ms, run.timestamp) == (1500, "2026-11-01T00:01:00Z")


def test_an_explicit_mapping_wins_over_the_name() -> None:
    run = a_maker(links=["billed=inputTokens"]).run_of(a_row(prompt_tokens="1", billed="2"))

    assert run.input_tokens == 2


def test_of_two_columns_for_a_field_the_first_with_a_value_counts() -> None:
    run = a_maker(links=["a=model", "b=model"]).run_of(a_row(a="", b="small"))

    assert run.model == "small"


def test_values_are_translated_and_may_be_emptied() -> None:
    maker = a_maker(links=["event=status", "code=errorCode"], values=["event:failed=error", "code:-100="])

    run = maker.run_of(a_row(event="failed", code=-100))

    assert (run.status, run.error_code) == ("error", None)


def test_what_json_calls_true_or_false_is_translated() -> None:
    maker = a_maker(links=["success=status"], values=["success:true=success", "success:false=error"])

    assert [maker.run_of(a_row(success=given)).status for given in (True, False)] == ["success", "error"]


def test_constants_win_over_the_row_and_defaults_only_fill_gaps() -> None:
    maker = a_maker(constants=["provider=mine"], fallbacks=["model=unknown", "errorCode=none-said"])

    run = maker.run_of(a_row(provider="theirs", model="", error_code="429"))

    assert (run.provider, run.model, run.error_code) == ("mine", "unknown", "429")


def test_the_provider_is_split_off_the_model_unless_it_is_said() -> None:
    said, split = a_row(model="a/b"), a_row(provider="", model="openrouter/anthropic/claude-3.5-sonnet")

    assert a_maker().run_of(said).model == "a/b"
    assert a_maker().run_of(split).provider == "openrouter"
    assert a_maker().run_of(split).model == "anthropic/claude-3.5-sonnet"


def test_a_default_provider_is_for_names_that_tell_none() -> None:
    maker = a_maker(fallbacks=["provider=unknown"])

    assert maker.run_of(a_row(provider="", model="gpt-6.1-terra")).provider == "openai"
    assert maker.run_of(a_row(provider="", model="m-small")).provider == "unknown"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"provider": "acme"}, "model is missing"),
        ({"model": "None", "provider": "acme"}, "model is missing"),
        ({"model": "m-small"}, "say --default provider=NAME"),
        (a_row(prompt_tokens="many"), "inputTokens must be a number"),
        (a_row(prompt_tokens="-1"), "inputTokens must be a whole number"),
        (a_row(status="ok"), "translate with --value"),
        (a_row(timestamp=""), "timestamp is missing; map a column to it, or say --default timestamp=now"),
        (a_row(timestamp="yesterday"), "timestamp must be an ISO 8601 time"),
        (a_row(metadata="[1]"), "metadata must be a JSON object"),
    ],
)
def test_a_row_that_cannot_be_a_run_says_what_it_lacks(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowRejected, match=reason):
        a_maker().run_of(row)


def test_a_call_without_tokens_and_cost_is_rejected_unless_it_failed_or_may_be_empty() -> None:
    strict = a_maker(allow_empty=False)

    with pytest.raises(RowRejected, match="say --allow-empty"):
        strict.run_of(a_row(status="success"))
    assert strict.run_of(a_row(status="error")).status == "error"
    assert strict.run_of(a_row(cost="0")).cost_usd == 0
    assert strict.run_of(a_row(prompt_tokens="0")).input_tokens == 0
    assert a_maker().run_of(a_row()).input_tokens is None


def test_unused_columns_that_look_like_tokens_a_cost_or_a_time_are_doubtful() -> None:
    maker = a_maker(ignored=["session_cost"])

    maker.run_of(
        a_row(
            prompt_tokens=1,
            billedTokens=2,
            session_cost=3,
            usage={"audio_tokens": 4, "kind": "x", "prompt_tokens_details": {"cached_tokens": 1}},
            end_time="5",
            candidate="6",
            prompt={"tokens of mine": 7},
        )
    )

    assert list(maker.planner.doubtful) == ["billedTokens", "usage.audio_tokens", "end_time"]


def test_metadata_comes_from_columns_objects_and_constants() -> None:
    maker = a_maker(links=["tenant=metadata.customer"], constants=["metadata.source=import"])

    run = maker.run_of(a_row(tenant="t1", metadata={"env": "prod"}))

    assert run.metadata == {"env": "prod", "customer": "t1", "source": "import"}


SECRET = "what-the-user-wrote"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": SECRET, "completion": SECRET, "messages": [{"role": "user", "content": SECRET}]},
        {"metadata": {"env": "prod", "system_prompt": SECRET, "deep": {"messages": [SECRET]}}},
        {"promptPreview": SECRET},
        {"labels": {"output": SECRET}},
    ],
)
def test_content_is_never_sent(row: dict[str, Any]) -> None:
    maker = a_maker(links=["labels=metadata.labels"])

    run = maker.run_of(a_row(**row))

    assert SECRET not in as_text(run)
    # All else of the row is there.
    plain = maker.run_of(a_row())
    assert (run.provider, run.model, run.input_tokens) == (plain.provider, plain.model, plain.input_tokens)


def test_content_columns_are_named_once_apart_from_the_ignored_ones() -> None:
    maker = a_maker()

    for _ in range(3):
        maker.run_of(a_row(Prompt="x", completion="y", team="z"))

    assert list(maker.planner.never_sent) == ["Prompt", "completion"]
    assert list(maker.planner.ignored) == ["team"]


@pytest.mark.parametrize(
    "link",
    ["prompt=metadata.note", "messages=errorCode", "tenant=metadata.prompt", "request.messages=metadata.x"],
)
def test_content_cannot_be_mapped_to_text(link: str) -> None:
    with pytest.raises(InvalidMapping):
        a_maker(links=[link])


def test_a_column_named_like_content_may_be_a_number() -> None:
    run = a_maker(links=["input=inputTokens", "output=outputTokens"]).run_of(a_row(input="5", output="6"))

    assert (run.input_tokens, run.output_tokens) == (5, 6)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"links": ["took"]}, "COLUMN=FIELD"),
        ({"links": ["took=latency"]}, "no field 'latency'; it has runId"),
        ({"links": ["took=latencyMs:hours"]}, "has the units ns, us, ms, s, min"),
        ({"links": ["m=model:s"]}, "no unit"),
        ({"values": ["failed=error"]}, "COLUMN:VALUE=OTHER"),
        ({"constants": ["provider"]}, "--set FIELD=VALUE"),
        ({"fallbacks": ["inputTokens=many"]}, "must be a number"),
    ],
)
def test_a_wrong_option_says_how_it_is_written(option: dict[str, list[str]], says: str) -> None:
    with pytest.raises(InvalidMapping, match=says):
        a_maker(**option)  # type: ignore[arg-type]  # One option at a time, by name.


def test_an_option_that_names_no_column_of_the_file_is_a_mistake() -> None:
    with pytest.raises(InvalidMapping, match="no column 'nothing'; the file has provider, model"):
        a_maker(links=["nothing=model"]).planner.demand_columns(a_row())


def test_a_row_keeps_its_id_whatever_the_order_of_its_columns() -> None:
    row = a_row(prompt_tokens="5")

    assert a_maker().run_of(row).run_id == a_maker().run_of(dict(reversed(row.items()))).run_id


def test_equal_rows_have_different_ids_and_so_have_projects() -> None:
    maker = a_maker()

    ids = {maker.run_of(a_row()).run_id, maker.run_of(a_row()).run_id, a_maker(project_id="q").run_of(a_row()).run_id}

    assert len(ids) == 3


@given(st.lists(st.integers(0, 3), max_size=30))
def test_a_second_reading_gives_the_same_ids_and_every_row_its_own(numbers: list[int]) -> None:
    rows = [a_row(prompt_tokens=str(number)) for number in numbers]

    first, second = ([made.run_id for made in map(a_maker().run_of, rows)] for _ in range(2))

    assert first == second
    assert len(set(first)) == len(rows)


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30))
def test_rows_that_are_added_to_a_file_leave_the_ids_of_the_others(numbers: list[int], before: int) -> None:
    rows = [a_row(prompt_tokens=str(number)) for number in numbers]

    whole = [made.run_id for made in map(a_maker().run_of, rows)]
    part = [made.run_id for made in map(a_maker().run_of, rows[:before])]

    assert whole[: len(part)] == part


def test_batches_are_full_but_for_the_last_and_bad_rows_are_counted() -> None:
    totals = Totals()
    rows: list[Row | Rejection] = [Row(line, a_row(prompt_tokens=str(line))) for line in range(2, 9)]
    rows.insert(3, Rejection(99, "is no JSON"))
    rows.append(Row(9, {}))

    made = list(batches(rows, a_maker(), totals, size=3))

    assert [len(batch.runs) for batch in made] == [3, 3, 1]
    assert [line for batch in made for line in batch.lines] == list(range(2, 9))
    assert totals.rejected == 2


def test_a_run_goes_on_the_wire_in_the_names_of_the_interface_without_what_it_lacks() -> None:
    run = OutgoingRun(run_id="r", provider="acme", model="m", cost_usd=Decimal("0.022080000000000002"), latency_ms=0)

    assert as_text(run) == ('{"runId":"r","provider":"acme","model":"m","latencyMs":0,"costUSD":0.022080000000000002}')
