"""Answers to many prompts at once, each drawn by its own seed as those of a pool are.

Here the end of an answer is one of its tokens: that it was chosen is learned like any other choice.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch

from pluralrm.core import Failure
from pluralrm.errors import OutageError
from pluralrm.grading import Grade, Grader
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.personal.networks import threads
from pluralrm.policies.local import LocalPolicy, Network, choose
from pluralrm.policies.policy import Draw, policy_answer
from pluralrm.serve.client import Identity
from pluralrm.serve.watch import SecondReward, WatchFolder, WatchManifest, WatchRequest, alarm_text, watch_manifest
from pluralrm.stats.clusters import crossing
from pluralrm.training.job import TrainingJob, TrainingPrompt
from pluralrm.training.measures import deviation, errors_of, mean, means_by_user, repetition
from pluralrm.training.records import EvaluationLine, StepLine, StepWatch
from pluralrm.training.rewards import RewardRequest, Rewards, Text, check_enough, rewarded

_PAD = 0
"""Any token: none that is padding is seen."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Some sequences; P is the longest prompt, R the longest answer."""

    ids: torch.Tensor
    """(rows, P + R)."""
    seen: torch.Tensor
    """(rows, P + R): true at real tokens."""
    width: int
    """R."""

    @property
    def answers(self) -> torch.Tensor:
        """The ids of the answers: (rows, R)."""
        return self.ids[:, -self.width :]

    @property
    def mask(self) -> torch.Tensor:
        """True at the answers' real tokens: (rows, R)."""
        return self.seen[:, -self.width :]

    @property
    def positions(self) -> torch.Tensor:
        """Each token's place in its own sequence: (rows, P + R)."""
        return positions(self.seen)

    def rows(self, places: Sequence[int]) -> "Tokens":
        """Return some of the sequences, as wide as they all are."""
        return Tokens(self.ids[list(places)], self.seen[list(places)], self.width)


def positions(seen: torch.Tensor) -> torch.Tensor:
    """Return each token's place in its own sequence; padding before it has 0."""
    return (seen.long().cumsum(dim=-1) - 1).clamp_min(0)


def padded_prompts(prompts: Sequence[Sequence[int]], device: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and what is seen of prompts, padded at the left: (rows, P) each."""
    width = max(map(len, prompts))
    ids = [[*[_PAD] * (width - len(prompt)), *prompt] for prompt in prompts]
    seen = [[*[False] * (width - len(prompt)), *[True] * len(prompt)] for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(seen, device=device)


def padded(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], device: object) -> Tokens:
    """Return the sequences of prompts and their answers; each answer has a token."""
    width = max(map(len, answers))
    ids = torch.tensor([[*answer, *[_PAD] * (width - len(answer))] for answer in answers], device=device)
    seen = torch.tensor(
        [[*[True] * len(answer), *[False] * (width - len(answer))] for answer in answers], device=device
    )
    before, visible = padded_prompts(prompts, device)
    return Tokens(torch.cat([before, ids], dim=1), torch.cat([visible, seen], dim=1), width)


class DrawnAnswer(NamedTuple):
    """Token ids with the one that ends them; `cut` where none did, and the longest was reached."""

    ids: tuple[int, ...]
    cut: bool

    @property
    def spoken(self) -> tuple[int, ...]:
        """The ids of the text, without the end."""
        return self.ids if self.cut else self.ids[:-1]


def draw_answers(
    network: Network, prompts: Sequence[Sequence[int]], seeds: Sequence[int], draw: Draw, *, rows: int
) -> list[DrawnAnswer]:
    """Return one answer per prompt and seed, in order; `rows` are computed at once."""
    answers: list[DrawnAnswer] = []
    for first in range(0, len(prompts), rows):
        several = slice(first, first + rows)
        with torch.no_grad():
            answers += _together(network, prompts[several], seeds[several], draw)
    return answers


def _together(
    network: Network, prompts: Sequence[Sequence[int]], seeds: Sequence[int], draw: Draw
) -> list[DrawnAnswer]:
    model = network.model
    ids, seen = padded_prompts(prompts, model.device)
    coins, answers = [Random(seed) for seed in seeds], [list[int]() for _ in seeds]
    going, cache, position = set(range(len(seeds))), None, positions(seen)
    for _ in range(draw.max_tokens):
        passed = model(
            input_ids=ids,
            attention_mask=seen.long(),
            position_ids=position,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = passed.past_key_values
        tokens = choose(passed.logits[:, -1], [coin.random() for coin in coins], draw.temperature, draw.top_p)
        for row in sorted(going):
            answers[row].append(tokens[row])
        going -= {row for row in going if tokens[row] in network.ends}
        if not going:
            break
        ids = torch.tensor(tokens, device=model.device)[:, None]
        seen = torch.cat([seen, torch.ones_like(seen[:, :1])], dim=1)
        position = position[:, -1:] + 1
    return [DrawnAnswer(tuple(ids), cut=row in going) for row, ids in enumerate(answers)]


class AnswerBatch(NamedTuple):
    """The answers to some prompts, in their order."""

    prompts: Sequence[TrainingPrompt]
    answers: Sequence[DrawnAnswer]
    texts: Sequence[Text]

    @property
    def asked(self) -> list[RewardRequest]:
        """What rewards are wanted for: answers that stand beside each other and are to one item go together."""
        requests: list[RewardRequest] = []
        for prompt, text in zip(self.prompts, self.texts, strict=True):
            if requests and requests[-1].item.id == prompt.item.id:
                requests[-1] = requests[-1]._replace(answers=(*requests[-1].answers, text))
            else:
                requests.append(RewardRequest(prompt.item, (text,)))
        return requests


def answers_to(
    network: Network, policy: LocalPolicy, prompts: Sequence[TrainingPrompt], draw: Draw, *, rows: int
) -> AnswerBatch:
    """Return one answer to each prompt; its seed is derived from the draw's, the item and the place."""
    seeds = [draw.seed_of(prompt.item.id, index) for index, prompt in enumerate(prompts)]
    answers = draw_answers(network, [prompt.ids for prompt in prompts], seeds, draw, rows=rows)
    texts = [_text(network, policy, prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]
    return AnswerBatch(prompts, answers, texts)


def _text(network: Network, policy: LocalPolicy, prompt: TrainingPrompt, answer: DrawnAnswer) -> Text:
    """Return what the answer says, read as `sample` reads it."""
    written = prompt.opened + network.text(answer.spoken)
    reply = policy_answer(written, policy.reasoning, cut=answer.cut, tokens=len(answer.spoken))
    return reply if isinstance(reply, Failure) else reply.text


class StepAnswers(NamedTuple):
    """A step's answers, and what became of their rewards."""

    answered: AnswerBatch
    settled: Rewards
    watch: StepWatch | None = None


def draw_step(
    job: TrainingJob,
    network: Network,
    prompts: Sequence[TrainingPrompt],
    step: int,
    *,
    watch: WatchFolder | None = None,
) -> StepAnswers:
    """Return one answer to each prompt with its reward; what stops the training stops it here."""
    chosen = job.settings
    answered = answers_to(network, job.policy, prompts, chosen.draw_by(f"{job.seed}:{step}"), rows=chosen.rows)
    settled = rewarded(job.rewarder, answered.asked, chosen.on_failure)
    check_enough(job.rewarder.spec, settled, step=step, most_masked=chosen.most_masked)
    noted = None if watch is None or job.watch is None else _watched(watch, job.watch, answered, settled, step=step)
    return StepAnswers(answered, settled, noted)


WATCH = "watch"
"""The folder of what a second reward saw, inside that of the training."""
_WATCHED = 16
"""Prompts of a step at most."""


@contextmanager
def watching(job: TrainingJob, out: Path) -> Iterator[WatchFolder | None]:
    """Hold the folder of the watch, where there is a second reward, while a training is under way."""
    if job.watch is None:
        yield None
        return
    with WatchFolder(out / WATCH, _watch_manifest(job, job.watch)) as folder:
        yield folder


def _watched(
    folder: WatchFolder, second: SecondReward, answered: AnswerBatch, settled: Rewards, *, step: int
) -> StepWatch:
    """Return what the watch says after a step, whose first prompts are scored again; lines are on disk before it."""
    rewards = iter(settled.rewards)
    for index, request in enumerate(answered.asked):
        own = [next(rewards) for _ in request.answers]
        pairs = [(text, reward) for text, reward in zip(request.answers, own, strict=True) if isinstance(text, str)]
        key = f"{step}:{index}"
        if index < _WATCHED and pairs and key not in folder:
            scores = tuple(Failure("unsupported") if reward is None else reward for _, reward in pairs)
            folder.add(second.line(WatchRequest(request.item, tuple(text for text, _ in pairs), scores, key)))
    folder.sync()
    series = folder.series
    alarms = {alarm.claim: alarm_text(alarm, series) for alarm in series.alarms}
    return StepWatch(prompts=len(series), answers=series.answers, alarms=alarms)


def _watch_manifest(job: TrainingJob, second: SecondReward) -> WatchManifest:
    bench = job.benchmark
    identity = Identity(
        run=f"seed {job.seed}",
        model=job.rewarder.spec,
        condition=job.reward_condition,
        benchmark=bench.card.name,
        benchmark_hash=bench.content_hash,
        facts=dict(job.rewarder.identity),
        reveals=(),
    )
    return watch_manifest(identity, second, share=1.0)


def line_of_step(step: int, drawn: StepAnswers) -> StepLine:
    """Return what a step's line says of its answers and their rewards, whatever was learned from them."""
    answers, settled = drawn.answered.answers, drawn.settled
    rewards = [reward for reward in settled.rewards if reward is not None]
    users = [prompt.item.cluster for prompt in drawn.answered.prompts]
    measured = {
        "length": [float(len(answer.ids)) for answer in answers],
        "cut": [float(answer.cut) for answer in answers],
        "repetition": [repetition(answer.ids) for answer in answers],
        "masked": [float(reward is None) for reward in settled.rewards],
    }
    return StepLine(
        step=step,
        answers=len(answers),
        masked=settled.rewards.count(None),
        failures=dict(settled.failures),
        reward=mean(rewards),
        reward_sd=deviation(rewards),
        **{name: mean(values) for name, values in measured.items() if name != "masked"},
        errors=errors_of(measured, users),
        by_user=means_by_user(measured, users),
        watch=drawn.watch,
    )


class HeldOutAnswers(NamedTuple):
    """The answers of the users who are watched, and the line about them."""

    answered: AnswerBatch
    line: EvaluationLine


def watch(job: TrainingJob, network: Network, prompts: Sequence[TrainingPrompt], step: int) -> HeldOutAnswers:
    """Return what the policy does after so many steps; None stands for a reward or a grade that failed."""
    draw = job.settings.draw_by(f"{job.seed}:held-out")  # the same at every step: common random numbers
    answered = answers_to(network, job.policy, prompts, draw, rows=job.settings.rows)
    # One answer to each: what compares answers has no score for it, which is no reason to stop.
    settled = rewarded(job.rewarder, answered.asked, job.settings.on_failure, spared="unsupported")
    graded = [] if job.grader is None else _graded(job.grader, answered)
    users = tuple(prompt.item.cluster for prompt in prompts)
    line = EvaluationLine(
        step=step,
        items=tuple(prompt.item.id for prompt in prompts),
        users=users,
        prompts=crossing(users, [prompt.item.crossed for prompt in prompts]) or (),
        rewards=tuple(settled.rewards),
        grades=tuple(None if isinstance(grade, Failure) else grade for grade in graded) or (None,) * len(prompts),
        failures=dict(sorted(Counter(grade.kind for grade in graded if isinstance(grade, Failure)).items())),
        length=mean([len(answer.ids) for answer in answered.answers]),
    )
    return HeldOutAnswers(answered, line)


def _graded(grader: Grader, answered: AnswerBatch) -> list[Grade]:
    """Return the grade of each answer; one that says nothing has its own failure for it."""
    pairs = zip(answered.prompts, answered.texts, strict=True)
    answers = [(prompt.item, text) for prompt, text in pairs if isinstance(text, str)]
    graded = list(grader.grade(answers))
    if missing := sum(result.open for result in graded):
        raise OutageError(
            f"{grader.spec}: {missing} of {len(graded)} watched answers have no grade yet. What was trained is kept; "
            "the same command resumes"
        )
    results = iter(graded)
    return [next(results).grade if isinstance(text, str) else text for text in answered.texts]


SMALL = 16 * 2**20
"""Bytes of weights on disk. On two cores with other work beside, one thread was 2 to 10 times as fast as two."""


@contextmanager
def threads_for(folder: ModelFolder) -> Iterator[None]:
    """Compute with one thread where a policy is small, and as torch chooses elsewhere."""
    if sum(file.stat().st_size for file in folder.path.glob("*.safetensors")) >= SMALL:
        yield
        return
    with threads():
        yield
