"""Read the JSON body or the query of a request as what its route documents."""

import re
from collections.abc import Callable
from typing import TypeVar, cast

import msgspec
from quart import request

from runtally.errors import Detail, InvalidJson, InvalidPayload

T = TypeVar("T", bound=msgspec.Struct)
_PLACE = re.compile(r"`\$\.?([^`]*)`")
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(.*)`", re.DOTALL)
# A name that can be no field may be anything.
_NAME = re.compile(r"[A-Za-z]{1,64}")


async def sent_as(kind: type[T]) -> T:
    """Return the body of the request. Raises `InvalidJson`, and `InvalidPayload` that names the field but no value."""
    return decoded(cast(bytes, await request.get_data()), kind)


def asked_as(kind: type[T]) -> T:
    """Return the query of the request. Raises `InvalidPayload` that names the parameter but no value."""
    refuse_nul()
    return _read(kind, lambda: msgspec.convert(request.args.to_dict(), kind, strict=False))


def refuse_nul() -> None:
    """Refuse a parameter with NUL, which no stored text has. Raises `InvalidPayload` that names the parameter."""
    if odd := [name for name, value in request.args.items() if "\0" in value]:
        raise InvalidPayload(
            details=tuple(Detail(name, "Leave out the NUL character.") for name in odd if _NAME.fullmatch(name))
        )


def decoded(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode JSON. Raises `InvalidJson`, and `InvalidPayload` that names the field but no value."""
    return _read(kind, lambda: msgspec.json.decode(body, type=kind))


def _read(kind: type[T], read: Callable[[], T]) -> T:
    try:
        return read()
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidPayload(details=(_refusal_of(kind, str(error)),)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidJson from None


def _refusal_of(kind: type[msgspec.Struct], error: str) -> Detail:
    """Return the field that is wrong, missing or unknown, and why."""
    why, _, at = error.partition(" - at ")
    place, field = _PLACE.search(at), _FIELD.fullmatch(why)
    if field and not _NAME.fullmatch(field[1]):
        field, why = None, "Object contains an unknown field"
    if why.startswith("Invalid enum value"):
        types = [field.type for field in msgspec.structs.fields(kind) if place and field.encode_name == place[1]]
        choices = msgspec.json.schema(types[0])["enum"] if types else ["those that the API reference has"]
        why = f"Use one of {', '.join(choices)}"
    names = [found[1] for found in (place, field) if found and found[1]]
    return Detail(".".join(names), f"{why.partition(', got ')[0]}.")
