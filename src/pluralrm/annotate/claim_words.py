"""The claim in words, for the terminal and the page alike."""

from collections.abc import Sequence

from pluralrm.annotate.claim_result import Claimed, InArm, Shown, Stated
from pluralrm.annotate.design import GENERAL, Arm, Claim, Declared
from pluralrm.core import Estimate

SEEN: dict[Arm, str] = {
    "narrative": "posts and what the person has in mind are shown: is the label right?",
    "posts": "posts alone are shown: can the label be inferred?",
    "prompt": "the prompt alone is shown",
}


def verdict(found: Claimed) -> str:
    """Return in a sentence whether the claim is shown, by the arm that it is about."""
    arm = found.first
    if arm.final:
        return _verdict(arm)
    return (
        f"Not final: {arm.judgments:,} of {arm.planned:,} planned judgments are in. Who stops once the claim is shown "
        f"shows it too often. So far: {_verdict(arm)}"
    )


def _verdict(arm: InArm) -> str:
    if arm.holds:
        return f"Shown ({arm.arm}): {_claim(arm)}."
    if arm.contrary:
        return f"Refuted ({arm.arm}): {_listed(arm.contrary)}."
    return f"Not shown ({arm.arm}). Open: {_listed(arm.open)}."


def _claim(arm: InArm) -> str:
    """Return what is claimed, all tests together: no more than they test."""
    claim, margin = arm.declared.claim, arm.declared.rating_margin
    fits = "the labelled answer is preferred in personal fit (win rate above 50%)"
    fits += "" if margin is None else " and rated to fit better"
    three = f"in {_listed(GENERAL)} its win rates are within 50 ± {100 * claim.margin:.3g}% and the mean ratings of "
    both = f"both answers above {claim.floor:g}"
    return f"{fits}; {three}{both}" + ("" if margin is None else f", less than {margin:g} points apart")


ABOUT = (
    "About other items and annotators of the kind that was sampled, and about these four dimensions: whether the "
    "answers differ in anything else was not tested."
)


def counts(arm: InArm) -> str:
    """Return in a sentence how much was judged, and of how much where that is not all."""
    of = "" if arm.final else f" of {arm.planned:,} planned"
    people = f"{arm.annotators:,} annotator{'s' * (arm.annotators != 1)}"
    return f"{arm.judgments:,}{of} judgments of {arm.items:,} items by {people}."


def untold(arm: InArm) -> str:
    """Return in a sentence on how much nobody could tell, which no test is about; blank where everybody could."""
    missing = [(stated.name, stated.test.estimate) for stated in arm.tests if stated.test.estimate.failed]
    told = [f"{name} ({found.failed:,} of {found.n + found.failed:,})" for name, found in missing]
    return f"Cannot tell, and so not in these tests: {_listed(told)}." if told else ""


def held_down(arm: InArm) -> str:
    """Return in a sentence that log odds have no finite estimate; blank where they have one."""
    if not arm.ridge:
        return ""
    return (
        "The dimensions all but decide the choice: these log odds have no finite estimate and are held down by a "
        "ridge. Their order can be told, their size cannot."
    )


def stated(declared: Declared) -> str:
    """Return in a sentence what was stated before anybody judged."""
    claim, margin = declared.claim, declared.rating_margin
    rated = "" if margin is None else f", mean ratings less than {margin:g} points apart"
    return (
        f"Stated in the plan: equal is a win rate within ±{100 * claim.margin:.3g} points of 50{rated}; both answers' "
        f"mean ratings above {claim.floor:g}; alpha {claim.alpha:g}{_attention(claim)}."
    )


def _attention(claim: Claim) -> str:
    return f"; who passes less than {claim.attention:.0%} of attention checks is left out" if claim.attention else ""


def survival(arm: InArm) -> str:
    """Return in a sentence how many labels survive."""
    undecided = f"; {arm.undecided:,} without a majority count as not" if arm.undecided else ""
    items = f"{arm.survives.n:,} items"
    return f"The majority prefers the labelled answer overall on {percent(arm.survives)}% of {items}{undecided}."


def ceiling(arm: InArm) -> str:
    """Return in a sentence how often judgments prefer the labelled answer: for posts alone, the human ceiling."""
    rate = arm.wins[0].rate
    name = "; annotators saw the posts that a model may see, and no more" if arm.arm == "posts" else ""
    return f"The labelled answer's overall win rate is {percent(rate)}%, ties counting half{name}."


def told(one: Stated) -> str:
    """Return what was estimated, in the unit of the test."""
    return percent(one.test.estimate) if one.unit == "% won" else interval(one.test.estimate, 1, 2)


def state(test: Shown) -> str:
    """Return shown, refuted or open."""
    return "shown" if test.shown else "refuted" if test.contrary else "open"


def percent(found: Estimate) -> str:
    """Return `61.7 [44.0, 77.1]` in per cent."""
    return interval(found, 100, 1)


def interval(found: Estimate, times: float, places: int) -> str:
    """Return a value and its interval, multiplied, with so many decimal places."""
    value = f"{times * found.value:.{places}f}"
    if found.low is None or found.high is None:
        return value
    return f"{value} [{times * found.low:.{places}f}, {times * found.high:.{places}f}]"


def p_value(p: float) -> str:
    """Return p with three places."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def named(word: str) -> str:
    """Return a dimension as people say it."""
    return {"personal_fit": "personal fit", "side": "stands first"}.get(word, word)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
