"""Read what agents report as metrics alone: sums of tokens, of which each export adds up to one run. Pure.

A sum has no single calls: no latency, no errors, no number of requests. So it is read only for projects that ask for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from runtally.fields import MAX_COUNT
from runtally.models.run import Status
from runtally.otlp import parse
from runtally.otlp.agents import known
from runtally.otlp.agents.known import Agent
from runtally.otlp.agents.records import NAMES as RECORD_NAMES
from runtally.otlp.agents.records import Place
from runtally.otlp.attributes import Facts
from runtally.otlp.calls import Call
from runtally.otlp.values import Metric, Scalar, Value

TOKENS = "continue_cli_token_usage"
METRICS = frozenset({TOKENS})
"""The names of the metrics that are read."""
_TYPE = "type"
NAMES = RECORD_NAMES | {_TYPE}
"""The attributes of points that are read."""
_FIELDS = {"input": "input", "output": "output", "cacheRead": "cached", "cacheCreation": "written"}
# Anthropic counts the input without cached tokens, and Continue passes its counts on; all others count them in.
_COUNTED_APART = "claude"

Counted = Mapping[str, int]
"""Tokens by field."""
FIELDS = tuple(_FIELDS.values())


class Sum(NamedTuple):
    """The tokens of one model at one moment: since the start of the process, or since the last export."""

    agent: Agent
    place: Place
    series: str
    """An id that all sums of one process and model share."""
    time: int
    is_delta: bool
    attributes: Mapping[str, Value]
    tokens: Counted
    """The input includes cached and written tokens."""

    @property
    def project_id(self) -> str:
        return self.place.project_id


def drop_untimed(metric: Metric) -> int:
    """Drop the points without a time or, of sums since a start, without that start, and return how many there were.

    The times identify a run and its series.
    """
    timed = [point for point in metric.points if point.time and (point.start or metric.is_delta)]
    untimed, metric.points = len(metric.points) - len(timed), timed
    return untimed


_Group = tuple[bytes, tuple[tuple[str, Scalar], ...]]


def read_sums(agent: Agent, metric: Metric, place: Place) -> Iterator[Sum]:
    """Yield the sums of a metric, in the order of time.

    The start of its first point distinguishes processes with the same resource.
    """
    starts: dict[_Group, int] = {}
    tokens: dict[tuple[_Group, int], dict[str, int]] = {}
    for point in metric.points:
        field = _FIELDS.get(str(point.attributes.get(_TYPE)))
        count = parse.count(point.value)
        if field is None or count is None:
            continue
        scalars = {
            name: value for name, value in point.attributes.items() if name != _TYPE and not isinstance(value, list)
        }
        group = metric.resource.digest, tuple(sorted(scalars.items()))
        starts[group] = min(starts.get(group, point.start), point.start)
        # The later of two points of the same moment counts.
        tokens.setdefault((group, point.time), {})[field] = count
    for (group, time), sent in sorted(tokens.items(), key=lambda item: item[0][1]):
        key = (agent.name, group[0].hex(), *map(str, group[1]), str(starts[group]))
        series = sha256("\0".join(key).encode()).hexdigest()[:32]
        attributes = dict(group[1])
        yield Sum(agent, place, series, time, metric.is_delta, attributes, _whole(sent, attributes.get("model")))


def _whole(sent: Counted, model: object) -> Counted:
    """Return the tokens with all of the input in it.

    The rule hangs on the name of the model alone, as what was stored is subtracted from its result: the same in each export.
    """
    if _COUNTED_APART not in str(model).casefold():
        return sent
    whole = sum(sent.get(field, 0) for field in ("input", "cached", "written"))
    return {**sent, "input": whole} if whole else sent


def added_by(one: Sum, counted: Counted) -> Call | None:
    """Return what the sum adds to the tokens that runs of its series have, as a call; None if it adds nothing.

    The id of a sum since a start is made from the tokens that were counted before. So of two exports that are stored at
    the same moment one finds its id taken, and what it adds has to be computed again.
    """
    before = {} if one.is_delta else counted
    facts: Facts = {
        field: min(max(tokens - before.get(field, 0), 0), MAX_COUNT) for field, tokens in one.tokens.items()
    }
    if not any(facts.values()):
        return None
    model = parse.name(one.attributes.get("model", ""))
    if model:
        facts["model"] = model
    resource = one.place.resource
    described = known.describe(
        one.agent, dict(one.attributes), resource.attributes, facts, keeps_email=one.place.keeps_email
    )
    step = [one.time] if one.is_delta else ["after", *(before.get(field, 0) for field in FIELDS)]
    return Call(
        key=b"",
        run_id=sha256("\0".join([one.series, *map(str, step)]).encode()).hexdigest(),
        trace_id=one.series,
        parent_id=b"",
        project_id=one.place.project_id,
        resource=resource,
        scope="",
        start=one.time,
        end=one.time,
        latency_ms=None,
        status=Status.SUCCESS,
        error_code=None,
        facts=facts,
        about={**described, "aggregated": True},
    )


def combine(sums: Iterable[Sum]) -> list[Sum]:
    """Return each sum since the last export, and one of each series since a start: the last, with the highest tokens.

    Then each series is read and stored once, however many exports are in the request.
    """
    combined: list[Sum] = []
    last: dict[str, Sum] = {}
    for one in sorted(sums, key=lambda one: one.time):
        if one.is_delta:
            combined.append(one)
            continue
        before = last[one.series].tokens if one.series in last else {}
        highest = {field: max(count, one.tokens.get(field, 0)) for field, count in before.items()}
        last[one.series] = one._replace(tokens={**one.tokens, **highest})
    return [*combined, *last.values()]
