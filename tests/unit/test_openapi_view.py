"""An OpenAPI document in words."""

from typing import Any

import pytest

from webapp.openapi_view import constraint_of, groups_of, kind_of, marked, prose


def words(schema: dict[str, Any]) -> str:
    return kind_of(schema).striptags()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["number", "null"], "minimum": 0}, "number or null"),
        ({"type": "array", "items": {"type": "integer"}}, "array of integer"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map of string to number"),
        ({"type": "object"}, "object"),
        ({"anyOf": [{"$ref": "#/components/schemas/Run"}, {"type": "null"}]}, "Run or null"),
        ({"enum": [True]}, "boolean"),
        ({"enum": [1]}, "anything"),
        ({}, "anything"),
    ],
)
def test_a_type_is_described_in_words(schema: dict[str, Any], said: str) -> None:
    assert words(schema) == said


def test_a_named_type_links_to_where_it_is_described() -> None:
    assert kind_of({"$ref": "#/components/schemas/Run"}) == '<a href="#type-Run">Run</a>'


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, ""),
        ({"minimum": 0}, "at least 0"),
        ({"minimum": 0, "maximum": 9}, "0 to 9"),
        ({"maxLength": 160}, "at most 160 characters"),
        ({"minItems": 1, "maxItems": 1000}, "1 to 1000 items"),
        ({"minItems": 1}, "at least 1 item"),
        ({"enum": ["a", "b"], "default": "a"}, "one of a, b, default a"),
        ({"enum": [True]}, "one of true"),
    ],
)
def test_constraints_are_described_in_words(schema: dict[str, Any], said: str) -> None:
    assert constraint_of(schema) == said


def test_text_between_backticks_is_code() -> None:
    assert marked("Send `a` and `<b>`.") == "Send <code>a</code> and <code>&lt;b&gt;</code>."


def test_prose_is_paragraphs_without_the_line_breaks_of_the_source() -> None:
    assert prose("One\ntwo.\n\nThree.\n") == ["One two.", "Three."]


def test_an_operation_with_several_paths_is_listed_once_at_its_shortest() -> None:
    def operation(summary: str, id_: str) -> dict[str, Any]:
        return {
            "tags": ["A"],
            "summary": summary,
            "description": "",
            "operationId": id_,
            "security": [],
            "responses": {},
        }

    document: dict[str, Any] = {
        "tags": [{"name": "A", "description": ""}],
        "paths": {
            "/long/path/send": {"post": operation("Send", "send")},
            "/send": {"post": operation("Send", "send_2")},
            "/read": {"get": operation("Read", "read")},
        },
        "components": {"securitySchemes": {}},
    }

    [(_, endpoints)] = groups_of(document, "http://localhost")

    assert [(one.path, one.also_at, one.operation["operationId"]) for one in endpoints] == [
        ("/send", ["/long/path/send"], "send_2"),
        ("/read", [], "read"),
    ]
