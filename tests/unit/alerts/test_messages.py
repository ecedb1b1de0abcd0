"""What messages of channels show and link to."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from email.message import EmailMessage
from types import ModuleType

import pytest

from runtally.alerts.budget_alerts import spending_message, values_message
from runtally.alerts.channel import Notice
from runtally.alerts.channels import discord, slack, teams
from runtally.alerts.channels.mail import Mailer
from runtally.alerts.message import (
    MOST_OF_NAME,
    Message,
    ModelCost,
    ProjectLink,
    anomaly_message,
    quoted,
    report_message,
    trial_message,
)
from runtally.alerts.posting import Answer, Poster
from runtally.alerts.registry import Channels
from runtally.alerts.rules import UnusualHour
from runtally.alerts.week import ModelSpend, Week, WeeklySpend
from runtally.budgets.spending import BudgetState, Spending
from runtally.budgets.use import BudgetTerms
from runtally.ids import uuid7
from runtally.models.alert import TargetKind
from runtally.models.budget import EACH_VALUE, BudgetPeriod
from runtally.settings import SmtpTls

NOW = datetime(2026, 11, 30, 8, 3, tzinfo=UTC)


@pytest.mark.parametrize("channel", [discord, slack, teams])
@pytest.mark.parametrize(("project_id", "label"), [("p", "Open the project"), ("", "Open the overview")])
def test_a_link_names_the_page_that_it_leads_to(channel: ModuleType, project_id: str, label: str) -> None:
    message = trial_message(ProjectLink(project_id, "Names", "https://runtally.example/"), "x", NOW)
    notice = Notice(uuid7(), project_id, message.kind, message.level, message.title, message.text, message.document)

    assert label in json.dumps(channel.message(notice))


# A line of its own, a direction turned round, an address with and without its scheme, and an end of the quotation.
HOSTILE = (
    'x\n\u2028All paid\u202e \x1b[0m\u200b http://evil.example/a evil.example www.evil.co.uk evil\u3002example" now'
)
PAGE = "https://runtally.example/projects/p"
LINK = ProjectLink(HOSTILE, HOSTILE, PAGE)
ADDRESSES = {
    TargetKind.EMAIL: "ada@example.com",
    TargetKind.SLACK: "https://hooks.slack.com/services/T/B/x",
    TargetKind.DISCORD: "https://discord.com/api/webhooks/1/x",
    TargetKind.TEAMS: "https://x.api.powerplatform.com/x",
    TargetKind.PAGERDUTY: f"https://events.pagerduty.com/v2/enqueue?routing_key={'a' * 32}",
    TargetKind.WEBHOOK: "https://hooks.example/x",
}


@dataclass(frozen=True, slots=True)
class Kept(Mailer):
    """A mailer that keeps what it would send."""

    mails: list[EmailMessage] = field(default_factory=list)

    def _deliver(self, mail: EmailMessage) -> None:
        self.mails.append(mail)


class Posts(Poster):
    """A poster that keeps what it would post."""

    def __init__(self) -> None:
        super().__init__(allow_private=False)
        self.bodies: list[bytes] = []

    async def post(self, _address: str, body: bytes, _headers: Mapping[str, str] | None = None) -> Answer:
        self.bodies.append(body)
        return Answer(200, b"1")


def hostile_messages() -> Iterator[Message]:
    """Write an alert of each kind that has names."""
    one = Decimal(1)
    spent = Spending(HOSTILE, one, 0)
    for value, write in ((HOSTILE, spending_message), (EACH_VALUE, None)):
        terms = BudgetTerms("p", "user", value, BudgetPeriod.MONTH, one, (100,))
        state = BudgetState(terms, NOW, (spent,))
        yield write(LINK, state, 100, [spent], NOW) if write else values_message(LINK, state, 100, [spent], 1, NOW)
    yield anomaly_message(LINK, UnusualHour(NOW, one, one, one), [ModelCost(HOSTILE, HOSTILE, one)], NOW)
    spend = ModelSpend(HOSTILE, HOSTILE, Decimal(9), one, 1, 0)
    yield report_message(LINK, WeeklySpend("p", Week.reported_at(NOW), (spend,)), NOW)
    yield trial_message(LINK, "x", NOW)


def test_a_value_with_runs_that_have_no_price_has_spent_so_much_or_more() -> None:
    terms = BudgetTerms("p", "user", EACH_VALUE, BudgetPeriod.MONTH, Decimal(1), (100,))
    reached = [Spending("ada", Decimal(3), 2), Spending("bob", Decimal(2), 0)]

    message = values_message(LINK, BudgetState(terms, NOW, tuple(reached)), 100, reached, 1, NOW)

    assert 'At 100% or more: "ada" $3.00 or more, "bob" $2.00.' in message.text


def texts_of(found: object) -> list[str]:
    if isinstance(found, dict):
        return [text for name, value in found.items() if name != "data" for text in texts_of(value)]
    return [text for one in found for text in texts_of(one)] if isinstance(found, list) else [str(found)]


@pytest.mark.parametrize("kind", TargetKind)
async def test_no_name_in_an_alert_writes_a_line_turns_the_text_or_becomes_a_link(kind: TargetKind) -> None:
    posts, mailer = Posts(), Kept("h", 25, "r@example.com", SmtpTls.OFF, None, None)
    for message in hostile_messages():
        notice = Notice(uuid7(), HOSTILE, message.kind, 100, message.title, message.text, message.document)
        outcome = await Channels(posts, mailer, None).send(kind, ADDRESSES[kind], "whsec_AAAA", notice, NOW)
        assert outcome.is_taken, outcome.answer

    shown = [text for body in posts.bodies for text in texts_of(json.loads(body))]
    shown += [text for mail in mailer.mails for text in (str(mail["Subject"]), mail.get_content())]
    assert sum("All paid" in text for text in shown) >= len(list(hostile_messages()))
    for text in shown:
        own = text.replace("http://adaptivecards.io", "").replace(PAGE, "").replace("\\", "")
        assert not re.search(r"://|evil\.|www\.", own), text
        assert {each for each in text if unicodedata.category(each).startswith(("C", "Zl", "Zp"))} <= {"\n"}
        assert not re.search(r"^\W*All paid", text, re.MULTILINE), text


def test_a_quoted_name_is_short_and_names_of_models_stay_as_they_are() -> None:
    assert quoted("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == '"us.anthropic.claude-sonnet-4-5-20250929-v1:0"'
    assert quoted("gpt-4.1") == '"gpt-4.1"'
    assert quoted("see evil.example.") == '"see evil[.]example."'
    assert quoted("xn--80ak6aa92e.xn--p1ai") == '"xn--80ak6aa92e[.]xn--p1ai"'
    # Where it is cut, it ends as an address does.
    assert quoted(f"{'x' * 70} evil.com1234") == f'"{"x" * 70} evil[.]com…"'
    assert len(quoted("x" * 500)) == MOST_OF_NAME + 2
