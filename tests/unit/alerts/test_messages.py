"""What messages of channels link to."""

import json
from datetime import UTC, datetime
from types import ModuleType

import pytest

from runtally.alerts.channel import Notice
from runtally.alerts.channels import discord, slack, teams
from runtally.alerts.message import ProjectLink, trial_message
from runtally.ids import uuid7

NOW = datetime(2026, 11, 30, 8, 3, tzinfo=UTC)


@pytest.mark.parametrize("channel", [discord, slack, teams])
@pytest.mark.parametrize(("project_id", "label"), [("p", "Open the project"), ("", "Open the overview")])
def test_a_link_names_the_page_that_it_leads_to(channel: ModuleType, project_id: str, label: str) -> None:
    message = trial_message(ProjectLink(project_id, "Names", "https://runtally.example/"), "x", NOW)
    notice = Notice(uuid7(), project_id, message.kind, message.level, message.title, message.text, message.document)

    assert label in json.dumps(channel.message(notice))
