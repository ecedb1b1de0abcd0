"""The specs that charts are filled into."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from webapp.charts import specs
from webapp.charts.axes import Ticks
from webapp.charts.look import OTHER, SLOTS

ALL = [specs.bars(), specs.line("bad"), specs.line("accent"), specs.lines()]
TICKS = Ticks((0.0, 1.0), ("0", "1"))
PAINTED = re.compile(r"color|fill|stroke|background", re.IGNORECASE)
MEASURES = ("strokeWidth", "strokeDash", "strokeJoin", "strokeCap")


def strings_painted(value: object, key: str = "") -> Iterator[str]:
    """Every text in the spec that stands where a colour goes."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from strings_painted(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_painted(inner, key)
    elif isinstance(value, str) and (key == "range" or (PAINTED.search(key) and key not in MEASURES)):
        yield value


@pytest.mark.parametrize("spec", ALL)
def test_colours_are_variables_of_the_theme(spec: specs.Spec) -> None:
    painted = set(strings_painted(json.loads(spec.filled(1, TICKS, TICKS, {}))))

    assert painted
    assert {
        text for text in painted if not re.fullmatch(r"var\(--[a-z0-9]+\)|transparent|url\(#unfinished\)", text)
    } == set()


def test_every_slot_has_its_colour() -> None:
    text = specs.bars().filled(1, TICKS, TICKS, {})

    assert all(f'"var(--{slot})"' in text for slot in (*SLOTS, OTHER))


def test_a_request_puts_in_ticks_width_and_rows() -> None:
    spec = json.loads(specs.bars().filled(28, TICKS, Ticks((0.0, 9.0), ("$0", "$9")), {"segments": [{"i": 0}]}))

    values = {parameter["name"]: parameter.get("value") for parameter in spec["params"]}
    assert values["ends"] == [0, 28]
    assert values["top"] == 9
    assert values["y_labels"] == ["$0", "$9"]
    assert spec["datasets"] == {"segments": [{"i": 0}]}


@pytest.mark.parametrize("spec", ALL)
def test_nothing_is_smoothed(spec: specs.Spec) -> None:
    assert "interpolate" not in spec.filled(1, TICKS, TICKS, {})


@pytest.mark.parametrize("spec", ALL)
def test_axes_have_no_titles_and_no_vertical_grid(spec: specs.Spec) -> None:
    config = json.loads(spec.filled(1, TICKS, TICKS, {}))["config"]

    assert config["axis"]["title"] is None
    assert config["axisX"]["grid"] is False


async def test_once_specs_are_built_no_page_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    specs.building_thread.cache_clear()
    await specs.prepare()
    assert specs.are_ready()
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    every = (*ALL, specs.line("good"))

    for spec in every:
        filled = json.loads(spec.filled(1, TICKS, TICKS, {}))
        assert filled["$schema"].endswith(".json")
        assert "layer" in filled or {"mark", "encoding"} <= filled.keys()
    assert "var(--good)" in specs.line("good").filled(1, TICKS, TICKS, {})


def test_who_draws_charts_has_the_same_bytes_in_every_process_and_never_altair_in_memory() -> None:
    script = (
        "import json, sys; from webapp.charts.specs import built; print(json.dumps([built(), 'altair' in sys.modules]))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603  # Ours.

    assert json.loads(done.stdout) == [specs.built(), False]
    assert specs.built().keys() == {"bars", "line", "lines"}
