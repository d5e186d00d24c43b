"""An adversary who sees every reply but the texts of the items does not learn where the labelled answer stands."""

import http.client
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

from pluralrm.annotate.plan import AnnotationPlan, Screen
from tests.annotate.plans import pair_plan
from tests.annotate.serving import Body, Served, judgment, serving

TEXTS = ("prompt", "answers", "narrative", "posts", "paraphrases")
REPEATS = 3
"""Requests of one screen; the median time counts."""


def first_is_labelled(plan: AnnotationPlan, screen: Screen) -> bool:
    """Return what the adversary wants to know: whether the labelled answer stands at A."""
    return screen.order[0] == plan.item[screen.item].preferred


class Adversary:
    """Everything that one annotator's side can measure of a screen, as numbers."""

    def __init__(self, server: Served, plan: AnnotationPlan, whose: str) -> None:
        self._plan, self._rng = plan, random.Random(whose)
        self._token = server.tokens[whose]
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
        self._state = self._ask("/api/state")[1]

    def close(self) -> None:
        self._connection.close()

    def measure(self, screen: Screen) -> list[float]:
        shown = [self._ask(f"/api/items/{screen.handle}") for _ in range(REPEATS)]
        said = self._ask("/api/judgments", judgment(screen.handle, self._rng))
        place = [one["item"] for one in self._state["items"]].index(screen.handle)
        numbers = [float(place), float(len(self._state["items"])), float(np.median([one[2] for one in shown])), said[2]]
        numbers += self._of_shown(*shown[0][:2])
        return [*numbers, float(len(json.dumps(said[1]))), *_names(said[1]), *_names(said[0])]

    def _of_shown(self, headers: Body, body: Body) -> list[float]:
        size = int(headers["content-length"]) - sum(len(_sent(body[name])) for name in TEXTS)
        digits = [int(digit, 16) for digit in body["handle"]]
        bits = [digit >> bit & 1 for digit in digits for bit in range(4)]
        plain = [body["number"], body["of"], len(body["posts"]), bool(body["narrative"]), body["example"]]
        return [float(size), *map(float, [*digits, *bits, *plain]), *_names(body), *_names(headers)]

    def _ask(self, path: str, body: Body | None = None) -> tuple[Body, Body, float]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        begun = time.perf_counter()
        self._connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        reply = self._connection.getresponse()
        raw = reply.read()
        return dict(reply.getheaders()), json.loads(raw), 1000 * (time.perf_counter() - begun)


def _sent(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _names(body: Body) -> list[float]:
    """Return the order of the first fields, as numbers."""
    places = {name: float(place) for place, name in enumerate(sorted(body))}
    return [places[name] for name in list(body)[:6]]


def found_out(server: Served, plan: AnnotationPlan, *, trees: int = 100) -> tuple[float, int]:
    """Return how often the adversary is right about items that it was not trained on, and of how many."""
    rows, labels, groups = list[list[float]](), list[bool](), list[str]()
    for whose, screens in plan.by_annotator.items():
        adversary = Adversary(server, plan, whose)
        for screen in screens:
            if screen.kind == "example":  # told once it is judged, by design
                continue
            rows.append(adversary.measure(screen))
            labels.append(first_is_labelled(plan, screen))
            groups.append(screen.item)
        adversary.close()
    forest = RandomForestClassifier(trees, min_samples_leaf=4, max_features=0.3, random_state=0)
    guessed = cross_val_predict(forest, np.array(rows), np.array(labels), groups=groups, cv=GroupKFold(5))
    return float(np.mean(guessed == np.array(labels))), len(labels)


@pytest.mark.parametrize(
    ("size", "trees"), [((20, 4, 16), 40), pytest.param((40, 12, 32), 100, marks=pytest.mark.slow)]
)
def test_every_reply_together_leaves_the_adversary_at_chance(
    tmp_path: Path, size: tuple[int, int, int], trees: int
) -> None:
    people, each, items = size
    plan = pair_plan(people, each=each, items=items)
    with serving(plan, tmp_path / "plan") as server:
        right, asked = found_out(server, plan, trees=trees)
    assert asked >= 2 * people * each
    assert abs(right - 0.5) < 3.5 * math.sqrt(0.25 / asked)


# ---------------------------------------------------------------- what the adversary would find


def _by_handle(plan: AnnotationPlan) -> AnnotationPlan:
    def leaking(screen: Screen) -> Screen:
        digit = int(screen.handle[7], 16) & ~1 | first_is_labelled(plan, screen)
        return replace(screen, handle=f"{screen.handle[:7]}{digit:x}{screen.handle[8:]}")

    return replace(plan, screens=tuple(map(leaking, plan.screens)))


def _by_place(plan: AnnotationPlan) -> AnnotationPlan:
    def sorted_by_label(screens: Sequence[Screen]) -> list[Screen]:
        ordered = sorted(screens, key=lambda screen: first_is_labelled(plan, screen))
        return [replace(screen, place=place) for place, screen in enumerate(ordered)]

    return replace(plan, screens=tuple(one for own in plan.by_annotator.values() for one in sorted_by_label(own)))


Leak = Callable[[bool, Body], Body]


def _by_order(first: bool, shown: Body) -> Body:
    return dict(sorted(shown.items(), reverse=first))


def _by_time(first: bool, shown: Body) -> Body:
    time.sleep(0.004 * first)
    return shown


def _by_size(first: bool, shown: Body) -> Body:
    return {**shown, "handle": shown["handle"], "mode": "validate" + " " * first}


@pytest.mark.parametrize("leak", [_by_handle, pytest.param(_by_place, marks=pytest.mark.slow)])
def test_a_leak_of_the_plan_is_found(tmp_path: Path, leak: Callable[[AnnotationPlan], AnnotationPlan]) -> None:
    plan = leak(pair_plan(6, each=3, items=40))
    with serving(plan, tmp_path / "plan") as server:
        right, _ = found_out(server, plan, trees=40)
    assert right > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("leak", [_by_order, _by_time, _by_size])
def test_a_leak_of_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leak: Leak) -> None:
    plan = pair_plan(6, each=3, items=40)
    with serving(plan, tmp_path / "plan") as server:
        assert server.desk is not None
        honest = server.desk.screen

        def leaking(annotator: str, handle: str) -> Body | None:
            shown = honest(annotator, handle)
            return shown and leak(first_is_labelled(plan, plan.screen[handle]), shown)

        monkeypatch.setattr(server.desk, "screen", leaking)
        right, _ = found_out(server, plan)
    assert right > 0.8
