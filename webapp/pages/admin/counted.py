"""Work over stored runs that counts first, and changes them once an admin starts it: its list, and the page of each."""

from typing import ClassVar

from msgspec import Struct

from runtally.models.audit import Erasure
from runtally.models.price import Repricing
from webapp.form import Form
from webapp.rendering import Page
from webapp.report import Table


class Act(Struct, frozen=True):
    """A possible next action."""

    name: str
    label: str
    kind: str = ""


class WorkRow(Struct, frozen=True):
    """Work as it is stored, and how far it is."""

    work: Erasure | Repricing
    url: str
    name: str
    at: str
    is_moving: bool
    """Whether it goes on by itself, so that the page should refresh itself."""
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
        return f"{self.kind} · {self.one.work.state}"
