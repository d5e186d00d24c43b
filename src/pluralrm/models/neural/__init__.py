"""Reward models that are folders of weights: from a Query to token ids, from ids to numbers (docs/design/models.md)."""
