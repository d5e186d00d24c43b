"""What is sound passes, and each planted fault is stopped by the gate of its name, and by no other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pluralrm.construct.rmgap.stages import about
from tests.construct.rmgap.worlds import build_of, marked, options, prose, reasons, worded

World = list[dict[str, Any]]
RUN = "so that nobody needs to wait for an answer at the counter"


def world() -> World:
    """Return four records, one of each domain."""
    return [prose(number) for number in range(4)]


def test_sound_records_pass_every_gate(tmp_path: Path) -> None:
    built = build_of([prose(number) for number in range(8)], tmp_path)
    assert built.complete
    assert not reasons(built)
    assert len(built.kept) == 8


def _style_named(one: dict[str, Any]) -> None:
    worded(one["prompt"][1], f"As a nurse I need a concise word on {one['text'].split()[6]}")


def _response_named(one: dict[str, Any]) -> None:
    worded(one["prompt"][1], f"As a nurse I want response 2 about {one['text'].split()[6]}")


def _fits_two(one: dict[str, Any]) -> None:
    one["prompt"][2]["attempt"][0]["picked"] = 1


def _fits_none_alone(one: dict[str, Any]) -> None:
    one["prompt"][2]["attempt"][0]["picked"] = 0


def _prompt_quotes(one: dict[str, Any]) -> None:
    worded(one["response"][3], f"The merry answer {RUN}, \\boxed{{{one.get('reference', '')}}}")
    worded(one["prompt"][3], f"As a child I ask, {RUN}, about {one['text'].split()[6]}")


def _copies(one: dict[str, Any]) -> None:
    topic = one["text"].split()[6]
    worded(one["prompt"][0], f"As a baker I ask {RUN} about {topic}")
    copied = [f"{'Well, ' * number}about {topic} I ask {RUN} today" for number in range(3)]
    one["prompt"][0]["paraphrases"][1] = copied


def _paraphrase_names(one: dict[str, Any]) -> None:
    topic = one["text"].split()[6]
    one["prompt"][2]["paraphrases"][0] = [f"Answer C on {topic} is what I{' need' * n} need." for n in range(3)]


def _paraphrase_quotes(one: dict[str, Any]) -> None:
    topic = one["text"].split()[6]
    worded(one["response"][2], f"The dry answer on {topic} {RUN}, \\boxed{{{one.get('reference', '')}}}")
    one["prompt"][2]["paraphrases"][1] = [f"For a judge, on {topic} , {RUN}{'!' * number}" for number in range(3)]


def _off_topic(one: dict[str, Any]) -> None:
    one["prompt"][2]["paraphrases"][0] = [f"Where do judges buy zqbread{' now' * number}?" for number in range(3)]


def _another_number(one: dict[str, Any]) -> None:
    topic = one["text"].split()[6]
    one["prompt"][2]["paraphrases"][0] = [f"Help with {topic} within {number + 2} days." for number in range(3)]


def _adds(one: dict[str, Any]) -> None:
    topic = one["text"].split()[6]
    added = [f"Please help with {topic} and with my{' old' * number} bicycle." for number in range(3)]
    one["prompt"][2]["paraphrases"][0] = added
    one["prompt"][2]["meanings"] = dict.fromkeys(added, "added")


def _same(one: dict[str, Any]) -> None:
    one["prompt"][2]["paraphrases"] = [[f"A judge asks about {one['text'].split()[6]}{'.' * n}" for n in range(3)]] * 2


def _unseen_response(one: dict[str, Any]) -> None:
    worded(one["response"][1], f"A long\u202e answer about {one['text'].split()[6]}")


def _endless_response(one: dict[str, Any]) -> None:
    worded(one["response"][1], f"A long answer about {one['text'].split()[6]}: {'o' * 20_000}")


def _unseen_prompt(one: dict[str, Any]) -> None:
    worded(one["prompt"][1], f"As a nurse \x1b[31mI need help with {one['text'].split()[6]}")


def _endless_prompt(one: dict[str, Any]) -> None:
    worded(one["prompt"][1], f"As a nurse I need help with {one['text'].split()[6]} {'o' * 4_100}")


def _unseen_paraphrase(one: dict[str, Any]) -> None:
    hidden = [f"Please help me with {one['text'].split()[6]} :\u200b I judge{'!' * number}" for number in range(3)]
    one["prompt"][2]["paraphrases"][0] = hidden


def _quality(one: dict[str, Any]) -> None:
    marked(one["response"][1], quality=3)


def _wrong(one: dict[str, Any]) -> None:
    worded(one["response"][1], f"A long answer about {one['text'].split()[6]}: \\boxed{{17}}")


def _no_reference(one: dict[str, Any]) -> None:
    del one["reference"]


def _alike(one: dict[str, Any]) -> None:
    one["response"][2]["attempt"] = [
        {"text": f"{one['response'][0]['attempt'][0]['text']}{'!' * number}", "quality": 9} for number in range(3)
    ]


def _set(name: str) -> Callable[[dict[str, Any]], None]:
    def plant(one: dict[str, Any]) -> None:
        one[name] = [5]
        for entry in one["response"]:
            marked(entry)

    return plant


def _prompt_mark(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda one: marked(one["prompt"][3], **{name: 6})


def _rated(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda one: one["ratings"].update({name: 3})


PLANTED: list[tuple[str, str, int, Callable[[dict[str, Any]], None]]] = [
    ("wording", "unchecked", 2, _no_reference),
    ("wording", "role", 0, lambda one: one.update(text=f"Imagine {one['text']}")),
    ("wording", "characters", 0, lambda one: one.update(text=f"{one['text']} \u2019")),
    ("semantic", "similar", 0, lambda one: one.update(text=f"So {prose(1)['text']}")),
    ("exact", "duplicate", 0, lambda one: one.update(text=f"{prose(1)['text'].upper()}!")),
    ("ratings", "rating", 0, _rated("openness")),
    ("ratings", "rating", 3, _rated("overall")),
    ("responses", "quality", 0, _quality),
    ("responses", "answer", 2, _wrong),
    ("responses", "same", 0, _alike),
    ("responses", "format", 0, _unseen_response),
    ("responses", "format", 1, _endless_response),
    ("prompts", "format", 0, _unseen_prompt),
    ("prompts", "format", 1, _endless_prompt),
    ("paraphrases", "format", 0, _unseen_paraphrase),
    ("responses", "diversity", 1, _set("diversity")),
    ("responses", "consistency", 1, _set("consistency")),
    ("prompts", "style_named", 0, _style_named),
    ("prompts", "response_named", 3, _response_named),
    ("prompts", "copied", 1, _prompt_quotes),
    ("prompts", "quality", 1, _prompt_mark("quality")),
    ("prompts", "effectiveness", 1, _prompt_mark("effectiveness")),
    ("prompts", "alignment", 3, _prompt_mark("alignment")),
    ("unique", "unique", 0, _fits_two),
    ("unique", "unique", 2, _fits_none_alone),
    ("paraphrases", "copied", 0, _copies),
    ("paraphrases", "response_named", 0, _paraphrase_names),
    ("paraphrases", "copied", 1, _paraphrase_quotes),
    ("paraphrases", "cosine", 0, _off_topic),
    ("paraphrases", "numbers", 0, _another_number),
    ("paraphrases", "meaning", 1, _adds),
    ("paraphrases", "same", 1, _same),
]


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: "-".join(map(str, fault[:3])))
def test_a_planted_fault_is_stopped_by_its_gate_alone(
    fault: tuple[str, str, int, Callable[[dict[str, Any]], None]], tmp_path: Path
) -> None:
    stage, reason, place, plant = fault
    planted = world()
    plant(planted[place])
    built = build_of(planted, tmp_path)
    assert reasons(built) == {stage: {reason: 1}}
    assert len(built.kept) == 3


def test_a_paraphrase_may_say_what_stands_in_the_seed_prompt_and_the_response_alike(tmp_path: Path) -> None:
    planted = world()
    one = planted[0]
    topic = one["text"].split()[6]
    _paraphrase_quotes(one)
    one["text"] = f"What is to be done now, on {topic} {RUN}?"
    assert not reasons(build_of(planted, tmp_path))


@pytest.mark.parametrize("place", range(4))
def test_a_paraphrase_is_compared_with_the_response_of_its_own_prompt(place: int, tmp_path: Path) -> None:
    """As a prompt is: words of another response may be those of the situation that they share."""
    planted = world()
    one = planted[1]
    topic = one["text"].split()[6]
    worded(one["response"][place], f"An answer on {topic} {RUN}")
    one["prompt"][2]["paraphrases"][1] = [f"For a judge, on {topic} , {RUN}{'!' * number}" for number in range(3)]
    assert reasons(build_of(planted, tmp_path)) == ({"paraphrases": {"copied": 1}} if place == 2 else {})


@pytest.mark.parametrize(("place", "name"), [(2, "openness"), (3, "safety")])
def test_a_rating_that_does_not_suit_the_domain_stops_nobody(place: int, name: str, tmp_path: Path) -> None:
    planted = world()
    planted[place]["ratings"][name] = 0
    assert not reasons(build_of(planted, tmp_path))


# ---------------------------------------------------------------- as published


def test_one_bad_response_among_three_excellent_ones_passes_only_by_the_published_mean(tmp_path: Path) -> None:
    planted = world()
    marked(planted[0]["response"][1], quality=2)
    for place in (0, 2, 3):
        planted[0]["response"][place]["attempt"][0]["quality"] = 9
    assert reasons(build_of(planted, tmp_path / "ours")) == {"responses": {"quality": 1}}
    published = build_of(planted, tmp_path / "published", given=options(rule="mean"))  # (9 + 2 + 9 + 9) / 4 > 7
    assert not reasons(published)
    assert len(published.kept) == 4
    said = about(published, options(rule="mean"), rows_in=4)
    assert any("may hide among three good ones" in warning for warning in said.warnings)
    assert "--as-published" in said.command


def test_the_published_mean_still_stops_a_bad_set(tmp_path: Path) -> None:
    planted = world()
    for entry in planted[0]["response"]:
        marked(entry, quality=6)
    assert reasons(build_of(planted, tmp_path, given=options(rule="mean"))) == {"responses": {"quality": 1}}
