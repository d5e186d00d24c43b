"""`--max-prompt-tokens`: one limit for all models, written into their specs and so into run.json."""

import pytest

from pluralrm.cli.options import with_length
from pluralrm.errors import SpecError

JUDGE = "judge:m,max_tokens=64,url=http://127.0.0.1:8000/v1"


def test_the_limit_is_written_into_what_drops_posts_by_it_and_nowhere_else() -> None:
    others = ["longest", JUDGE, "remote:http://h:5000,chat=folder", "python:m:C"]
    models = ["hf:m", "dpo:p,reference=r", "vllm:http://h:8000", *others]
    wanted = ["hf:m,max_tokens=900", "dpo:p,max_tokens=900,reference=r", "vllm:http://h:8000,max_tokens=900", *others]
    assert with_length(models, 900) == wanted
    assert with_length(wanted, 900) == wanted
    assert with_length(models, None) == models


def test_a_limit_that_contradicts_a_spec_is_an_error() -> None:
    with pytest.raises(SpecError, match=r"--max-prompt-tokens 900: hf:m,max_tokens=800 says another number"):
        with_length(["longest", "hf:m,max_tokens=800"], 900)


@pytest.mark.parametrize("models", [["longest"], [JUDGE, "random"]])
def test_a_limit_for_nobody_is_an_error(models: list[str]) -> None:
    with pytest.raises(SpecError, match=r"none of .* drops posts by a limit; leave it out"):
        with_length(models, 900)
