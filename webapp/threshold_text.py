"""Describe thresholds of experiments in words."""

from decimal import Decimal

from runtally.experiments.verdict import Measure, Outcome, Verdict, Window
from webapp import formats

NAMES = {
    Measure.ERROR_RATE: "Error rate",
    Measure.P95_LATENCY_MS: "p95 latency",
    Measure.COST_PER_RUN_USD: "Cost per run",
    Measure.TOTAL_COST_USD: "Total cost",
}

COSTS = frozenset({Measure.COST_PER_RUN_USD, Measure.TOTAL_COST_USD})


def text(measure: Measure, value: Decimal) -> str:
    match measure:
        case Measure.ERROR_RATE:
            return formats.percent(float(value))
        case Measure.P95_LATENCY_MS:
            return formats.duration(float(value))
        case Measure.COST_PER_RUN_USD:
            return formats.unit_money(value)
        case Measure.TOTAL_COST_USD:
            return formats.money(value)


def limit_text(measure: Measure, limit: Decimal) -> str:
    """Format a limit with all the digits that were entered, and no more."""
    if measure is Measure.ERROR_RATE:
        return formats.set_percent(limit)
    return formats.beside(formats.money_exact(limit), limit) if measure in COSTS else text(measure, limit)


def outcome_text(verdict: Verdict) -> str:
    """Describe a verdict: pass, fail, or how many runs are missing."""
    match verdict.outcome:
        case Outcome.PASS:
            return "Pass"
        case Outcome.FAIL:
            return "Fail"
        case Outcome.UNKNOWN:
            return f"Not enough runs yet ({formats.count(verdict.runs)} of {formats.count(verdict.min_runs)})"


def window_text(window: Window) -> str:
    """Describe a window: the last 100 runs, or those of the last 24 hours, whichever are fewer."""
    runs = "the last run" if window.runs == 1 else f"the last {formats.count(window.runs or 0)} runs"
    hours = "hour" if window.hours == 1 else f"{formats.count(window.hours or 0)} hours"
    if window.hours is None:
        return runs
    if window.runs is None:
        return f"the runs of the last {hours}"
    return f"{runs}, of the last {hours} only"
