"""The tiny policy: its tokens spell every text of `simulated` exactly, and it learns to write answers."""

from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.errors import RunError

pytestmark = pytest.mark.hf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pluralrm.training.tiny import tiny_policy

    return tiny_policy(tmp_path_factory.mktemp("root") / "tiny", steps=2)


def test_every_prompt_and_every_answer_is_spelled_exactly(folder: Path) -> None:
    import transformers

    from pluralrm.conditions import load_condition
    from pluralrm.templates import load_template

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bench = load_benchmark("simulated:users=20,items=2,seed=3")
    shown = load_condition("recent:20").queries(bench, bench.items)
    texts = [load_template("profile-v1").render(query) for query in shown]
    texts += [text for item in bench.items for text in item.candidates]
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
        assert len(ids) < 200


def test_it_has_118_000_weights(folder: Path) -> None:
    from safetensors.numpy import load_file

    assert sum(one.size for one in load_file(folder / "model.safetensors").values()) == pytest.approx(
        118_000, rel=0.001
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_it_answers_under_any_number_of_posts_up_to_eight(tmp_path: Path) -> None:
    """Of 80 answers to users of another world at most 6 cannot be read; under no post as under eight."""
    from dataclasses import replace

    from pluralrm.conditions import load_condition
    from pluralrm.core import Failure
    from pluralrm.grading.truth import Truth
    from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, load_policy
    from pluralrm.training.tiny import MOST_POSTS, tiny_policy

    policy = load_policy(f"lm:{tiny_policy(tmp_path / 'tiny')}")
    bench, draw = (
        load_benchmark("simulated:users=40,items=2,domains=1,crowd=0.7"),
        Draw(n=1, top_p=1.0, max_tokens=40, seed=5),
    )
    items = {item.id: item for item in bench.items}
    unreadable = {}
    for posts in range(MOST_POSTS + 1):
        shown = load_condition(f"recent:{posts}" if posts else "none").queries(bench, bench.items)
        asks = [AnswerRequest(replace(one, candidates=()), 0, draw.seed_of(one.id, 0)) for one in shown]
        answers = zip(asks, policy.answer(asks, draw), strict=True)
        texts = [(items[ask.query.id], said.text) for ask, said in answers if isinstance(said, PolicyAnswer)]
        graded = [not isinstance(one.grade, Failure) for one in Truth().grade(texts)]
        unreadable[posts] = len(asks) - sum(graded)
    print(unreadable)  # noqa: T201
    assert len(bench.items) == 80
    assert max(unreadable.values()) <= 6, unreadable


def test_a_folder_that_holds_something_is_left_alone(folder: Path) -> None:
    from pluralrm.training.tiny import tiny_policy

    with pytest.raises(RunError, match="wanted a new folder"):
        tiny_policy(folder, steps=1)


def test_it_learns_and_a_seed_fixes_every_weight(folder: Path, tmp_path: Path) -> None:
    from pluralrm.training.tiny import tiny_policy

    losses: list[float] = []
    tiny_policy(tmp_path / "other", steps=25, seed=1, progress=lambda _, loss: losses.append(loss))
    assert losses[-1] < losses[0] - 1
    again = tiny_policy(tmp_path / "again", steps=2)
    weights = [(one / "model.safetensors").read_bytes() for one in (folder, again, tmp_path / "other")]
    assert weights[0] == weights[1] != weights[2]
