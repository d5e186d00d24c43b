"""Who is trained and what rewards it, from the command line: the same for `ppo run` and `ppo grpo`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.cli.options import check_names, with_posts_of
from pluralrm.cli.sample import trusted_policy
from pluralrm.errors import ConditionError, ModelError, SpecError

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Condition
    from pluralrm.http import Settings
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.training.rewards import Rewarder
    from pluralrm.training.settings import TrainingSettings

SERVER = "served"
"""As --reward: the server that PLURALRM_REWARD_URL and its like name, which `pluralrm serve` prints."""


class Named(NamedTuple):
    """Specs as they are to be opened: no model stands for a server, `shown` is what the reward is of."""

    models: Sequence[str]
    condition: str
    shown: str


def named(reward: str, condition: str, reward_condition: str, *, send: bool, elsewhere: bool) -> Named:
    """Return the specs of reward and conditions, with what the command allows them written into them."""
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS, parse_model

    conditions, models = [condition, reward_condition or condition], [] if reward == SERVER else [reward]
    check_names(models, "--reward", KINDS)
    check_names(conditions, "-c", condition_summaries())
    for model in models:
        parse_model(model)
    allowed = send and (not elsewhere or _can_send(models, conditions))
    models, conditions = with_posts_of(models, conditions, allowed=allowed)
    return Named(models, *conditions)


def _can_send(models: Sequence[str], conditions: Sequence[str]) -> bool:
    """Return whether any of them shows a server what users wrote; a grader that does may be alone in it."""
    from pluralrm.conditions import KINDS as CONDITIONS
    from pluralrm.conditions import parse_condition
    from pluralrm.models import KINDS, parse_model

    sending = ("send" in KINDS[parse_model(text).kind].form.keys for text in models)
    telling = ("send" in CONDITIONS[parse_condition(text).kind].form.keys for text in conditions)
    return any(sending) or any(telling)


def open_policy(policy: str, trust: Sequence[str], asked: "Settings") -> "LocalPolicy":
    """Return the policy; SpecError where its weights are not on this machine."""
    from pluralrm.policies.policies import load_policy, parse_policy

    if parse_policy(policy).kind == "lm":
        opened = load_policy(trusted_policy(policy, trust), settings=asked)
        from pluralrm.policies.local import LocalPolicy

        if isinstance(opened, LocalPolicy):
            return opened
    raise SpecError(f"--policy {policy}: its weights are not here; wanted lm:FOLDER")


def open_rewarder(
    models: Sequence[str], bench: "Benchmark", shown: "Condition", *, asked: "Settings", chosen: "TrainingSettings"
) -> "Rewarder":
    """Return what rewards: a server where no model is named."""
    from pluralrm.models import load_model, misfit, never_alone, unsupported
    from pluralrm.serve.client import RewardClient
    from pluralrm.training import rewards

    if not models:
        return rewards.served(RewardClient.from_environment(), bench, shown.spec, chosen.on_failure)
    [model] = models
    if chosen.answers < 2 and (why := never_alone(model)):
        raise ModelError(f"{why}: found answers=1, wanted --set answers=2 or more")
    if why := unsupported(model, shown):
        raise ConditionError(why)
    if why := misfit(model, bench):
        raise ModelError(why)
    return rewards.Here(load_model(model, settings=asked), shown, bench)
