"""The links between the pages of an installation."""

from msgspec import Struct
from quart import url_for

from webapp.pages.panel.narrowing import Choice

SECTIONS = (
    ("Prices", "prices.prices"),
    ("Bills", "admin_bills.bills"),
    ("Budgets", "admin_budgets.budgets"),
    ("Users", "admin_users.users_list"),
    ("Teams", "admin_teams.teams_list"),
    ("Erasures", "admin_erasures.erasures_list"),
    ("Audit log", "admin_audit.audit"),
    ("Clients", "admin_clients.clients"),
    ("Health", "admin_health.health"),
)


class Frame(Struct, frozen=True):
    """The heading, and links to the other pages."""

    heading: str
    sections: tuple[Choice, ...]


def frame(endpoint: str) -> Frame:
    """Return the frame of the page at this endpoint."""
    sections = tuple(Choice(name, url_for(section), section == endpoint) for name, section in SECTIONS)
    heading = next(section.name for section in sections if section.is_chosen)
    return Frame(heading, sections)
