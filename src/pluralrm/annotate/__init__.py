"""People in the loop: who sees what, what they said, whether they agree, and what that shows."""
