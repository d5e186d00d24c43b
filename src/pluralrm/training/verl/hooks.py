"""What verl itself loads of this package in a training: it stops where verl would go on with less than all.

Too long a prompt verl cuts on its left, where the user's posts are, and says so in a warning at most. Where a reward
function raises, its trainer logs a line and continues with the answers that have a reward: a policy that learned to
write what cannot be scored would not be penalised.
"""

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.dataset.rl_dataset import RLHFDataset

from pluralrm.errors import BenchmarkError, ServiceError


class WholePrompts(RLHFDataset):  # type: ignore[misc] # verl has no types
    """verl's own data set, which is refused where a prompt has more tokens than there is room for."""

    def maybe_filter_out_long_prompts(self, dataframe: object = None) -> object:
        """Return the rows, all of them; BenchmarkError where verl would leave one out as too long."""
        self.filter_overlong_prompts = True
        rows = super().maybe_filter_out_long_prompts(dataframe)
        if missing := len(dataframe) - len(rows):  # type: ignore[arg-type] # a datasets.Dataset
            files = ", ".join(map(str, self.original_data_files))
            raise BenchmarkError(
                f"{files}: {missing} of {missing + len(rows)} prompts have more than {self.max_prompt_length} tokens, "
                "or the policy has no chat template; show fewer posts, or export with --set prompt_tokens=N"
            )
        return rows


class EveryReward(ReplayBuffer):  # type: ignore[misc] # verl has no types
    """verl's own buffer, which gives no batch from which an answer is missing."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> object:
        """Return the batch of a step, or of a test; ServiceError where an answer or its reward has failed."""
        batch = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if lost := len(self.failure_keys[partition_id]):
            raise ServiceError(
                f"step {global_steps} ({partition_id}): {lost} of {batch_size} prompts have an answer that failed or "
                "has no reward, wanted one for each; verl's log says why (Error in _run_prompt)"
            )
        return batch
