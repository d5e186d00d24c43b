"""What of GRPO can be chosen, and what cannot be."""

import pytest

from pluralrm.errors import SpecError
from pluralrm.training.settings import GrpoSettings, check_grpo_settings, read_grpo_settings


def test_a_kl_penalty_is_on_unless_told_otherwise() -> None:
    assert GrpoSettings().kl_coefficient > 0


def test_the_defaults_can_be() -> None:
    assert check_grpo_settings(GrpoSettings()).passes == 8


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"'answer'.*answers"):
        read_grpo_settings({"answer": "4"})


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("answers", "1", "at least 2"),
        ("rate", "fast", "a number"),
        ("batch", "2.5", "a whole number"),
        ("loss", "best", "wanted grpo, dapo"),
        ("on_failure", "zero", "wanted raise, mask"),
        ("rows", "7", "a multiple"),
        ("updates", "3", "a multiple"),
        ("temperature", "0", "from 0.01 to 2"),
    ],
)
def test_what_cannot_be_is_told(key: str, value: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        read_grpo_settings({key: value})
