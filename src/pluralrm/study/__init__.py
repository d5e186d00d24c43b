"""A whole experiment from one file: models on benchmarks, what they do to a policy, does the one predict the other.

>>> from pluralrm.study import study
>>> study("experiments/embedded.toml", out="my-study").verdicts  # doctest: +SKIP
"""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from pluralrm.cluster import opened
from pluralrm.errors import StudyError
from pluralrm.files import replace_file
from pluralrm.http import Settings
from pluralrm.models import default_settings
from pluralrm.progress import JobDisplay, NoDisplay
from pluralrm.study.file import StudyDeclaration, declare, read_study
from pluralrm.study.page import study_page
from pluralrm.study.parts import Missing, StudyContext, TrainingListener
from pluralrm.study.plan import Plan, Step, plan_study
from pluralrm.study.result import StudyResult, result_of
from pluralrm.study.steps import work

__all__ = [
    "DATA",
    "PAGE",
    "Missing",
    "Plan",
    "Step",
    "StudyDeclaration",
    "StudyResult",
    "declare",
    "plan_study",
    "read_study",
    "study",
]

DATA, PAGE = "study.json", "study.html"


def study(
    file: StudyDeclaration | str | Path,
    *,
    out: str | Path,
    settings: Settings | None = None,
    fresh: Collection[str] = (),
    display: JobDisplay | None = None,
    on: str = "",
    listener: TrainingListener | None = None,
) -> StudyResult:
    """Do what a study lacks, write study.json and study.html to the folder `out`, and return what was found.

    Equal folders give equal bytes. Models named in `fresh`, and a policy, begin anew; `settings` say how servers are
    asked; `display` shows how far the steps are; `on` names a cluster; `listener` hears of each training step.
    """
    declared = file if isinstance(file, StudyDeclaration) else read_study(file)
    folder = Path(out)
    context = StudyContext(folder, settings or default_settings(), display or NoDisplay(), fresh)
    with opened(on) as cluster:
        done = work(declared, replace(context, cluster=cluster, listener=listener))
    result = result_of(declared, done, folder)
    _write(folder, result)
    return result


def _write(folder: Path, result: StudyResult) -> None:
    """Write the two files, each at once: a kill leaves an old one or a new one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / DATA, json.dumps(result.to_json(), indent=1) + "\n")
        replace_file(folder / PAGE, study_page(result))
    except OSError as exc:
        raise StudyError(f"cannot write to {folder}: {exc.strerror or exc}. Name another place with -o") from exc
