"""PPO on one machine: a policy of a folder, trained against a reward model; docs/design/ppo.md has the map."""
