import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pluralrm.conditions import load_condition
from pluralrm.conditions.pairs import Source, labelled
from pluralrm.core import Benchmark, ContextPair, Item, Post, Query, User
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, RunError
from tests.builders import card
from tests.models.personal.tastes import quietly, settings

if TYPE_CHECKING:
    from pluralrm.models.personal.algorithms import Epoch
    from pluralrm.models.personal.text import TextJob

pytestmark = pytest.mark.hf

WORDS = "dough crust oven flour rest fold salt rye".split()  # noqa: SIM905 - as long as a list
QUICK = {"epochs": 6, "rate": 0.01, "batch": 8, "dropout": 0.0, "patience": 6, "lora": 8}


def kitchen(users: int = 24, pairs: int = 4, *, width: int = 2) -> Benchmark:
    """Return users who all prefer the answer that speaks of steam; items have the same law as pairs."""
    return Benchmark(card("kitchen"), tuple(_item(number, pairs, width) for number in range(users)))


def _item(number: int, pairs: int, width: int) -> Item:
    rng = random.Random(f"kitchen:{number}")

    def text(extra: str = "") -> str:
        words = [rng.choice(WORDS) for _ in range(5)]
        return " ".join([*words, extra] if extra else [*words, rng.choice(WORDS)])

    known = tuple(ContextPair(f"c{place}", text(), text("steam"), text()) for place in range(pairs))
    user = User(f"u{number}", (Post("p0", text()), Post("p1", text())), known)
    candidates = [text("steam"), *(text() for _ in range(width - 1))]
    place = rng.randrange(width)
    candidates[0], candidates[place] = candidates[place], candidates[0]
    return Item(f"i{number}", text(), tuple(candidates), place, user.id, "Bread", user=user)


def queries(benchmark: Benchmark, condition: str = "none", source: Source = "pairs") -> Mapping[str, Sequence[Query]]:
    return labelled(benchmark, load_condition(condition), source)


def job(base: Path, labelled: Mapping[str, Sequence[Query]], **given: object) -> "TextJob":
    from pluralrm.models.personal.text import TextJob

    return TextJob(f"hf:{base}", labelled, settings("bt-text", **{**QUICK, **given}), {"benchmark": "kitchen"})


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    from tests.models.neural.tiny import reward_folder

    return reward_folder(tmp_path_factory.mktemp("base") / "base", initializer_range=0.05)


@pytest.fixture(scope="module")
def fitted(base, tmp_path_factory):
    from pluralrm.models.personal.text import fit_text

    out = tmp_path_factory.mktemp("fit") / "out"
    return fit_text(job(base, queries(kitchen())), out, log=quietly)


def accuracy(spec: str, benchmark: Benchmark) -> float:
    from pluralrm.models import load_model

    asked = [Query(item.id, item.prompt, item.candidates) for item in benchmark.items]
    right = [
        np.argmax(verdict.scores) == item.preferred
        for item, verdict in zip(benchmark.items, load_model(spec).score(asked), strict=True)
    ]
    return float(np.mean(right))


def test_the_loss_falls_and_unseen_items_are_foreseen(base, fitted):
    assert fitted.curve[-1].training < 0.6 < fitted.curve[0].training + 0.2
    assert min(epoch.held_out for epoch in fitted.curve) < 0.5
    unseen = kitchen(60)
    assert accuracy(f"hf:{fitted.folder}", unseen) > 0.8
    assert accuracy(f"hf:{base}", unseen) < 0.7


def test_what_is_trained_is_what_is_scored(fitted):
    """The losses in the folder are those of the rewards that hf: gives to the held-out pairs."""
    from pluralrm.models import load_model
    from pluralrm.models.personal.examples import split_held_out

    labelled = queries(kitchen())
    aside = split_held_out(
        {name: [(one.prompt, one.candidates) for one in queries] for name, queries in labelled.items()}, 0.15, 0
    )
    asked = [query for cluster in labelled if cluster in aside for query in labelled[cluster]]
    scores = np.array([verdict.scores for verdict in load_model(f"hf:{fitted.folder}").score(asked)])
    losses = np.log1p(np.exp(scores[:, 1] - scores[:, 0]))
    assert losses.mean() == pytest.approx(min(epoch.held_out for epoch in fitted.curve), abs=1e-4)


def test_the_doctor_finds_nothing_wrong_with_the_folder(fitted):
    from pluralrm.doctor import examine, is_neural
    from pluralrm.models import load_model

    model = load_model(f"hf:{fitted.folder}")
    assert is_neural(model)
    assert not examine(model, kitchen(), load_condition("none")).red


def test_the_folder_holds_no_pickle_and_no_adapter_and_the_tokenizer_of_the_base(base, fitted):
    names = {file.name for file in fitted.folder.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "fit-text.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt"))]
    assert "adapter_config.json" not in names
    assert (fitted.folder / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()
    assert json.loads((fitted.folder / "fit-text.json").read_text())["inputs"]["benchmark"] == "kitchen"


def test_merged_and_unmerged_adapters_give_the_same_rewards(base):
    import torch

    from pluralrm.models.neural.trees import pooled
    from pluralrm.models.personal.text import _adapted, _loaded, rewards, seeded

    folder = job(base, {}).opened()
    with seeded(0):
        model = _adapted(_loaded(folder), settings("bt-text", **QUICK))
        for name, weights in model.named_parameters():
            if "lora_B" in name:  # they begin at 0, and would leave everything as it is
                torch.nn.init.normal_(weights, std=0.05)
    asks = [pooled(tuple(range(5, 5 + length)), None) for length in (3, 9, 30)]
    model.eval()
    with torch.no_grad():
        before = rewards(model, asks)
        after = rewards(model.merge_and_unload(), asks)
        bare = rewards(_loaded(folder).eval(), asks)
    np.testing.assert_allclose(after, before, atol=1e-5)
    assert (abs(after - bare) > 1e-3).any()


def test_padding_changes_no_reward(base):
    import torch

    from pluralrm.models.neural.trees import pooled
    from pluralrm.models.personal.text import _loaded, rewards

    model = _loaded(job(base, {}).opened()).eval()
    asks = [pooled(tuple(range(5, 5 + length)), None) for length in (3, 9, 30)]
    with torch.no_grad():
        together = rewards(model, asks)
        alone = torch.cat([rewards(model, [ask]) for ask in asks])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_loss_of_a_group_is_that_of_the_winner_against_all():
    import torch

    from pluralrm.models.neural.trees import StateRequest
    from pluralrm.models.personal import text

    rows = [[0.3, -1.0, 2.0, 0.5], [1.5, 0.2]]
    places = iter(range(6))
    groups = [[StateRequest((next(places),), (0,)) for _ in row] for row in rows]
    rewards = torch.tensor([0.3, -1.0, 2.0, 0.5, 1.5, 0.2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "rewards", lambda _, asks: rewards[[ask.ids[0] for ask in asks]])
        found = text.group_losses(torch.nn.Linear(1, 1), groups)
    by_hand = [-np.log(np.exp(row[0]) / np.exp(row).sum()) for row in rows]
    np.testing.assert_allclose(found, by_hand, rtol=1e-6)
    assert by_hand[1] == pytest.approx(np.log1p(np.exp(0.2 - 1.5)))  # two answers: Bradley-Terry


def test_groups_of_four_train_from_items(base, tmp_path):
    from pluralrm.models.personal.text import fit_text

    bench = kitchen(60, 0, width=4)
    found = fit_text(job(base, queries(bench, source="items"), epochs=8), tmp_path / "out", log=quietly)
    assert found.groups == 60
    assert accuracy(f"hf:{found.folder}", kitchen(80, 0, width=4)) > 0.5  # chance is .25


def test_a_language_model_begins_as_the_constant_scorer(tmp_path):
    from pluralrm.models.personal.text import fit_text
    from tests.models.neural.tiny import language_folder

    language = language_folder(tmp_path / "lm", initializer_range=0.05)
    told: list[Epoch] = []
    found = fit_text(job(language, queries(kitchen()), lora=0, rate=0.003), tmp_path / "out", log=told.append)
    assert told[0].training < np.log(2) + 0.05
    assert accuracy(f"hf:{found.folder}", kitchen(60)) > 0.8


def test_the_same_command_does_nothing_and_another_is_refused(base, fitted):
    from pluralrm.models.personal.text import fit_text

    before = (fitted.folder / "model.safetensors").stat().st_mtime_ns
    again = fit_text(job(base, queries(kitchen())), fitted.folder, log=quietly)
    assert again.resumed
    assert again.curve == fitted.curve
    assert (fitted.folder / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(RunError, match="found something else"):
        fit_text(job(base, queries(kitchen()), epochs=7), fitted.folder, log=quietly)


def test_a_fit_that_was_stopped_starts_over_and_ends_as_if_it_had_not_been(base, fitted, tmp_path):
    from pluralrm.models.personal.text import fit_text

    def stop(epoch):
        raise KeyboardInterrupt(epoch)

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        fit_text(job(base, queries(kitchen())), out, log=stop)
    assert not out.exists()
    again = fit_text(job(base, queries(kitchen())), out, log=quietly)
    assert again.curve == fitted.curve
    assert (out / "model.safetensors").read_bytes() == (fitted.folder / "model.safetensors").read_bytes()


def test_questions_that_are_too_long_are_left_out_and_counted(base, tmp_path):
    from pluralrm.models.personal.text import TextJob, fit_text

    labelled = dict(queries(kitchen()))
    long = replace(labelled["u0"][0], candidates=("rye " * 400, "salt"))
    labelled["u0"] = [long, *labelled["u0"][1:]]
    limited = TextJob(f"hf:{base},max_tokens=300", labelled, settings("bt-text", **{**QUICK, "epochs": 1}), {})
    found = fit_text(limited, tmp_path / "out", log=quietly)
    assert (found.groups, found.too_long) == (95, 1)


@pytest.mark.parametrize("wrong", ["longest", "judge:m"])
def test_a_base_is_a_folder_of_weights(wrong, tmp_path):
    from pluralrm.models.personal.text import TextJob, fit_text

    with pytest.raises(ModelError, match="wanted hf:FOLDER"):
        fit_text(TextJob(wrong, {}, settings("bt-text"), {}), tmp_path / "out", log=quietly)


# ---------------------------------------------------------------- queries with a known winner


def test_the_pair_that_is_asked_about_is_never_shown():
    for several in queries(kitchen(3, 4), "pairs:4").values():
        for query in several:
            assert query.user is not None
            assert len(query.user.pairs) == 3
            assert query.id.partition(":")[2] not in {pair.id for pair in query.user.pairs}


def test_the_preferred_candidate_stands_first():
    for source in ("pairs", "items"):
        found = queries(kitchen(9, 2, width=2 if source == "pairs" else 4), source=source)
        assert all("steam" in query.candidates[0] for several in found.values() for query in several)
        assert not any(
            "steam" in text for several in found.values() for query in several for text in query.candidates[1:]
        )


def test_what_a_condition_cannot_show_is_said():
    with pytest.raises(ConditionError, match="no rubric to show, in its pairs"):
        queries(kitchen(), "oracle")
    with pytest.raises(BenchmarkError, match="found no labelled pairs"):
        queries(kitchen(4, 0))


def test_posts_are_in_what_is_trained(base):
    bare, with_posts = (job(base, queries(kitchen(4), name)) for name in ("none", "raw:2"))
    folder = with_posts.opened()
    lengths = [
        sum(len(ask.ids) for part in each.groups(folder) for group in part for ask in group)
        for each in (bare, with_posts)
    ]
    assert lengths[1] > 1.5 * lengths[0]
