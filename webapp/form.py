"""A form with the values that were sent and their errors."""

import hashlib
from collections.abc import Mapping
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace
from quart import request

from api import serves
from runtally.errors import BodyTooLarge, RuntallyError

# All fields of the longest list of prices, and more.
MAX_FORM_BYTES = 256 * 1024
MAX_FIELDS = 4000
# Slow to take apart, and only the forms that upload a file are sent like this by our pages.
MAX_MULTIPART_BYTES = 32 * 1024
_FILE_FORMS = {"price_catalogue.upload", "admin_bills.add"}
VERSION = "version"
"""The field that says which values a form showed."""
_CHANGED = (
    "Someone else changed this after you opened the page. Compare what is stored now, then save again to replace it."
)
URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_MAX_BYTES = {
    URLENCODED: MAX_FORM_BYTES,
    "application/x-url-encoded": MAX_FORM_BYTES,
    _MULTIPART: MAX_MULTIPART_BYTES,
}


class Form(Struct, frozen=True):
    """The values and errors of a form. `id` distinguishes its fields from those of another form on the page."""

    id: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    """Errors by field; one that concerns no field is under the empty name."""

    @classmethod
    def showing(cls, id_: str, values: Mapping[str, str], of: object = None) -> "Form":
        """Return the form of stored values, with a version that tells whether they, or all of `of`, are still the same."""
        return cls(id_, {name: (value,) for name, value in values.items()}).at_version(values if of is None else of)

    def at_version(self, of: object) -> "Form":
        """Return the form as one that shows this; equal values have an equal `repr`."""
        seen = repr(of).encode(errors="surrogatepass")
        return replace(self, values={**self.values, VERSION: (hashlib.sha256(seen).hexdigest()[:16],)})

    def is_behind(self, stored: "Form") -> bool:
        """Return whether it showed something else than what is stored. A program's form, without a version, never did."""
        return self.value(VERSION) not in {"", stored.value(VERSION)}

    def conflict_with(self, stored: "Form", **choices: Mapping[str, str]) -> "Form | None":
        """Return the form with what is stored beside each field that differs, if that changed since it was shown.

        It has the new version, so that it can be saved knowingly. `choices` has the words for the values of a field.
        """
        if not self.is_behind(stored):
            return None
        differing = {name: text for name in stored.values if (text := stored.value(name)) != self.value(name)}
        version = differing.pop(VERSION)
        if not differing:
            return None
        now = {
            name: f"Stored now: {choices.get(name, {}).get(text, text) or 'nothing'}."
            for name, text in differing.items()
        }
        return replace(self, values={**self.values, VERSION: (version,)}, errors={"": _CHANGED, **now})

    @property
    def sent(self) -> Mapping[str, str]:
        """The value of each field, where a field has one."""
        return {name: self.value(name) for name in self.values}

    @property
    def only_wrong_field(self) -> str:
        """The name of the field that is wrong; empty where none is, or more than one."""
        return next(iter(self.errors)) if len(self.errors) == 1 else ""

    def value(self, name: str, otherwise: str = "") -> str:
        return self.values[name][0] if self.values.get(name) else otherwise

    def chosen(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def field_id(self, name: str) -> str:
        return f"{self.id}-{name}" if self.id else name

    def refused(self, error: RuntallyError, at: str = "") -> "Form":
        """Return the form with the error at its fields, or at this field if it names none."""
        found = {detail.path: detail.message for detail in error.details}
        return replace(self, errors=found or {at: error.message})


async def sent_form(id_: str = "") -> Form:
    """Read the form that was sent, without NUL, which Postgres does not store."""
    sent = await request.form
    return Form(id_, {name: tuple(text.replace("\0", "") for text in sent.getlist(name)) for name in sent})


async def refuse_large_forms() -> None:
    """Refuse large forms, which anybody may send and whose parsing would delay all requests. Raises `BodyTooLarge`.

    Files may be as large as any body: who may send one was asked before.
    """
    most = _MAX_BYTES.get(request.mimetype)
    if most is None or serves(request.path) or (request.mimetype == _MULTIPART and request.endpoint in _FILE_FORMS):
        return
    if (request.content_length or 0) <= most:
        sent = cast(bytes, await request.get_data())
        if len(sent) <= most and sent.count(b"&") < MAX_FIELDS:
            return
    raise BodyTooLarge
