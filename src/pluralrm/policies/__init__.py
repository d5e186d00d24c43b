"""What a reward model does to a policy: answers are sampled into a Pool, ranked, and graded by another model."""
