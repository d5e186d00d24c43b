"""The tiny policy, taught once, and the single thread of tests that compare bits."""

from tests.policies.conftest import _one_thread, taught

__all__ = ["_one_thread", "taught"]
