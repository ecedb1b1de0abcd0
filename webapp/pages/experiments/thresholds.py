"""The form of an experiment's rule: fill it from a rule, and parse it into one."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from runtally.errors import Detail, InvalidThresholds
from runtally.experiments.verdict import Rule, Thresholds, Window, validate
from runtally.models.experiment import RATE_DECIMALS
from runtally.money import plain
from webapp.form import Form

# The names are those of the API, which the errors of the domain name too.
LABELS = {
    "windowRuns": "Runs judged",
    "windowHours": "Hours judged",
    "minRuns": "Runs needed",
    "maxErrorRate": "Error rate",
    "maxP95LatencyMs": "p95 latency",
    "maxCostPerRunUSD": "Cost per run",
    "maxTotalCostUSD": "Total cost",
}
# A percent is a hundredth of the share that is stored.
_PERCENT_DECIMALS = RATE_DECIMALS - 2


class _NotANumber(Exception):
    """The text is not a number of the required form."""


def filled(rule: Rule) -> Form:
    """The form as the rule is now; what has no limit is empty."""
    limits = rule.thresholds
    values: Mapping[str, Decimal | int | None] = {
        "windowRuns": rule.window.runs,
        "windowHours": rule.window.hours,
        "minRuns": limits.min_runs,
        "maxErrorRate": None if limits.max_error_rate is None else limits.max_error_rate * 100,
        "maxP95LatencyMs": limits.max_p95_latency_ms,
        "maxCostPerRunUSD": limits.max_cost_per_run_usd,
        "maxTotalCostUSD": limits.max_total_cost_usd,
    }
    return Form.showing("", {name: _text(value) for name, value in values.items()})


def parsed(form: Form) -> Rule:
    """The rule that was sent. Raises `InvalidThresholds` with all that is wrong, in words that name the field."""
    # Where a field can't be read the rest is looked at as if it had not been changed, to say all that is wrong at once.
    plain = filled(Rule())
    values, unread = dict[str, Any](), dict[str, Detail]()
    for name, read in _READERS.items():
        try:
            values[name] = read(form.value(name).strip())
        except _NotANumber as error:
            unread[name] = Detail(name, str(error))
            values[name] = read(plain.value(name))
    rule = _rule_of(values)
    try:
        validate(rule)
        wrong: tuple[Detail, ...] = ()
    except InvalidThresholds as error:
        wrong = tuple(detail for detail in error.details if detail.path not in unread)
    if unread or wrong:
        raise InvalidThresholds(details=_named((*unread.values(), *wrong)))
    return rule


def _rule_of(values: Mapping[str, Any]) -> Rule:
    return Rule(
        Window(values["windowRuns"], values["windowHours"]),
        Thresholds(
            values["maxErrorRate"],
            values["maxP95LatencyMs"],
            values["maxCostPerRunUSD"],
            values["maxTotalCostUSD"],
            values["minRuns"] or 1,
        ),
    )


def _named(details: Iterable[Detail]) -> tuple[Detail, ...]:
    """The constraints as sentences about what the page calls the field."""
    return tuple(replace(one, message=f"{LABELS[one.path]} {_in_words(one.message)}.") for one in details)


def _in_words(message: str) -> str:
    for name, label in LABELS.items():
        message = message.replace(name, label.lower())
    return message


def _whole(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise _NotANumber("must be a whole number") from None


def _amount(text: str) -> Decimal | None:
    return _number(text.removeprefix("$").replace(",", ""))


def _percent(text: str) -> Decimal | None:
    number = _number(text.removesuffix("%"))
    if number is None:
        return None
    exponent = number.as_tuple().exponent
    is_exact = isinstance(exponent, int) and -exponent <= _PERCENT_DECIMALS
    if not is_exact or not 0 <= number <= 100:  # noqa: PLR2004  # Percent.
        raise _NotANumber(f"must be from 0 to 100 percent, with at most {_PERCENT_DECIMALS} decimals")
    return number.scaleb(-2)


def _number(text: str) -> Decimal | None:
    if not text.strip():
        return None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise _NotANumber("must be a number, with a point before its decimals") from None
    if not number.is_finite():
        raise _NotANumber("must be a number, with a point before its decimals")
    return number


def _text(value: Decimal | int | None) -> str:
    return "" if value is None else plain(Decimal(value))


_READERS: Mapping[str, Callable[[str], Decimal | int | None]] = {
    "windowRuns": _whole,
    "windowHours": _whole,
    "minRuns": _whole,
    "maxErrorRate": _percent,
    "maxP95LatencyMs": _whole,
    "maxCostPerRunUSD": _amount,
    "maxTotalCostUSD": _amount,
}
