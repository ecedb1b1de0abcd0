"""One trace of the demo: its calls with tokens, latency, outcome and metadata. Pure: chance comes from the caller."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Final, NamedTuple, TypeVar

from runtally.client.demo.projects import Model, Project, Step
from runtally.client.demo.story import Story, Trouble
from runtally.client.run import OutgoingRun, wire_time

T = TypeVar("T")

TIMEOUT_MS: Final = 60_000
# Found in an answer, which is billed like any other.
_BAD_ANSWERS: Final = ("content_filter", "invalid_tool_call")
_USUAL_ERRORS: Final = ("rate_limit_exceeded", "overloaded", *_BAD_ANSWERS)
_STAGING: Final = 0.06
_CUT_OFF: Final = 0.01
# The larger, the more of the traces are started by the busiest users.
_USER_TAIL: Final = 3
_PRICE_STEP: Final = Decimal("0.00000001")
# A provider reads a prompt at some tens of thousands of tokens a second.
_INPUT_TOKENS_PER_MS: Final = 25


class Call(NamedTuple):
    """A run, and when its answer was there: nothing that has not ended yet may be posted."""

    ended_at: datetime
    run: OutgoingRun


@dataclass(frozen=True, slots=True)
class _Plan:
    """A planned call, before its result is decided."""

    step: Step
    model: Model
    experiment: str | None
    input_tokens: int
    output_tokens: int
    cache_hit_rate: float


@dataclass(frozen=True, slots=True)
class _Outcome:
    status: str
    error_code: str | None
    latency_ms: int
    first_token_ms: int | None = None


def trace_of(project: Project, story: Story, started_at: datetime, rng: Random, run_prefix: str) -> list[Call]:
    """The calls of one trace, one after the other."""
    length = _weighted(rng, project.trace_lengths)
    trace_id = f"{rng.getrandbits(128):032x}"
    shared = {
        "env": "staging" if rng.random() < _STAGING else "production",
        **{key: rng.choice(values) for key, values in project.labels.items()},
    }
    user = project.users[int(len(project.users) * rng.random() ** _USER_TAIL)]
    if project.agent:  # A developer works in one repository on a day.
        repositories = project.labels["repo"]
        shared["repo"] = repositories[(project.users.index(user) + started_at.toordinal()) % len(repositories)]
    tags = [rng.choice(project.tags)] if project.tags else None
    calls: list[Call] = []
    at = started_at
    for number in range(length):
        # Each call has its own chance, so that one that goes differently leaves the others as they are.
        chance = Random(rng.getrandbits(64))  # noqa: S311  # Made-up traffic is no secret.
        call = _call(project, story, at, chance, project.steps[min(number, len(project.steps) - 1)])
        call.run.run_id = f"{run_prefix}-{number}"
        call.run.trace_id = trace_id
        session = "-".join(filter(None, (project.agent, user, f"{started_at:%Y%m%d}")))
        call.run.user_id, call.run.session_id, call.run.tags = user, session, tags
        call.run.metadata = {**shared, **(call.run.metadata or {})}
        if project.agent and calls and calls[-1].run.status != "success":
            call.run.metadata["attempt"] = 2
        calls.append(call)
        at = call.ended_at + timedelta(milliseconds=chance.randint(20, 900))
    return calls


def _call(project: Project, story: Story, at: datetime, chance: Random, step: Step) -> Call:
    plan = _plan(project, story, at, chance, step)
    outcome = _outcome(plan, story.trouble(plan.model, at, plan.experiment), chance)
    version = story.prompt_version(project, at)
    run = OutgoingRun(
        run_id="",
        provider=plan.model.provider,
        model=plan.model.name,
        timestamp=wire_time(at),
        status=outcome.status,
        error_code=outcome.error_code,
        finish_reason=_finish_reason(step, outcome, chance),
        latency_ms=outcome.latency_ms,
        time_to_first_token_ms=outcome.first_token_ms,
        experiment_id=plan.experiment,
        prompt_hash=hashlib.sha256(f"{project.id}/{step.feature}/v{version}".encode()).hexdigest(),
        metadata={"feature": step.feature, "release": f"{at:%G.%V}.{version}", **dict(step.labels)},
    )
    _count_tokens(run, plan, chance)
    return Call(at + timedelta(milliseconds=outcome.latency_ms), run)


def _plan(project: Project, story: Story, at: datetime, chance: Random, step: Step) -> _Plan:
    offer = story.experiment(project, step, at)
    experiment = offer[0] if offer and chance.random() < offer[1] else None
    models = story.experiment_models(experiment) if experiment else story.models(project, step, at)
    longer = story.input_factor(project, step, at)
    return _Plan(
        step=step,
        model=_weighted(chance, models),
        experiment=experiment,
        input_tokens=max(16, round(step.input_tokens * longer * chance.lognormvariate(0, 0.45))),
        output_tokens=max(1, round(step.output_tokens * chance.lognormvariate(0, 0.55))),
        cache_hit_rate=story.cache_hit_rate(project, at),
    )


def _outcome(plan: _Plan, trouble: Trouble, chance: Random) -> _Outcome:
    luck = chance.random()
    if luck < trouble.timeout:
        return _Outcome("timeout", "timeout", TIMEOUT_MS + chance.randint(0, 40))
    if luck < trouble.timeout + trouble.error:
        code = trouble.code or chance.choice(_USUAL_ERRORS)
        if code in _BAD_ANSWERS:
            return _Outcome("error", code, *_answer_ms(plan, trouble, chance))
        return _Outcome("error", code, round(180 * trouble.slower * chance.lognormvariate(0, 0.6)))
    return _Outcome("success", None, *_answer_ms(plan, trouble, chance))


def _finish_reason(step: Step, outcome: _Outcome, chance: Random) -> str | None:
    if outcome.error_code == "content_filter":
        return "content_filter"
    if outcome.status != "success":
        return None
    if step.feature == "tool-call":
        return "tool_calls"
    return "length" if chance.random() < _CUT_OFF else "stop"


def _answer_ms(plan: _Plan, trouble: Trouble, chance: Random) -> tuple[int, int]:
    """Return the milliseconds until the whole answer was there, and until its first token was."""
    model = plan.model
    first = model.first_token_ms * chance.lognormvariate(0, 0.3) + plan.input_tokens / _INPUT_TOKENS_PER_MS
    rest = plan.output_tokens / model.tokens_per_s * 1000 * chance.lognormvariate(0, 0.2)
    latency_ms = min(TIMEOUT_MS - 1, round((first + rest) * trouble.slower))
    return latency_ms, min(latency_ms, round(first * trouble.slower))


def _count_tokens(run: OutgoingRun, plan: _Plan, chance: Random) -> None:
    """Tokens and, where the provider reports it, the cost. A call that timed out pays for its prompt, a refused one nothing."""
    if run.status == "error" and run.error_code not in _BAD_ANSWERS:
        run.input_tokens = run.output_tokens = 0
        return
    model = plan.model
    run.input_tokens, run.output_tokens = plan.input_tokens, 0 if run.status == "timeout" else plan.output_tokens
    if model.caches and plan.step.cached:
        cacheable = round(plan.input_tokens * plan.step.cached * chance.uniform(0.85, 1))
        if chance.random() < plan.cache_hit_rate:
            run.cached_input_tokens = cacheable
        elif model.provider == "anthropic":
            run.cache_write_tokens = cacheable
    if model.reasoning:
        run.reasoning_tokens = round(run.output_tokens * min(0.95, model.reasoning * chance.uniform(0.4, 1.6)))
    if model.usd_per_million:
        per_input, per_output = model.usd_per_million
        cost = (per_input * plan.input_tokens + per_output * run.output_tokens) / 1_000_000
        run.cost_usd = cost.quantize(_PRICE_STEP)


def _weighted(rng: Random, weights: dict[T, float]) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]
