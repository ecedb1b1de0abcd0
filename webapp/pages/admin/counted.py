"""Work over stored runs that counts first, and changes them once an admin starts it: its list, and the page of each."""

from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from runtally.models.audit import Erasure
from runtally.models.price import Repricing
from webapp import formats
from webapp.form import Form
from webapp.rendering import Page
from webapp.report import Table


class Act(Struct, frozen=True):
    """A possible next action."""

    name: str
    label: str
    kind: str = ""


class WorkRow(Struct, frozen=True):
    """Work, and how far it is."""

    url: str
    name: str
    state: str
    author: str
    at: str
    is_moving: bool
    """Whether it goes on by itself, so that the page should refresh itself."""
    problem: str | None
    seen: int
    whole: int
    progress: str
    """How far it is, in words; empty where it does not go on."""


class WorkPage(Page, frozen=True):
    """What was counted or changed, how far that is, and what can be done next."""

    kind: ClassVar[str]

    one: WorkRow
    says: str
    acts: tuple[Act, ...]
    table: Table
    form: Form

    @property
    def document_title(self) -> str:
        return f"{self.kind} · {self.one.state}"


def work_row(  # noqa: PLR0913  # What the kinds of work say each in their own way has its name at the call.
    erasure: Erasure | Repricing, now: datetime, *, url: str, name: str, is_moving: bool, whole: int, progress: str
) -> WorkRow:
    at, problem = formats.ago(erasure.created_at, now), erasure.problem if isinstance(erasure, Erasure) else None
    return WorkRow(url, name, erasure.state, erasure.author, at, is_moving, problem, erasure.seen, whole, progress)
