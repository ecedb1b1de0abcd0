"""The kinds of things that the API manages, in the order in which a file of configuration is applied."""

from api.managed.alerts import ManagedAlertChannel, ManagedAlertRule
from api.managed.kind import Resource
from api.managed.of_control import ManagedDiscount, ManagedKey, ManagedLink, ManagedPrice, ManagedUser
from api.managed.of_projects import (
    ManagedBudget,
    ManagedExperiment,
    ManagedNameRule,
    ManagedProject,
    ManagedTrackedKey,
)

KINDS: tuple[type[Resource], ...] = (
    ManagedProject,
    ManagedUser,
    ManagedKey,
    ManagedLink,
    ManagedPrice,
    ManagedDiscount,
    ManagedNameRule,
    ManagedTrackedKey,
    ManagedBudget,
    ManagedAlertChannel,
    ManagedAlertRule,
    ManagedExperiment,
)
