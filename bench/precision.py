"""Precision: a reward head in bfloat16 and float16 against float32, on an eighth of the prompts of scoring's shapes."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work

NAMES = ("pairs", "pairs-posts", "rmgap", "bon16", "bon64")
PART = 8
"""One prompt in so many."""


class HeadData(NamedTuple):
    """A folder of random weights, and token ids: per prompt one sequence per answer."""

    folder: Path
    groups: list[list[tuple[int, ...]]]


def head_data(setup: Setup, name: str) -> HeadData:
    """Return a model of scoring's shape and the prompts of one of its shapes; cut short where it is to be quick."""
    import torch
    import transformers

    from bench.scoring import CONFIG, SHAPES, groups

    changes = {"hidden_size": 64, "intermediate_size": 64} if setup.quick else {}
    folder = setup.folder()
    torch.manual_seed(0)
    config = transformers.Qwen2Config(**{**CONFIG.to_dict(), **changes})
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    prompts = groups(SHAPES[name])
    part = prompts[: setup.size(max(2, len(prompts) // PART), 1)]
    return HeadData(folder, [[ids[: setup.size(len(ids), 40)] for ids in group] for group in part])


def scored(dtype: str, data: HeadData) -> Work:
    """Return what scores all answers in a dtype."""
    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head
    from pluralrm.models.neural.trees import pooled

    engine = open_head(open_folder(str(data.folder), kind="hf"), LoadSettings(dtype=dtype))
    requests = [[pooled(ids, 0) for ids in group] for group in data.groups]

    def work() -> Outcome:
        scores = [float(value[0, 0]) for group in engine.values(requests) for value in group]
        return Outcome(scores, units=len(scores))

    return work


for each in NAMES:
    shape = Shape(
        f"precision-{each}",
        f"{each} in half precision",
        partial(head_data, name=each),
        unit="answers",
        needs=("torch", "transformers"),
        rounds=3,
        tolerance=0.2,  # of scores that spread over about 1
    )
    for dtype in ("float32", "bfloat16", "float16"):
        shape.side(partial(scored, dtype), name=dtype)
