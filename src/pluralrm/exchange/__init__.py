"""Results where other people work: model cards, leaderboards, logs and stores of other tools."""
