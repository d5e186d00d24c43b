"""A small policy is trained with one thread, a larger one as torch chooses; the number is put back."""

from pathlib import Path

import pytest

from pluralrm.models.neural.folder import ModelFolder

pytestmark = pytest.mark.hf


@pytest.mark.parametrize(("bytes_", "wanted"), [(1_000, 1), (2**24, 3)])
def test_a_small_policy_has_one_thread_and_the_number_is_put_back(bytes_: int, wanted: int, tmp_path: Path) -> None:
    import torch

    from pluralrm.training.rollout import threads_for

    (tmp_path / "model.safetensors").write_bytes(b"\0" * bytes_)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with threads_for(ModelFolder("here", tmp_path, "", trusted=False, config={})):
            assert torch.get_num_threads() == wanted
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
