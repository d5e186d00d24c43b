"""How far everybody is: screens judged, speed, and attention checks answered as known."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from pluralrm.annotate.design import LETTERS, Arm, Plan, Screen
from pluralrm.annotate.judgments import Answers, Judgment, PairAnswers, standing


@dataclass(frozen=True, slots=True)
class Pace:
    """One annotator: `changed` screens have more than one revision; `seconds` is the median time on a screen."""

    id: str
    arm: Arm
    judged: int
    of: int
    changed: int
    seconds: float | None
    last: str | None
    """When something last came: ISO 8601, UTC."""
    checks_right: int
    checks: int
    """Attention checks judged so far."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        return asdict(self)


def progress(plan: Plan, judgments: Sequence[Judgment]) -> list[Pace]:
    """Return how far each annotator of the plan is, in the plan's order."""
    said: dict[str, list[Judgment]] = {annotator.id: [] for annotator in plan.annotators}
    for one in judgments:
        said[one.annotator].append(one)
    return [_pace(plan, annotator.id, said[annotator.id]) for annotator in plan.annotators]


def _pace(plan: Plan, annotator: str, said: Sequence[Judgment]) -> Pace:
    stands = standing(said)
    checks = [one for one in stands if plan.screen[one.handle].kind == "check"]
    return Pace(
        id=annotator,
        arm=plan.arm[annotator],
        judged=len(stands),
        of=len(plan.by_annotator[annotator]),
        changed=len({one.handle for one in said if one.revision > 1}),
        seconds=median(one.seconds for one in stands) if stands else None,
        last=max((one.at for one in said), default=None),
        checks_right=sum(passed(plan, plan.screen[one.handle], one.answers) for one in checks),
        checks=len(checks),
    )


def passed(plan: Plan, screen: Screen, answers: Answers | None) -> bool:
    """Return whether an attention check was answered as known; for two answers, leaning to the right side passes."""
    known = plan.item[screen.item].preferred
    if answers is None or known is None:
        return False
    letter = LETTERS[screen.order.index(known)]
    if isinstance(answers, PairAnswers):
        return answers.overall in {letter.lower(), f"slightly_{letter.lower()}"}
    return answers.best == letter
