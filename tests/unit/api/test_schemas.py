"""Types to JSON Schema."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.schemas import fields_of, schemas_of
from runtally.ingest.wire import Batch, WireRun


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Query(msgspec.Struct):
    """Parameters."""

    name: Annotated[str, Meta(description="A name.", min_length=1)]
    colour: Annotated[Colour, Meta(description="A colour.")] = Colour.RED
    maybe: Annotated[Colour | None, Meta(description="Perhaps a colour.")] = None
    limit: Annotated[int, Meta(ge=1)] | UnsetType = UNSET


class Thing(msgspec.Struct):
    """A thing."""

    colour: Colour | None = None
    size: Annotated[int, Meta(ge=0)] | None = None
    ok: Literal[True] = True


def test_parameters_are_inlined_with_their_defaults_and_without_null() -> None:
    fields = {name: (schema, required) for name, schema, required in fields_of(Query)}

    assert fields == {
        "name": ({"type": "string", "minLength": 1, "description": "A name."}, True),
        "colour": (
            {"type": "string", "enum": ["blue", "red"], "description": "A colour.", "default": "red"},
            False,
        ),
        "maybe": ({"type": "string", "enum": ["blue", "red"], "description": "Perhaps a colour."}, False),
        "limit": ({"type": "integer", "minimum": 1}, False),
    }


def test_a_value_or_null_is_one_of_two_types_and_has_no_default_of_null() -> None:
    _, named = schemas_of([Thing])

    assert named["Thing"]["properties"]["size"] == {"type": ["integer", "null"], "minimum": 0}
    assert named["Thing"]["properties"]["colour"] == {
        "anyOf": [{"$ref": "#/components/schemas/Colour"}, {"type": "null"}]
    }


def test_the_run_as_sent_is_called_a_run() -> None:
    (schema, batch), named = schemas_of([WireRun, Batch])

    assert schema == {"$ref": "#/components/schemas/Run"}
    assert batch == {"$ref": "#/components/schemas/Batch"}
    assert named["Run"]["title"] == "Run"
    assert named["Run"]["properties"]["tokens"]["anyOf"][0] == {"$ref": "#/components/schemas/Tokens"}
    assert "Wire" not in str(named)


def test_every_field_of_a_run_has_a_description() -> None:
    _, named = schemas_of([WireRun])

    fields = named["Run"]["properties"].values()
    assert len(fields) > 20
    assert all(len(field["description"]) > 10 for field in fields)
