"""The kinds of things that the API manages, in the order in which a file of configuration is applied."""

from typing import Any

from api.managed.alerts import CHANNELS, RULES
from api.managed.kind import Kind
from api.managed.of_control import DISCOUNTS, KEYS, LINKS, PRICES
from api.managed.of_projects import BUDGETS, EXPERIMENTS, NAME_RULES, PROJECTS, TRACKED_KEYS

KINDS: tuple[Kind[Any], ...] = (
    PROJECTS,
    KEYS,
    LINKS,
    PRICES,
    DISCOUNTS,
    NAME_RULES,
    TRACKED_KEYS,
    BUDGETS,
    CHANNELS,
    RULES,
    EXPERIMENTS,
)
