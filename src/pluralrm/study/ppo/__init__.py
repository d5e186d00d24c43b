"""[ppo] of a study: what is trained, training it, and what came of it. What is on disk is read without torch."""
