"""GRPO: prompts, answers and rewards are ours, loss and steps those of TRL's trainer; see docs/design/grpo.md."""
