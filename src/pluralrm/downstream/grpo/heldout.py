"""How the validation users' rewards changed, from before the training to its end."""

from collections.abc import Mapping

from pluralrm.core import Estimate
from pluralrm.downstream.grpo.records import EvaluationRecord
from pluralrm.downstream.ppo.changes import reward_change


def change(evaluations: Mapping[int, EvaluationRecord]) -> Estimate | None:
    """Return the mean change of an item's reward, users resampled; None where nobody was watched before and after."""
    if len(evaluations) < 2:
        return None
    before, after = evaluations[min(evaluations)], evaluations[max(evaluations)]
    return reward_change(before.rewards, after.rewards, before.users)
