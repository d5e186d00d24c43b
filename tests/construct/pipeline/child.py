"""Builds and releases the small pipeline in a process of its own: `... child URL DIR RECORDS`."""

import sys
from pathlib import Path

from pluralrm.construct.pipeline import build
from pluralrm.http import Settings
from tests.construct.pipeline.worlds import PIPELINE, flour, opened


def main(url: str, place: str, count: str) -> int:
    with opened(Path(place), url, settings=Settings(concurrency=4)) as (folder, pools):
        built = build(PIPELINE, flour(int(count)), folder, pools)
        if built.complete:
            from pluralrm.construct.release import release  # a child that is killed before need not load the audit
            from tests.construct.pipeline.released import released

            release(built, *released(built))
    return 0 if built.complete else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
