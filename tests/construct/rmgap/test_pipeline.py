"""The pipeline as a whole: what is written anew, who is asked, what each of them knows."""

from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks.rmgap import KEYS
from pluralrm.chat import ChatModel, ScriptedChat
from pluralrm.construct.rmgap import Responses, Tailored
from pluralrm.construct.rmgap.stages import rows
from pluralrm.core import Failure
from tests.construct.rmgap.scripted import Script, asked_by, fenced
from tests.construct.rmgap.worlds import build_of, chats, marked, prose, reasons, requests

# ---------------------------------------------------------------- what is written anew, and what is judged


def test_only_the_refused_response_is_written_anew_and_nothing_is_judged_unchanged(tmp_path: Path) -> None:
    one = prose(0)
    first = one["response"][2]["attempt"][0]
    one["response"][2]["attempt"] = [{**first, "quality": 4}, {"text": "A better dry answer.", "quality": 8}]
    models = chats(Script([one]))
    built = build_of([one], tmp_path, models=models)
    [record] = built.kept
    assert [written.turn for written in record[Responses].texts] == [0, 0, 1, 0]
    assert record[Responses].texts[2].text == "A better dry answer."
    assert built.funnel.stages[5].attempts == 2
    written = [request for name in ("prose-a", "prose-b") for request in requests(models[name])]
    assert len(written) == 5
    shown = [frozenset(texts.values()) for texts in _shown(models["reviewer-a"], "build-review-responses-v1")]
    assert len(shown) == len(set(shown)) == 2  # the set once before and once after: never the same texts twice


def test_a_text_that_comes_back_unchanged_is_not_judged_again(tmp_path: Path) -> None:
    one = prose(0)
    one["response"][2]["attempt"] = [{**one["response"][2]["attempt"][0], "quality": 4}]  # the last holds for all
    models = chats(Script([one]))
    assert reasons(build_of([one], tmp_path, models=models)) == {"responses": {"unchanged": 1}}
    assert len(_shown(models["reviewer-a"], "build-review-responses-v1")) == 1


def test_a_lenient_second_look_does_not_save_what_was_refused(tmp_path: Path) -> None:
    one = prose(0)
    marked(one["prompt"][1], quality=2)
    models = chats(Script([one]))
    build_of([one], tmp_path, models=models)
    shown = _shown(models["reviewer-b"], "build-review-prompts-v1")
    assert [len([name for name in names if name.startswith("prompt p")]) for names in shown] == [4, 1, 1]


def test_the_models_of_the_responses_are_named(tmp_path: Path) -> None:
    one = prose(0)
    one["response"][2]["attempt"] = [
        {**one["response"][2]["attempt"][0], "quality": 4},
        {"text": "Better.", "quality": 8},
    ]
    built = build_of([one], tmp_path)
    [row] = rows(built.kept, built.pools)
    first, second = built.pools.models("generator", row.id)
    assert row.models == {"response1": first, "response2": first, "response3": second, "response4": first}
    assert [group.winner for group in row.prompt_groups] == list(KEYS)


def test_a_released_row_keeps_the_prompt_that_its_prompts_were_tailored_from(tmp_path: Path) -> None:
    one = prose(0)
    built = build_of([one], tmp_path)
    [row] = rows(built.kept, built.pools)
    assert row.original_prompt == one["text"]
    file = tmp_path / "row.jsonl"
    file.write_text(row.model_dump_json(exclude_none=True), encoding="utf-8")
    assert {item.prompt for item in load_benchmark(f"rmgap:{file},prompts=original").items} == {one["text"]}
    assert one["text"] not in {item.prompt for item in load_benchmark(f"rmgap:{file}").items}


def test_where_a_model_writes_nothing_the_next_of_the_pool_does_and_is_named(tmp_path: Path) -> None:
    one = prose(0)
    models = chats(Script([one]))
    models["prose-a"] = ScriptedChat(lambda _request: Failure("refused", "withheld"), name="prose-a")
    built = build_of([one], tmp_path, models=models)
    [row] = rows(built.kept, built.pools)
    assert row.models == dict.fromkeys(KEYS, "prose-b")


def test_the_chair_is_asked_only_where_two_reviewers_disagree(tmp_path: Path) -> None:
    split = [prose(number) for number in range(4)]
    split[0]["response"][1]["attempt"][0]["quality"] = [8, 5, 9]
    models = chats(Script(split))
    assert not reasons(build_of(split, tmp_path / "passed", models=models))
    assert len(_shown(models["chair"], "build-review-responses-v1")) == 1
    marked(split[0]["response"][1])
    for one in split[0]["response"][1]["attempt"]:
        one["quality"] = [8, 5, 6]
    assert reasons(build_of(split, tmp_path / "refused")) == {"responses": {"quality": 1}}


# ---------------------------------------------------------------- who knows what


def _shown(model: ChatModel, template: str) -> list[dict[str, str]]:
    return [fenced(prompt) for prompt in requests(model) if asked_by(prompt) == template]


def test_no_judge_is_told_styles_or_which_prompt_is_for_which_response(tmp_path: Path) -> None:
    made = [prose(number) for number in range(40)]
    models = chats(Script(made))
    built = build_of(made, tmp_path, models=models)
    kept = {record[Tailored].texts[0].text: record for record in built.kept}
    aligned = total = 0
    for name in ("reviewer-a", "reviewer-b", "chair"):
        for prompt in requests(models[name]):
            assert "Formality" not in prompt
            assert "highly" not in prompt
        for shown in _shown(models[name], "build-review-prompts-v1"):
            texts = list(shown.values())[1:]
            record = next(kept[text] for text in texts if text in kept)
            places = [written.text for written in record[Responses].texts], [one.text for one in record[Tailored].texts]
            answers, prompts = [places[0].index(t) for t in texts[:4]], [places[1].index(t) for t in texts[4:]]
            aligned += sum(one == other for one, other in zip(answers, prompts, strict=True))
            total += 4
    assert total == 320
    assert 50 <= aligned <= 115  # 80 by chance, sd 8.9: the order of one tells nothing of the other


def test_the_blind_judge_sees_every_response_at_two_places_and_no_target(tmp_path: Path) -> None:
    made = [prose(number) for number in range(40)]
    models = chats(Script(made))
    built = build_of(made, tmp_path, models=models)
    place = {
        text.text: (number, {one.text: index for index, one in enumerate(record[Responses].texts)})
        for record in built.kept
        for number, text in enumerate(record[Tailored].texts)
    }
    seen: dict[str, list[list[int]]] = {}
    for shown in _shown(models["chair"], "build-pick-v1"):
        prompt, *texts = shown.values()
        seen.setdefault(prompt, []).append([place[prompt][1][text] for text in texts])
    assert len(seen) == 160
    letters = [0, 0, 0, 0]
    for prompt, (one, other) in seen.items():
        assert all(first != second for first, second in zip(one, other, strict=True))
        letters[one.index(place[prompt][0])] += 1
    assert min(letters) >= 20  # 40 each by chance, sd 5.5


# ---------------------------------------------------------------- what cannot be read


@pytest.mark.parametrize(
    ("template", "stage"),
    [
        ("build-rate-prompt-v1", "ratings"),
        ("build-review-responses-v1", "responses"),
        ("build-review-prompts-v1", "prompts"),
        ("build-pick-v1", "unique"),
        ("build-review-paraphrases-v1", "paraphrases"),
    ],
)
@pytest.mark.parametrize("said", ["A>B>C>D", "{}"])
def test_a_verdict_that_cannot_be_read_refuses(template: str, stage: str, said: str, tmp_path: Path) -> None:
    one = prose(1)
    for entry in one["response"] + one["prompt"]:
        marked(entry)
    for entry in one["prompt"]:
        entry["paraphrases"] = [[f"{text}{' Well?' * number}" for number in range(3)] for text in entry["paraphrases"]]

    def garbled(_model: str, prompt: str, right: str) -> str:
        return said if asked_by(prompt) == template else right

    built = build_of([one], tmp_path, models=chats(Script([one]), garbled))
    assert reasons(built) == {stage: {"unjudged": 1}}
