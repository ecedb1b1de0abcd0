"""Read the JSON body of a request as what its route documents."""

import re
from typing import TypeVar, cast

import msgspec
from quart import request

from runtally.errors import Detail, InvalidJson, InvalidPayload

T = TypeVar("T", bound=msgspec.Struct)
_FIELD = re.compile(r"`\$\.(\w+)`")


async def sent_as(kind: type[T]) -> T:
    """Return the body of the request. Raises `InvalidJson`, and `InvalidPayload` that names the field but no value."""
    try:
        return msgspec.json.decode(cast(bytes, await request.get_data()), type=kind)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        where = (Detail(field[1], "Not of the kind that the API reference says."),) if field else ()
        raise InvalidPayload("Send the fields that the API reference has, and no others.", details=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidJson from None
