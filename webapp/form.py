"""A form between its page and its sender: what was filled in, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from quart import request

from runtally.errors import RuntallyError


@dataclass(frozen=True, slots=True)
class Form:
    """`id` tells the fields of one form from those of another on the same page."""

    id: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    """By field; what is about no field in particular is under the empty name."""

    def value(self, name: str, otherwise: str = "") -> str:
        return self.values[name][0] if self.values.get(name) else otherwise

    def chosen(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def field_id(self, name: str) -> str:
        return f"{self.id}-{name}" if self.id else name

    def refused(self, error: RuntallyError, at: str = "") -> "Form":
        """The form with the error at its fields, or at this one if it names none."""
        found = {detail.path: detail.message for detail in error.details}
        return replace(self, errors=found or {at: error.message})


async def sent_form(id_: str = "") -> Form:
    """Without NUL, which no text has and Postgres does not keep."""
    sent = await request.form
    return Form(id_, {name: tuple(text.replace("\0", "") for text in sent.getlist(name)) for name in sent})
