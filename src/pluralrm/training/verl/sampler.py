"""A missing reward stops the training: verl loads this class by `trainer.v1.sampler.custom_sampler` of the export.

Where a reward function raises, verl's trainer logs a line and continues with the answers that have a reward. So a
policy that learned to write what cannot be scored would not be penalised.
"""

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from pluralrm.errors import ServiceError


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
