"""Runs in verl's own environment: what verl makes of an exported folder. JSON on standard output.

python inside.py settings FOLDER     the overrides, composed and put into verl's own dataclasses
python inside.py rows FOLDER TOKENIZER   the rows, as verl's data set has them
python inside.py reward FOLDER TOKENIZER ITEM TEXT...   rewards, by verl's loader and reward manager
python inside.py step FOLDER TOKENIZER ITEM...   the batch of a step in which each item has one answer, by verl's
                                     trainer: by its own buffer, and by the one that the export names
python inside.py paths FOLDER...      the policies of some exports
python inside.py workers FOLDER WORD...   the environment of a worker that verl's main starts, with these overrides too
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_module

from pluralrm.errors import PluralrmError


def config(folder: Path, *more: str) -> Any:
    lines = [*(folder / "overrides.txt").read_text().splitlines(), *more]
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
        "watched": [found.actor_rollout_ref.rollout.val_kwargs[name] for name in ("do_sample", "temperature", "top_p")],
        "reward": [found.reward.custom_reward_function.path, found.reward.custom_reward_function.name],
        "directory": found.trainer.default_local_dir,
    }


def rows(folder: Path, tokenizer: str) -> object:
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import get_dataset_class

    found = config(folder)
    data = get_dataset_class(found.data)(
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


def answers(words: Any, told: list[tuple[str, str]]) -> Any:
    """Return answers of (item, text) as verl's trainer hands them to a reward manager."""
    from verl import DataProto

    ids = [words(text, add_special_tokens=False)["input_ids"] for _, text in told]
    longest = max(map(len, ids))
    rows = {
        "data_source": ["pocket-prb" for _ in told],
        "reward_model": [{"ground_truth": item} for item, _ in told],
        "extra_info": [{"item": item, "split": "train", "index": 0} for item, _ in told],
    }
    return DataProto.from_dict(
        tensors={
            "responses": torch.tensor([one + [words.pad_token_id or 0] * (longest - len(one)) for one in ids]),
            "attention_mask": torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in ids]),
        },
        non_tensors={name: np.array(column, dtype=object) for name, column in rows.items()},
    )


def manager(folder: Path, words: Any) -> Any:
    from verl.experimental.reward_loop.reward_loop import migrate_legacy_reward_impl
    from verl.trainer.ppo.reward import load_reward_manager

    return load_reward_manager(migrate_legacy_reward_impl(config(folder)), words)


def reward(folder: Path, tokenizer: str, item: str, texts: list[str]) -> object:
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tokenizer)
    data = answers(words, [(item, text) for text in texts])

    async def all_of_them() -> list[object]:
        asked = manager(folder, words)
        found = await asyncio.gather(*(asked.run_single(data[place : place + 1]) for place in range(len(texts))))
        return [one["reward_score"] for one in found]

    shown = [
        words.decode(words(text, add_special_tokens=False)["input_ids"], skip_special_tokens=True) for text in texts
    ]
    return {"rewards": asyncio.run(all_of_them()), "texts": shown}


def step(folder: Path, tokenizer: str, items: list[str]) -> object:
    """Answers are given; what becomes of them is verl's: its worker's bookkeeping, its queue, its buffer."""
    import ray
    import transfer_queue as tq
    from transformers import AutoTokenizer
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    words = AutoTokenizer.from_pretrained(tokenizer)
    found = config(
        folder, "transfer_queue.enable=true", "transfer_queue.backend.SimpleStorage.num_data_storage_units=1"
    )
    ray.init("local", num_cpus=32, include_dashboard=False)
    tq.init(found.transfer_queue)

    class Worker:
        config = found

        async def _run_agent_loop(self, _params: object, *, uid: str, item: str, **_more: object) -> None:
            scored = await manager(folder, words).run_single(answers(words, [(item, "the")])[0:1])
            fields = {"rm_scores": torch.tensor([scored["reward_score"]])}
            await tq.async_kv_put(key=f"{uid}_0_0", partition_id="train", fields=fields, tag={"seq_len": 1})

    async def all_of_them() -> None:
        run = AgentLoopWorkerTQ.__ray_metadata__.modified_class._run_prompt
        for place, item in enumerate(items):
            tag = {"is_prompt": True, "status": "pending", "global_steps": 1}
            await tq.async_kv_put(key=f"u{place}", partition_id="train", tag=tag)
            await run(Worker(), {"uid": f"u{place}", "item": item}, {}, {"validate": False})

    asyncio.run(all_of_them())
    told: dict[str, object] = {}
    stand_in = SimpleNamespace(config=found, trainer_mode="sync", _add_prompts_to_generate=lambda _count: None)
    ours = PPOTrainer._build_replay_buffer(stand_in)
    common = ("trainer_mode", "trainer_config", "max_off_policy_threshold", "max_off_policy_strategy", "sampler_kwargs")
    theirs = ReplayBuffer(**{name: getattr(ours, name) for name in common})
    theirs_kept = tq.kv_list()
    for name, buffer in {"ours": ours, "theirs": theirs}.items():
        try:
            batch, _ = buffer.sample(global_steps=1, partition_id="train", batch_size=len(items))
            told[name] = sorted(batch.keys)
        except RuntimeError as exc:  # verl's own, where nothing is left
            told[name] = str(exc)
        except PluralrmError as exc:
            told[name] = f"{type(exc).__name__}: {exc}"
        for key, tag in theirs_kept["train"].items():  # as before: a buffer takes out what it gives
            if tag.get("is_prompt"):
                tq.kv_put(key=key, partition_id="train", tag=tag)
    tq.close()
    ray.shutdown()
    return told


def workers(folder: Path, more: list[str]) -> object:
    import ray
    from verl.trainer.main_ppo import run_ppo

    seen = folder / "worker.json"

    @ray.remote(num_cpus=0)
    class Task:
        def run(self, _config: object) -> None:
            told = {name: text for name, text in os.environ.items() if name.startswith("PLURALRM_REWARD_")}
            seen.write_text(json.dumps(told))

    run_ppo(config(folder, *more), Task)
    return json.loads(seen.read_text())


def main(words: list[str]) -> object:
    verb, folder, *others = words
    if verb == "settings":
        return settings(Path(folder))
    if verb == "rows":
        return rows(Path(folder), others[0])
    if verb == "paths":
        return [config(Path(one)).actor_rollout_ref.model.path for one in (folder, *others)]
    if verb == "step":
        return step(Path(folder), others[0], others[1:])
    if verb == "workers":
        return workers(Path(folder), others)
    return reward(Path(folder), others[0], others[1], others[2:])


if __name__ == "__main__":
    told = main(sys.argv[1:])
    sys.stdout.write(f"\n{json.dumps(told)}\n")
