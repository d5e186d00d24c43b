"""Judges see neither label nor order: what they are asked about either side is the same but for the answer."""

import re
from collections import defaultdict
from pathlib import Path

from tests.construct.prb.worlds import World, question, text_of

_FENCE = re.compile(r"\[answer [0-9a-f]{20}\]\n.*?\n\[end of answer [0-9a-f]{20}\]", re.DOTALL)


def asked_about(world: World, text: str) -> set[str]:
    """Return the prompts about a text, without the text."""
    found = [prompt for prompt in world.prompts if "[answer " in prompt and text in prompt]
    assert len(found) == len(set(found)) == 8  # quality, three aspects, three opposites, coverage
    return {_FENCE.sub("(answer)", prompt) for prompt in found}


def test_the_same_is_asked_of_all_three_answers_of_a_record(tmp_path: Path) -> None:
    world = World()
    world.built(tmp_path / "b", 6)
    for number in range(6):
        name = f"q{number:03}"
        chosen, published, contrary = (
            asked_about(world, text_of(name, side, 0, world.words(name, side)))
            for side in ("chosen", "published", "contrary")
        )
        assert chosen == published == contrary


def test_no_judge_is_shown_two_answers_or_an_id(tmp_path: Path) -> None:
    world = World()
    world.built(tmp_path / "b", 6)
    judged = [prompt for prompt in world.prompts if "[answer " in prompt]
    assert all(len(_FENCE.findall(prompt)) == 1 for prompt in judged)
    bare = " ".join(_FENCE.sub("", prompt) for prompt in judged)
    assert not re.search(r"\b(chosen|rejected|preferred|contrary|published|meet|avoid|answer [A-Z0-9])\b", bare)


def test_who_rates_quality_and_coverage_sees_no_user(tmp_path: Path) -> None:
    world = World()
    world.built(tmp_path / "b", 6)
    shown: dict[str, list[str]] = defaultdict(list)
    for prompt in world.prompts:
        if "[answer " in prompt and "match_score" not in prompt:
            shown[prompt.split("\n")[0]].append(prompt)
    assert len(shown) == 2
    for number in range(6):
        source = question(number).source.model_dump()
        private = [source["narrative"], *(post["text"] for post in source["posts"])]
        private += [one["aspect"] for one in source["aspects"]]
        assert not any(text in prompt for prompts in shown.values() for prompt in prompts for text in private)


def test_the_order_of_the_calls_tells_nothing_of_the_side(tmp_path: Path) -> None:
    world = World()
    world.built(tmp_path / "b", 1)
    kinds = [prompt.split("\n")[0] for prompt in world.prompts if "[answer " in prompt]
    assert kinds[:8] == kinds[8:16] == kinds[16:]
