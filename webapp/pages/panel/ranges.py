"""The range control of every page with a time range: presets, calendar ranges and a custom one."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from webapp import zone
from webapp.ranges import Calendar


class Choice(Struct, frozen=True):
    """A link to another view of the same page."""

    name: str
    url: str
    is_chosen: bool


class Option(Struct, frozen=True):
    """A choice of a select field."""

    value: str
    name: str
    is_chosen: bool


class RangeMenu(Struct, frozen=True):
    """The usual ranges as a switch; a menu of the others, with a form."""

    usual: tuple[Choice, ...]
    others: tuple[Choice, ...]
    is_custom: bool
    since: str
    until: str
    error: str | None
    """What is wrong with the time that was asked for."""
    action: str
    hidden: tuple[tuple[str, str], ...]
    """What else the address says, and the form must send along."""

    @property
    def label(self) -> str:
        """The label of the closed menu."""
        if self.is_custom:
            return "Custom"
        return next((one.name for one in self.others if one.is_chosen), "More")

    @property
    def is_chosen(self) -> bool:
        return self.is_custom or any(one.is_chosen for one in self.others)

    @property
    def longer(self) -> tuple[Choice, ...]:
        """The ranges that an empty page offers: the longest preset, and a year, in which runs that ended long ago are found."""
        year = next((one for one in self.others if one.name == Calendar.YEAR.label), None)
        if year is None or year.is_chosen:
            return ()
        year = replace(year, name="12 months")
        return (year,) if self.usual[-1].is_chosen else (self.usual[-1], year)


def range_menu(  # noqa: PLR0913  # A switch, a menu and a form.
    usual: tuple[Choice, ...],
    others: tuple[Choice, ...],
    *,
    is_custom: bool,
    query: Mapping[str, str],
    action: str,
    error: str | None = None,
) -> RangeMenu:
    """Return the menu; the query says which time stands in the form, in UTC, and what else its page is about."""
    hidden = dict(zone.for_fields(query))
    since, until = hidden.pop("since", ""), hidden.pop("until", "")
    hidden.pop("range", None)
    return RangeMenu(usual, others, is_custom, since, until, error, action, tuple(hidden.items()))


def calendar_choices(chosen: Calendar | None, url_of: Callable[[Calendar], str]) -> tuple[Choice, ...]:
    return tuple(Choice(one.label, url_of(one), one is chosen) for one in Calendar)
