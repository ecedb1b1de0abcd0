"""Converters of ids and numbers in the paths of routes."""

from urllib.parse import quote

from werkzeug.routing import BaseConverter, IntegerConverter, ValidationError

from runtally.fields import MAX_NAME, MAX_ROW, is_project_id, parse_whole, trimmed
from runtally.ids import id_in, path_of


class ProjectIdConverter(BaseConverter):
    """Converts a project id in a path: any text, including slashes and dots."""

    part_isolating = False
    regex = r"[\s\S]+"
    weight = 200

    def to_python(self, value: str) -> str:
        id_ = trimmed(id_in(value))
        if not self._may_be(id_):
            raise ValidationError
        return id_

    def _may_be(self, id_: str) -> bool:
        return is_project_id(id_)

    def to_url(self, value: str) -> str:
        return path_of(value)


class IdConverter(ProjectIdConverter):
    """Converts the id of a run or trace in a path, in the same way as a project's."""

    def _may_be(self, id_: str) -> bool:
        return 0 < len(id_) <= MAX_NAME and "\0" not in id_


class RowConverter(IntegerConverter):
    """Converts the number of a row in a path, which Postgres must be able to count up to."""

    def to_python(self, value: str) -> int:
        number = parse_whole(value, MAX_ROW)
        if number is None:
            raise ValidationError
        return number


class SegmentConverter(BaseConverter):
    """Converts any id as one segment of a path, so that a path can have two ids.

    As in JSON Pointer, `~1` is a slash and `~0` a tilde. Dots that a browser would resolve have a `~.` before them.
    """

    def to_python(self, value: str) -> str:
        id_ = trimmed(unescaped(value))
        if not id_ or "\0" in id_:
            raise ValidationError
        return id_

    def to_url(self, value: str) -> str:
        return quote(escaped(value), safe="~")


def escaped(text: str) -> str:
    """Return the text without slashes, so that it can stand between them."""
    text = text.replace("~", "~0").replace("/", "~1")
    return f"~.{text}" if text in {".", ".."} else text


def unescaped(text: str) -> str:
    return text.removeprefix("~.").replace("~1", "/").replace("~0", "~")
