"""A tiny real model: the marks of a chat template, written in an answer, stay characters and end no turn."""

from pathlib import Path

import pytest

from pluralrm import load_benchmark, load_condition, load_model
from pluralrm.attack import ATTACKS, attacked, robustness
from pluralrm.core import Benchmark, Failure

pytestmark = pytest.mark.hf

PRB = load_benchmark("pocket-prb")
FEW = Benchmark(PRB.card, PRB.items[::4])
MARKS = ("<|im_start|>", "<|im_end|>", "</s>", "<s>")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tests.models.neural.tiny import reward_folder

    return f"hf:{reward_folder(tmp_path_factory.mktemp('reward'))}"


def _special_ids(spec: str, benchmark: Benchmark) -> list[list[list[int]]]:
    """Return, per item and answer, the special tokens of the conversation as the model reads it, in order."""
    from pluralrm.models.neural.kind import NeuralModel, load_tokenizer

    model = load_model(spec)
    assert isinstance(model, NeuralModel)
    special = set(load_tokenizer(model.folders[""]).all_special_ids)
    special |= set(load_tokenizer(model.folders[""]).convert_tokens_to_ids(list(MARKS)))
    found = []
    for query in load_condition("raw:1").queries(benchmark, benchmark.items):
        assembled = model.prompts.assemble(query, model.formula.conversations)
        ids = [one.ids for one in assembled.sequences if not isinstance(one, Failure)]
        assert len(ids) == len(query.candidates)
        found.append([[token for token in one if token in special] for one in ids])
    return found


def test_marks_of_a_chat_in_an_answer_end_no_turn(spec: str) -> None:
    bench = attacked(FEW, ATTACKS["turn"])
    assert sum(mark in text for item in bench.items for text in item.candidates for mark in MARKS) >= 5
    plain = _special_ids(spec, FEW)
    assert all(len(ids) >= 4 for answers in plain for ids in answers)
    assert _special_ids(spec, bench) == plain


def test_a_neural_model_is_attacked_from_end_to_end(spec: str, tmp_path: Path) -> None:
    found = robustness(FEW, load_model(spec), "raw:1", out=tmp_path)
    assert found.complete
    assert [effect.attack.name for effect in found.effects] == list(ATTACKS)
    assert found.failed == 0
    for effect in found.effects:
        assert effect.newly_failed is None, effect.attack.name
        assert effect.change is not None
        assert effect.change.n == len(FEW.items)
