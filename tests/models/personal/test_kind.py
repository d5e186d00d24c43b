"""`personal:FOLDER`: what it knows of a user is what the query shows, and adapting changes nothing that is shared."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, ContextPair, Post, Query, User, UserView
from pluralrm.errors import ModelError, SpecError
from pluralrm.models import load_model
from pluralrm.models.personal import fitting as disk
from pluralrm.models.personal.algorithms import Fitted, Hyper, load_algorithm, read_settings
from pluralrm.models.personal.fitting import FitRequest, fit, trainable
from pluralrm.models.personal.kind import Personal, user_overlap
from pluralrm.testing import check_reward_model
from tests.models.personal.fits import fitted, world

NUMPY = ("bt", "bt-posts", "lore", "pref", "eb", "knn")
FEW = {"epochs": "3"}
TRAIN = world(40, 2, 8, 1)
BENCH = world(12, 2, 12, 2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("fits")
    return {name: fitted(name, TRAIN, out / name, given=few(name)) for name in NUMPY}


def few(name: str) -> dict[str, str]:
    """Return settings for a fit in a second; of so few users' ways `eb` knows something with a larger ridge alone."""
    return {"eb": {"ridge": "1"}, "knn": {}}.get(name, FEW)


def model(folders: dict[str, Path], name: str, options: str = "") -> Personal:
    found = load_model(f"personal:{folders[name]}{options}")
    assert isinstance(found, Personal)
    return found


def asked(condition: str) -> list[Query]:
    return list(load_condition(condition).queries(BENCH, BENCH.items))


def scores(found: Personal, queries: list[Query]) -> list[tuple[object, ...]]:
    return [verdict.scores for verdict in found.score(queries)]


@pytest.mark.parametrize("name", NUMPY)
def test_one_at_a_time_equals_all_at_once_in_any_order(folders: dict[str, Path], name: str) -> None:
    queries = asked("pairs:4,posts=5")
    together = scores(model(folders, name), queries)
    assert [scores(model(folders, name), [query])[0] for query in queries[:6]] == together[:6]
    assert scores(model(folders, name), queries[::-1]) == together[::-1]


@pytest.mark.parametrize("name", NUMPY)
def test_the_model_keeps_the_contract_of_any_reward_model(folders: dict[str, Path], name: str) -> None:
    check_reward_model(model(folders, name))  # raises where one is broken


@pytest.mark.parametrize("name", NUMPY)
def test_without_pairs_and_posts_all_users_are_the_population(folders: dict[str, Path], name: str) -> None:
    found = model(folders, name)
    bare = scores(found, asked("none"))
    unnamed = [replace(query, user=UserView("somebody")) for query in asked("none")]
    assert scores(found, unnamed) == bare


@pytest.mark.parametrize(
    ("name", "condition"), [*((name, "pairs:4") for name in ("lore", "pref", "eb", "knn")), ("bt-posts", "recent:5")]
)
def test_what_is_shown_of_the_user_changes_the_scores(folders: dict[str, Path], name: str, condition: str) -> None:
    found = model(folders, name)
    assert scores(found, asked(condition)) != scores(found, asked("none"))


@pytest.mark.parametrize(
    ("name", "condition"), [("bt", "pairs:4,posts=5"), ("bt-posts", "pairs:4"), ("pref", "recent:5")]
)
def test_what_an_algorithm_does_not_adapt_from_changes_nothing(
    folders: dict[str, Path], name: str, condition: str
) -> None:
    found = model(folders, name)
    assert scores(found, asked(condition)) == scores(found, asked("none"))


def test_the_id_of_the_user_is_nothing_to_adapt_from(folders: dict[str, Path]) -> None:
    found, queries = model(folders, "pref"), asked("pairs:4")
    renamed = [replace(query, user=query.user and replace(query.user, id="another")) for query in queries]
    assert scores(found, renamed) == scores(found, queries)


@pytest.mark.parametrize("name", NUMPY)
def test_adapting_changes_no_shared_parameter(folders: dict[str, Path], name: str) -> None:
    found = model(folders, name)
    before = {key: hashlib.sha256(array.tobytes()).hexdigest() for key, array in found._parts.shared.items()}
    scores(found, asked("pairs:8,posts=5"))
    after = {key: hashlib.sha256(array.tobytes()).hexdigest() for key, array in found._parts.shared.items()}
    assert before == after


# ---------------------------------------------------------------- odd users


@cache
def _every_pair() -> list[ContextPair]:
    return [pair for user in BENCH.users for pair in user.preferences]


def pair(number: int, *, turned: bool = False) -> ContextPair:
    every = _every_pair()
    chosen = every[number % len(every)]
    return replace(chosen, preferred=chosen.other, other=chosen.preferred) if turned else chosen


def about(*pairs: ContextPair) -> Query:
    return replace(asked("none")[0], user=UserView("odd", pairs=pairs))


def margin(found: Personal, shown: ContextPair, *pairs: ContextPair) -> float:
    """Return by how much the preferred answer of a pair leads, for a user of whom some pairs are shown."""
    query = Query("q", shown.prompt, (shown.preferred, shown.other), UserView("odd", pairs=pairs))
    (verdict,) = found.score([query])
    first, second = verdict.scores
    assert isinstance(first, float)
    assert isinstance(second, float)
    return first - second


@pytest.mark.parametrize("name", ["lore", "pref", "eb"])
def test_contradictory_pairs_say_that_the_answers_are_equally_good(folders: dict[str, Path], name: str) -> None:
    found, shown = model(folders, name), pair(0)
    before, torn = margin(found, shown), margin(found, shown, shown, pair(0, turned=True))
    assert abs(torn) <= abs(before)
    assert torn * before >= 0


@pytest.mark.parametrize("name", ["lore", "pref", "eb", "knn"])
def test_a_pair_that_was_shown_is_preferred_more_than_before(folders: dict[str, Path], name: str) -> None:
    found, shown = model(folders, name), pair(3)
    assert margin(found, shown, shown) > margin(found, shown) > margin(found, shown, pair(3, turned=True))


@pytest.mark.parametrize("name", NUMPY)
def test_ten_thousand_pairs_are_read_and_give_finite_scores(folders: dict[str, Path], name: str) -> None:
    (verdict,) = model(folders, name).score([about(*(pair(number) for number in range(10_000)))])
    assert not verdict.failures


def test_texts_without_a_known_word_tie(folders: dict[str, Path]) -> None:
    (verdict,) = model(folders, "pref").score([Query("q", "", ("", "…"), UserView("u", pairs=(pair(0),)))])
    assert verdict.scores[0] == verdict.scores[1]


# ---------------------------------------------------------------- stored parameters


@pytest.mark.parametrize("name", ["pref", "eb", "knn"])
def test_stored_parameters_are_taken_for_training_users_alone(folders: dict[str, Path], name: str) -> None:
    stored, adapted = model(folders, name, ",users=stored"), model(folders, name)
    seen, states = disk.read_users(folders[name])
    trained = [item for item in TRAIN.items if item.user and item.user.id in states]
    own = list(load_condition("pairs:4").queries(TRAIN, trained))
    swapped = list(load_condition("pairs:4,of=swapped").queries(TRAIN, trained))
    assert set(states) == set(seen)
    assert scores(stored, own) != scores(adapted, own)
    # Another number of shown pairs is the same person: what is stored comes from all of them.
    assert scores(stored, own) == scores(stored, list(load_condition("pairs:2").queries(TRAIN, trained)))
    # Swapping the pairs swaps the parameters: the partner's are taken, where the partner was trained on.
    assert scores(stored, swapped) != scores(stored, own)
    # The users of another world have the same ids, and are other people.
    assert scores(stored, asked("pairs:4")) == scores(adapted, asked("pairs:4"))


def test_stored_has_no_meaning_without_parameters_of_users(folders: dict[str, Path]) -> None:
    with pytest.raises(SpecError, match="stores none"):
        load_model(f"personal:{folders['bt']},users=stored")
    with pytest.raises(SpecError, match="Did you mean 'stored'"):
        load_model(f"personal:{folders['pref']},users=sored")


def test_users_who_were_trained_on_are_told_of_and_their_namesakes_are_not(folders: dict[str, Path]) -> None:
    found = model(folders, "pref")
    seen, _ = disk.read_users(folders["pref"])
    (told,) = found.met(TRAIN)
    assert f"{len(seen)} of the {len(TRAIN.users)} users" in told
    assert found.met(BENCH) == []


def test_items_that_were_trained_on_are_told_of(folders: dict[str, Path]) -> None:
    seen, _ = disk.read_users(folders["pref"])
    user = next(user for user in TRAIN.users if user.id in seen)
    pair_, item = user.preferences[0], BENCH.items[0]
    stolen = replace(item, prompt=pair_.prompt, candidates=(pair_.other, pair_.preferred), preferred=1)
    (told,) = model(folders, "pref").met(replace(BENCH, items=(stolen, *BENCH.items[1:]), content_hash=""))
    assert "trained on the answers of 1 of the 24 items of simulated, as pairs of its training users" in told
    assert told.endswith("accuracy there may be memory")


@cache
def _crowd(seed: int) -> Benchmark:
    return world(150, 2, 8, seed)


def _hashes(users: Iterable[User]) -> dict[str, frozenset[str]]:
    return {user.id: frozenset(disk.seen_hashes(user)) for user in users}


def _parts_of(user: User) -> dict[str, User]:
    """Return what of a user may be in the training data."""
    half = replace(user, posts=user.posts[: len(user.posts) // 2], preferences=())
    return {
        "all": user,
        "texts": replace(user, preferences=()),
        "half of the texts": half,
        "a pair": replace(user, posts=(), preferences=user.preferences[:1]),
    }


@pytest.mark.parametrize(("train", "test"), [(0, 1), (1, 0), (2, 0), (3, 4), (4, 3)])
def test_strangers_of_one_id_who_wrote_some_equal_posts_are_not_seen(train: int, test: int) -> None:
    trained, users = _hashes(_crowd(train).users), _crowd(test).users
    assert sum(not trained[user.id].isdisjoint(disk.seen_hashes(user)) for user in users) > 20
    assert user_overlap(trained, users) == (0, 0, 0)
    few = dict(list(trained.items())[:40])
    assert user_overlap(few, users) == (0, 0, 0)


@pytest.mark.parametrize("part", ["all", "texts", "half of the texts", "a pair"])
@pytest.mark.parametrize("name", ["", "somebody"])
def test_one_leaked_user_among_many_strangers_is_seen_by_any_name(part: str, name: str) -> None:
    users = _crowd(1).users
    leaked = _parts_of(users[7])[part]
    trained = {**_hashes(_crowd(0).users), **_hashes([replace(leaked, id=name or leaked.id)])}
    same, renamed, partly = user_overlap(trained, users)
    assert (same, renamed) == ((0, 1) if name else (1, 0))
    assert (partly > 20) == (not name)  # where one id is the same person, so may others be


def test_a_little_of_everybody_is_no_chance() -> None:
    strangers, users = _crowd(0).users, _crowd(1).users
    trained = _hashes(
        replace(was, posts=(*was.posts, user.posts[0])) for was, user in zip(strangers, users, strict=True)
    )
    assert user_overlap(trained, users) == (0, 0, len(users))


def test_much_of_one_user_is_no_chance_among_strangers_who_write_some_equal_posts() -> None:
    strangers, users = list(_crowd(0).users), _crowd(1).users
    strangers[7] = replace(strangers[7], posts=(*strangers[7].posts, *users[7].posts[:9]))  # 9 of 20
    assert user_overlap(_hashes(strangers), users) == (0, 0, 1)


def test_one_text_of_one_user_is_no_chance_among_users_who_write_what_nobody_else_writes() -> None:
    users = [User(f"u{number}", tuple(Post("", f"{number}, {each}") for each in range(30))) for number in range(60)]
    strangers = [User(user.id, tuple(Post("", f"other {post.text}") for post in user.posts)) for user in users]
    assert user_overlap(_hashes(strangers), users) == (0, 0, 0)
    leaked = replace(strangers[3], posts=(*strangers[3].posts, users[3].posts[0]))
    assert user_overlap(_hashes([*strangers[:3], leaked, *strangers[4:]]), users) == (0, 0, 1)


def test_where_training_users_are_few_any_common_text_of_one_id_is_flagged() -> None:
    users = _crowd(1).users
    few = dict(list(_hashes(_crowd(0).users).items())[:19])
    common = sum(not few[user.id].isdisjoint(disk.seen_hashes(user)) for user in users if user.id in few)
    assert common
    assert user_overlap(few, users) == (0, 0, common)


def test_people_who_judged_some_pairs_of_a_pool_alike_are_not_taken_for_each_other() -> None:
    pool = [ContextPair("", f"q{number}", "this", "that") for number in range(40)]
    people = [
        User(f"u{number}", preferences=tuple(pool[(7 * number + step) % 40] for step in (0, 3, 11)))  # two share one
        for number in range(40)
    ]
    trained, others = _hashes(people[::2]), people[1::2]
    seen = frozenset[str]().union(*trained.values())
    assert any(not seen.isdisjoint(disk.seen_hashes(user)) for user in others)
    assert user_overlap(trained, others) == (0, 0, 0)
    assert user_overlap(trained, [replace(people[0], id="renamed"), *others]) == (0, 1, 0)


def test_the_warnings_say_what_is_known(folders: dict[str, Path]) -> None:
    found = model(folders, "pref")
    seen, _ = disk.read_users(folders["pref"])
    own = next(user for user in TRAIN.users if user.id in seen)
    item = BENCH.items[0]
    renamed = replace(BENCH, items=(replace(item, user=replace(own, id="somebody")), *BENCH.items[2:]), content_hash="")
    (told,) = found.met(renamed)
    assert told == (
        f"{found.spec} was trained on pairs or texts of 1 of the 12 users of simulated, under other ids: the same "
        "people, or others with equal ones"
    )


# ---------------------------------------------------------------- the folder


def files(folder: Path) -> dict[str, str]:
    kept = sorted(file for file in folder.iterdir() if file.name not in {disk.FIT.manifest, ".lock"})
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}


@pytest.mark.parametrize("name", NUMPY)
def test_the_same_seed_gives_the_same_bytes(folders: dict[str, Path], name: str, tmp_path: Path) -> None:
    again = fitted(name, TRAIN, tmp_path / name, given=few(name))
    assert files(again) == files(folders[name])
    assert not list(again.glob("*.npy"))


def test_a_complete_folder_is_left_as_it_is(folders: dict[str, Path]) -> None:
    before = {file: file.stat().st_mtime_ns for file in folders["pref"].iterdir()}
    fitted("pref", TRAIN, folders["pref"], given=FEW)
    assert {file: file.stat().st_mtime_ns for file in folders["pref"].iterdir()} == before


def test_another_fit_does_not_go_into_the_same_folder(folders: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match=r"holds a fit with another settings \("):
        fitted("pref", TRAIN, folders["pref"])
    with pytest.raises(ModelError, match="another algorithm"):
        fitted("lore", TRAIN, folders["pref"], given=FEW)


@pytest.mark.slow
def test_an_interrupted_fit_is_refused_by_the_model_and_starts_anew(tmp_path: Path) -> None:
    class StoppedError(RuntimeError):
        pass

    def stop(_: object) -> None:
        raise StoppedError

    asked_for = FitRequest(read_settings("pref", FEW))
    with pytest.raises(StoppedError):
        fit(TRAIN, asked_for, tmp_path / "pref", log=stop)
    with pytest.raises(ModelError, match="interrupted"):
        load_model(f"personal:{tmp_path / 'pref'}")
    fit(TRAIN, asked_for, tmp_path / "pref")
    assert files(tmp_path / "pref") == files(fitted("pref", TRAIN, tmp_path / "whole", given=FEW))


def test_a_folder_with_other_files_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ModelError, match="holds other files"):
        fitted("bt", TRAIN, tmp_path, given=FEW)


def test_a_kill_before_the_first_manifest_leaves_a_folder_that_can_be_fitted_in(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "bt").mkdir()
    (tmp_path / "bt" / "fit.tmp").write_text('{"status": "inc')
    (tmp_path / "bt" / ".lock").touch()
    assert files(fitted("bt", TRAIN, tmp_path / "bt", given=FEW)) == files(folders["bt"])


def test_a_benchmark_without_pairs_cannot_be_fitted_on(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="labels of items are never trained on"):
        fitted("bt", world(10, 1, 0, 1), tmp_path)


def test_no_label_of_an_item_reaches_a_fit(tmp_path: Path, folders: dict[str, Path]) -> None:
    turned = replace(
        TRAIN,
        items=tuple(replace(item, preferred=1 - (item.preferred or 0)) for item in TRAIN.items),
        content_hash="",
    )
    assert turned.content_hash != TRAIN.content_hash
    assert files(fitted("pref", turned, tmp_path / "turned", given=FEW)) == files(folders["pref"])


def test_users_held_out_are_not_among_those_trained_on(folders: dict[str, Path]) -> None:
    manifest = disk.FIT.read(folders["pref"])
    seen, _ = disk.read_users(folders["pref"])
    assert manifest.trained_on.users == len(seen)
    assert manifest.trained_on.held_out + len(seen) == len(TRAIN.users)
    assert manifest.trained_on.pairs == 8 * len(seen)


def test_shuffled_labels_turn_half_of_the_training_pairs() -> None:
    own, tossed = (
        trainable(TRAIN, FitRequest(read_settings("bt", {}), labels=labels)) for labels in ("own", "shuffled")
    )

    def flat(users: list[User]) -> Iterator[str]:
        return (found.preferred for user in users for found in user.preferences)

    changed = [one != other for one, other in zip(flat(own), flat(tossed), strict=True)]
    assert 0.4 < np.mean(changed) < 0.6


@pytest.mark.parametrize("spoilt", ["shared.safetensors", "users.json", "words.json"])
def test_a_spoilt_file_is_a_message(folders: dict[str, Path], tmp_path: Path, spoilt: str) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folders["pref"], copy)
    (copy / spoilt).write_text("{")
    with pytest.raises(ModelError, match=spoilt):
        load_model(f"personal:{copy}")


def test_what_is_no_fit_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="pluralrm fit"):
        load_model(f"personal:{tmp_path}")
    with pytest.raises(ModelError, match="no such folder"):
        load_model(f"personal:{tmp_path / 'nothing'}")
    (tmp_path / disk.FIT.manifest).write_text(json.dumps({"schema": 1, "algorithm": "bt"}))
    with pytest.raises(ModelError, match="Field required"):
        load_model(f"personal:{tmp_path}")


def test_the_identity_says_what_was_trained_on(folders: dict[str, Path]) -> None:
    identity = model(folders, "pref").identity
    assert "of simulated" in identity["trained on"]
    assert identity["adapts from"] == "pairs"
    assert model(folders, "bt").identity["adapts from"] == "nothing"


def test_a_mixture_lies_on_the_simplex_whatever_is_shown(folders: dict[str, Path]) -> None:
    shared = disk.read_shared(folders["lore"])
    manifest = disk.FIT.read(folders["lore"])
    algorithm = load_algorithm("lore", Hyper("lore", manifest.settings))
    _, states = disk.read_users(folders["lore"])
    for state in states.values():
        assert state["weights"].sum() == pytest.approx(1, abs=1e-5)
        assert (state["weights"] >= 0).all()
    assert isinstance(Fitted(shared, states, ()), Fitted)
    assert algorithm.needs == {"pairs"}
