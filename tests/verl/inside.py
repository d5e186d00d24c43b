"""Runs in verl's own environment: what verl makes of an exported folder. JSON on standard output.

python inside.py settings FOLDER     the overrides, composed and put into verl's own dataclasses
python inside.py rows FOLDER TOKENIZER   the rows, as verl's data set has them
python inside.py reward FOLDER ITEM TEXT...   rewards, by verl's loader and reward manager
python inside.py core                verl's core functions on tensors from standard input
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_module


def config(folder: Path) -> Any:
    lines = (folder / "overrides.txt").read_text().splitlines()
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=lines)


def settings(folder: Path) -> object:
    """Return what verl's dataclasses and its own check make of it; the reward's is a plain config there, too."""
    from verl.experimental.reward_loop.reward_loop import migrate_legacy_reward_impl
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    found = migrate_legacy_reward_impl(config(folder))
    made = {
        name: type(omega_conf_to_dataclass(section)).__name__
        for name, section in {
            "actor": found.actor_rollout_ref.actor,
            "rollout": found.actor_rollout_ref.rollout,
            "critic": found.critic,
            "algorithm": found.algorithm,
        }.items()
    }
    validate_config(config=found, use_reference_policy=bool(found.algorithm.use_kl_in_reward), use_critic=True)
    return {
        "dataclasses": made,
        "path": found.actor_rollout_ref.model.path,
        "batch": found.data.train_batch_size,
        "actor_rate": found.actor_rollout_ref.actor.optim.lr,
        "kl": [found.algorithm.use_kl_in_reward, found.algorithm.kl_ctrl.kl_coef],
        "truncation": found.data.truncation,
        "reward": [found.reward.custom_reward_function.path, found.reward.custom_reward_function.name],
        "directory": found.trainer.default_local_dir,
    }


def rows(folder: Path, tokenizer: str) -> object:
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    found = config(folder)
    data = RLHFDataset(
        data_files=str(folder / "train.parquet"), tokenizer=AutoTokenizer.from_pretrained(tokenizer), config=found.data
    )
    return [
        {
            "prompt": row["raw_prompt"][0]["content"] if isinstance(row["raw_prompt"], (list, np.ndarray)) else None,
            "item": row["extra_info"]["item"],
            "truth": row["reward_model"]["ground_truth"],
            "source": row["data_source"],
        }
        for row in (data[place] for place in range(len(data)))
    ]


def reward(folder: Path, tokenizer: str, item: str, texts: list[str]) -> object:
    from transformers import AutoTokenizer
    from verl.experimental.reward_loop.reward_loop import migrate_legacy_reward_impl
    from verl.trainer.ppo.reward import load_reward_manager

    from verl import DataProto

    words = AutoTokenizer.from_pretrained(tokenizer)
    ids = [words(text, add_special_tokens=False)["input_ids"] for text in texts]
    longest = max(map(len, ids))
    padded = torch.tensor([one + [words.pad_token_id or 0] * (longest - len(one)) for one in ids])
    mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in ids])
    told = {"item": item, "split": "train", "index": 0}
    data = DataProto.from_dict(
        tensors={"responses": padded, "attention_mask": mask},
        non_tensors={
            "data_source": np.array(["pocket-prb"] * len(texts), dtype=object),
            "reward_model": np.array([{"ground_truth": item}] * len(texts), dtype=object),
            "extra_info": np.array([dict(told) for _ in texts], dtype=object),
        },
    )

    async def all_of_them() -> list[object]:
        manager = load_reward_manager(migrate_legacy_reward_impl(config(folder)), words)
        found = await asyncio.gather(*(manager.run_single(data[place : place + 1]) for place in range(len(texts))))
        return [one["reward_score"] for one in found]

    return {"rewards": asyncio.run(all_of_them()), "texts": words.batch_decode(ids, skip_special_tokens=True)}


def main(words: list[str]) -> object:
    verb, folder, *others = words
    if verb == "settings":
        return settings(Path(folder))
    if verb == "rows":
        return rows(Path(folder), others[0])
    return reward(Path(folder), others[0], others[1], others[2:])


if __name__ == "__main__":
    told = main(sys.argv[1:])
    sys.stdout.write(f"\n{json.dumps(told)}\n")
