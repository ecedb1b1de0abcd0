"""Configuration as code: one file for fifty teams, applied whole or not at all, and again without a change."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from runtally.access import invitations
from runtally.access.invitations import Newcomer
from runtally.access.scopes import Grant
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from tests.commands import Finished, run_beside
from tests.serving import Server

TEAMS = 50
SLACK = "https://hooks.slack.com/services/T0/B0/secret-of-"
Command = Callable[..., Awaitable[Finished]]


@pytest.fixture
def team(project_id: str) -> str:
    return project_id


@pytest.fixture
def command(server: Server, admin_key: str, tmp_path: Path) -> Command:
    environment = {"RUNTALLY_URL": server.url, "RUNTALLY_KEY": admin_key, "SLACK": f"{SLACK}env"}

    async def config(*arguments: str, text: str = "") -> Finished:
        file = tmp_path / "runtally.yaml"
        file.write_text(dedent(text))
        return await run_beside(
            "config", *[one.replace("FILE", str(file)) for one in arguments], environment=environment
        )

    return config


def of_teams(team: str) -> str:
    """The file of fifty teams, each with a project, a budget, a member and a channel of Slack."""
    ids = [f"{team}-{number:02}" for number in range(TEAMS)]
    return yaml.safe_dump({
        "teams": [{"team": one, "name": f"Team {one[-2:]}"} for one in ids],
        "projects": [{"projectId": one, "team": one, "retentionDays": 90} for one in ids],
        "groups": [{"projectId": f"team::{one}", "group": f"{one} people", "role": "member"} for one in ids],
        "budgets": [{"projectId": f"team::{one}", "amountUSD": 400.25, "alertPercents": [100, 80]} for one in ids],
        "alertChannels": [{"projectId": f"team::{one}", "address": f"{SLACK}{one}"} for one in ids],
    })  # fmt: skip


async def test_fifty_teams_are_applied_twice_and_nothing_changes_the_second_time(
    command: Command, database: Database, team: str
) -> None:
    text = of_teams(team)

    tried = await command("apply", "FILE", "--dry-run", text=text)
    assert (tried.code, tried.err) == (
        0, "250 made, 0 changed, 0 deleted, 0 unchanged; this was a dry run, nothing was changed.\n",
    ), tried.err  # fmt: skip
    assert await stored(database, team) == (0, 0, 0)
    first = await command("apply", "FILE", text=text)
    assert (first.code, first.err) == (0, "250 made, 0 changed, 0 deleted, 0 unchanged.\n"), first.err
    assert first.out == tried.out
    assert "secret" not in first.out
    audited = await audit_entries(database, team)

    again = await command("apply", "FILE", text=text)

    assert (again.code, again.out, again.err) == (0, "", "0 made, 0 changed, 0 deleted, 250 unchanged.\n")
    assert await stored(database, team) == (TEAMS, TEAMS, TEAMS)
    assert await audit_entries(database, team) == audited


async def test_an_export_of_more_than_a_page_has_everything_once(
    command: Command, admin_key: str, server: Server, team: str
) -> None:
    experiments = [{"projectId": team, "experimentId": f"trial-{number:03}"} for number in range(510)]
    text = yaml.safe_dump({"projects": [{"projectId": team}], "experiments": experiments})
    applied = await command("apply", "FILE", text=text)
    assert applied.code == 0, applied.err

    exported = await command("export", "--project", team)

    assert yaml.safe_load(exported.out)["experiments"] == experiments


async def stored(database: Database, team: str) -> tuple[int, ...]:
    """How many projects, budgets and channels the teams or their projects have."""
    tables = ("projects WHERE id", "budgets WHERE project_id", "alert_targets WHERE project_id")
    async with database.connection() as connection:
        found = [await connection.fetch(f"SELECT count(*) FROM {one} LIKE $1", f"%{team}-%") for one in tables]
    return tuple(int(rows[0][0]) for rows in found)


async def audit_entries(database: Database, team: str) -> int:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT count(*) FROM audit_entries WHERE project_id LIKE $1", f"%{team}%")
    return int(rows[0][0])


async def test_what_is_exported_is_applied_without_a_change_and_what_it_lacks_is_pruned_where_asked(
    command: Command, team: str
) -> None:
    text = f"""\
        projects:
        - &team {{projectId: {team}}}
        budgets:
        - <<: *team
          amountUSD: 12.34
        - {{projectId: {team}, amountUSD: 1, period: day, dimension: model}}
        alertChannels:
        - {{projectId: {team}, address: "${{SLACK}}", weeklyReport: true}}
        alertRules:
        - {{projectId: {team}, errorRatePercent: 2.5}}
        experiments:
        - {{projectId: {team}, experimentId: v2, maxErrorRate: 0.02}}
        keys:
        - {{projectId: {team}, name: production, scopes: [runs:write], expiresAt: "2099-01-01T00:00:00Z"}}
        discounts:
        - {{projectId: {team}, percent: 12.5}}
        prices:
        - {{projectId: {team}, provider: acme, model: large, inputPerMillion: 2.50}}
        """
    made = await command("apply", "FILE", text=text)
    assert made.err == "9 made, 0 changed, 0 deleted, 0 unchanged.\n", made.err
    assert made.out.count("secret, shown this once: rt_") == 1
    assert (await command("apply", "FILE", text=text)).err == "0 made, 0 changed, 0 deleted, 9 unchanged.\n"

    exported = (await command("export", "--project", team)).out
    assert "amountUSD: 12.34" in exported
    assert "secret-of" not in exported
    assert (await command("apply", "FILE", text=exported)).err.startswith("0 made, 0 changed, 0 deleted")

    changed = yaml.safe_load(exported)
    changed["budgets"] = [{"projectId": team, "amountUSD": 20}]
    kept = await command("apply", "FILE", text=yaml.safe_dump(changed))
    assert kept.out == f"~ budgets {team} month\n    amountUSD: 12.34 -> 20\n"
    pruned = await command("apply", "FILE", "--prune", "budgets", text=yaml.safe_dump(changed))
    assert pruned.out == f"- budgets {team} model day\n", pruned.err


async def test_users_have_the_roles_that_the_file_gives_them(
    command: Command, database: Database, team: str, project_id: str
) -> None:
    of_ada, of_bob, root = f"ada@{team}.example", f"bob@{team}.example", f"root@{team}.example"
    for email, is_admin in ((of_ada, False), (root, True)):
        async with database.session() as session:
            newcomer = Newcomer(email, "Somebody", "a hash")
            await invitations.join(session, system_clock(), newcomer, *([Grant(Role.ADMIN, None)] if is_admin else []))
    text = f"""\
        projects:
        - {{projectId: {team}}}
        users:
        - {{projectId: {team}, email: {of_ada.upper()}, role: member}}
        - {{projectId: {team}, email: {of_bob}, role: viewer}}
        """

    made = await command("apply", "FILE", text=text)

    assert made.err == "3 made, 0 changed, 0 deleted, 0 unchanged.\n", made.err
    assert made.out.count("secret, shown this once: ") == 1
    assert "/join?token=" in made.out
    assert (await command("apply", "FILE", text=text)).err == "0 made, 0 changed, 0 deleted, 3 unchanged.\n"
    exported = yaml.safe_load((await command("export", "--project", team)).out)
    assert sorted((one["email"], one["role"]) for one in exported["users"]) == [(of_ada, "member"), (of_bob, "viewer")]
    assert {"email": root, "projectId": "", "role": "admin"} in yaml.safe_load((await command("export")).out)["users"]
    lowered = await command("apply", "FILE", text=text.replace(of_bob, root))
    assert ":5: users[1].email: This is an admin, who has every project" in lowered.err, lowered.err

    fewer = text.replace("member", "viewer").replace(
        f"        - {{projectId: {team}, email: {of_bob}, role: viewer}}\n", ""
    )
    pruned = await command("apply", "FILE", "--prune", "users", text=fewer)

    assert pruned.err == "0 made, 1 changed, 1 deleted, 1 unchanged.\n"
    assert f'~ users {team} {of_ada}\n    role: "member" -> "viewer"\n' in pruned.out
    assert f"- users {team} {of_bob}\n" in pruned.out


NESTED = ", ".join(["*a{0}"] * 9)
REFUSED = {
    **{
        f"aliases of aliases {kind}": (
            f"a0: &a0 {first}\n" + "".join(f"a{n}: &a{n} {each.format(NESTED.format(n - 1))}\n" for n in range(1, 9)),
            [": It has more than 1,000,000 values, each alias (*) counted in full."],
        )
        for kind, first, each in (("in lists", "[x]", "[{}]"), ("in merges", "{x: 1}", "{{<<: [{}]}}"))
    },
    "an unknown kind": ("budget:\n- {projectId: TEAM}\n", [":1: budget: Use one of teams, projects, "]),
    "an unknown field": ("budgets:\n- {projectId: TEAM, amountUSD: 1}\n- projectId: TEAM\n  amount: 1\n", [":4: budgets[1].amount: Object contains unknown field `amount`."]),
    "values that the form refuses": (
        "budgets:\n- projectId: TEAM\n  amountUSD: 0\n  period: year\nexperiments:\n- {projectId: TEAM, experimentId: a, maxErrorRate: 2}\n",
        [":4: budgets[0].period: Choose an hour, a day or a month.", ":3: budgets[0].amountUSD: Give US dollars above 0", ":6: experiments[0].maxErrorRate: must be"],
    ),
    "a project that is not there": ("budgets:\n- {projectId: TEAM-nowhere, amountUSD: 1}\n", [":2: budgets[0]: There is no such project"]),
    "a team that is not there": ("budgets:\n- {projectId: 'team::TEAM-nowhere', amountUSD: 1}\nteams:\n- {team: TEAM}\n", [":2: budgets[0]: There is no team project-"]),
    "a thing twice": ("budgets:\n- &a {projectId: TEAM, amountUSD: 1}\n- *a\n", [": budgets[1]: It is in the document twice."]),
    "no variable": ("alertChannels:\n- {projectId: TEAM, address: '${NONE}'}\n", [":2: alertChannels[0].address: The environment has no NONE."]),
    "no YAML": ("budgets:\n- {projectId: TEAM\n", [":3: This is no YAML"]),
    "no list": ("budgets: 1\n", [": Write a list for each kind"]),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
async def test_a_file_that_is_wrong_is_refused_by_its_lines_and_nothing_of_it_is_applied(
    command: Command, database: Database, team: str, what: str
) -> None:
    text, said = REFUSED[what]
    good = f"projects:\n- {{projectId: {team}-good}}\n"
    refused = await command("apply", "FILE", text=text.replace("TEAM", f"{team}-good") + good)

    assert refused.code == 1
    assert refused.out == ""
    for one in said:
        assert one in refused.err, refused.err
    assert await stored(database, team) == (0, 0, 0)


async def test_two_files_at_once_are_applied_one_after_the_other(
    server: Server, admin_key: str, database: Database, team: str, tmp_path: Path
) -> None:
    environment = {"RUNTALLY_URL": server.url, "RUNTALLY_KEY": admin_key}
    files = [tmp_path / "one.yaml", tmp_path / "other.yaml"]
    for number, file in enumerate(files, start=1):
        file.write_text(of_teams(team).replace("400.25", f"{number}.5"))

    found = await asyncio.gather(*(run_beside("config", "apply", str(one), environment=environment) for one in files))

    assert [one.code for one in found] == [0, 0], [one.err for one in found]
    assert sorted(one.err.partition(" ")[0] for one in found) == ["0", "250"]
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT DISTINCT amount_usd FROM budgets WHERE project_id LIKE $1", f"%{team}-%")
    assert len(rows) == 1


async def test_a_server_that_is_not_there_and_a_key_that_is_wrong_are_said(command: Command, server: Server) -> None:
    away = await command("export", "--url", "http://127.0.0.1:1")
    refused = await command("export", "--key", "rt_wrong")

    assert (away.code, refused.code) == (1, 1)
    assert "http://127.0.0.1:1 does not answer" in away.err
    assert "This key" in refused.err
