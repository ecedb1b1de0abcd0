"""Two experiments side by side."""

import pytest
from quart.typing import TestClientProtocol as Browser

from tests.pages.conftest import Post, ago
from tests.pages.experiments import run_of, runs_of
from tests.pages.looking import html_of, text_of
from webapp.pages.experiments.experiments import key_of


async def test_two_experiments_stand_side_by_side(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        *(run_of("old", costUSD=0.02 + 0.001 * (number % 5), latencyMs=900) for number in range(60)),
        *(run_of("new", costUSD=0.01 + 0.001 * (number % 5), latencyMs=900) for number in range(60)),
    )
    url = f"/experiments/compare?a={key_of(project_id, 'old')}&b={key_of(project_id, 'new')}"

    text = text_of(await html_of(reader, url))

    # By cost per run of 0.012 and 0.022, as Compare says it of any runs.
    assert "clear differences Cost per run \u221245.5% Cost per success" in text
    assert "Error rate 0 points: No clear difference" in text


async def test_a_comparison_is_over_the_range_that_is_chosen(reader: Browser, post: Post, project_id: str) -> None:
    await post(*runs_of("old", 2), *runs_of("old", 3, timestamp=ago(days=3)), *runs_of("new"))
    url = f"/experiments/compare?a={key_of(project_id, 'old')}&b={key_of(project_id, 'new')}"

    assert "Runs \u221280.0% 5 1" in text_of(await html_of(reader, url))
    assert "Runs \u221250.0% 2 1" in text_of(await html_of(reader, f"{url}&range=24h"))


@pytest.mark.parametrize("query", ["", "?a=x&b=y", "?a=%00/x&b=a/b", "?range=1y"])
async def test_without_two_experiments_it_asks_for_them(reader: Browser, query: str) -> None:
    text = text_of(await html_of(reader, f"/experiments/compare{query}"))

    assert "Choose two experiments." in text


async def test_experiments_of_different_projects_are_said_to_be(reader: Browser, post: Post, project_id: str) -> None:
    other = f"{project_id}-other"
    await post(*runs_of("old", 2), *runs_of("new", 2))
    await post(*runs_of("new", 2), to=other)
    url = f"/experiments/compare?a={key_of(project_id, 'old')}&b="
    said = f"old is of {project_id} and new of {other}: their runs may do different work."

    assert said in text_of(await html_of(reader, f"{url}{key_of(other, 'new')}"))
    assert "different work" not in text_of(await html_of(reader, f"{url}{key_of(project_id, 'new')}"))
