"""What the pages on training say of settings and thresholds is what the code has."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest

from pluralrm.metrics.watch import WatchClaim
from pluralrm.training.measures import Thresholds
from pluralrm.training.settings import GrpoSettings, PpoSettings, TrainingSettings

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str, heading: str) -> list[tuple[str, str, str]]:
    """Return names, defaults and text of each entry of the first list under a heading."""
    [_, after] = (DOCS / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")
    lines = after[after.index("\n- ") :].lstrip("\n").split("\n\n")[0].splitlines()
    entries = [re.fullmatch(r"- (.*?)(?: \[(.*?)\])?: (.*)", line) for line in lines]
    assert all(entries)
    return [(entry[1], entry[2] or "", entry[3]) for entry in entries if entry]


@pytest.mark.parametrize(
    ("page", "heading", "settings"),
    [("training.md", "Settings", PpoSettings()), ("training.md", "Settings of GRPO", GrpoSettings())],
)
def test_a_page_names_every_setting_with_its_default(page: str, heading: str, settings: TrainingSettings) -> None:
    told: dict[str, str] = {}
    for keys, defaults, _ in rows(page, heading):
        names = re.findall(r"`(\w+)`", keys)
        values = re.split(r", (?!\d{3})", defaults)
        told |= dict(zip(names, values if len(values) == len(names) else values * len(names), strict=True))
    assert told.keys() == asdict(settings).keys()
    for name, value in asdict(settings).items():
        assert type(value)(told[name].replace(",", "")) == value, name


def test_the_page_names_every_alarm_with_its_threshold() -> None:
    entries = rows("training.md", "Alarms")
    alarms = {name: text for names, _, text in entries for name in re.findall(r"`([\w ]+)`", names)}
    own = {"length", "repetition", "cut", "masked", "constant", "reward", "ungraded"}
    assert set(alarms) == own | {f"watch {claim}" for claim in get_args(WatchClaim)}
    limits = Thresholds()
    assert f"{limits.length:g} times" in alarms["length"]
    assert all(f"{limits.share:.0%} more" in alarms[name] for name in ("repetition", "cut", "masked"))
    assert limits.window == 5
    assert "last five steps" in alarms["length"]
    assert f"{limits.level:.0%} interval" in alarms["reward"]
