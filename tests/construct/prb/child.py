"""Builds and releases the world's set in its own process: `python -m tests.construct.prb.child URL DIR RECORDS`."""

import sys
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.construct.pipeline import Folder, build, open_pools
from pluralrm.construct.prb import Rules, prb_pipeline, roles
from pluralrm.construct.prb.card import about, editions
from pluralrm.construct.release import release
from pluralrm.http import Settings
from tests.construct.prb.worlds import World, question, text_of

RULES = Rules(rejected="both")


def flawed() -> World:
    """Return a world in which some texts are refused once, one record always, and one planner's list at first."""
    marks = {("q001", "published", 0): {"adherence": 2}, ("q004", "contrary", 0): {"opposite": 0}}
    always = {("q005", "chosen", attempt): {"factuality": 1} for attempt in range(3)}
    return World(texts={("q002", "chosen", 0): text_of("q002", "chosen", 0, 130)}, marks={**marks, **always})


def main(url: str, place: str, records: str) -> int:
    models = [[f"{name},url={url}"] for name in "wjp"]
    sources = list(map(question, range(int(records))))
    with (
        Folder(Path(place)) as folder,
        open_pools(roles(*models), settings=folder.settings(Settings(concurrency=4))) as pools,
    ):
        built = build(prb_pipeline(RULES), sources, folder, pools)
        if not built.complete:
            return 3
        card = load_benchmark("pocket-prb").card
        release(built, editions(built.kept, RULES.kinds), about(built, RULES, card, licence="CC0-1.0"))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
