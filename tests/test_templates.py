"""Templates render in one pass, in a sandbox, and are named by their hash."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm import templates
from pluralrm.core import ContextPair, Post, Query, UserView
from pluralrm.errors import TemplateError
from pluralrm.templates import Template, load_template, render, template_names


def _query(prompt: str = "Which flour?", *posts: str, notes: tuple[str, ...] = ()) -> Query:
    user = UserView("u", tuple(Post(f"p{n}", text, "baking") for n, text in enumerate(posts)))
    return Query("q", prompt, ("Rye.", "Spelt."), user if posts else None, notes)


def test_a_bare_query_is_the_prompt_and_nothing_else() -> None:
    assert render(_query("Which flour?")) == "Which flour?"


def test_posts_come_in_order_with_index_and_category() -> None:
    text = render(_query("Which flour?", "First.", "Second."))
    assert "[1] (baking) First.\n[2] (baking) Second.\n" in text
    assert text.endswith("Which flour?")


def test_notes_come_first() -> None:
    text = render(_query("Which flour?", "First.", notes=("likes rye",)))
    assert text.index("likes rye") < text.index("First.") < text.index("Which flour?")


@given(st.text(st.sampled_from(list("{}%#[]<>ab \"'\\_."))), st.text(st.sampled_from(list("{}%#ab"))))
def test_braces_in_data_stay_braces(prompt: str, post: str) -> None:
    text = render(_query(prompt, post))
    assert prompt in text
    assert post in text


def test_no_candidate_is_in_the_text_that_asks() -> None:
    assert "Spelt" not in render(_query("Which flour?", "First.", notes=("n",)))


def test_a_conversation_ends_with_the_candidate() -> None:
    messages = load_template().conversation(_query(), 1)
    assert [message.role for message in messages] == ["user", "assistant"]
    assert messages[1].content == "Spelt."


@pytest.mark.parametrize(
    "source",
    [
        "{{ query.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__ }}",
        "{% for x in y %}",
        "{{ query.oracle.narrative }}",
    ],
)
def test_a_template_cannot_reach_out_or_guess(source: str) -> None:
    with pytest.raises(TemplateError):
        Template("mine", source).render(_query())


def test_own_templates_are_read_from_their_path(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text("Q: {{ query.prompt }}", encoding="utf-8")
    template = load_template(str(tmp_path / "mine.jinja"))
    assert template.render(_query("Which?")) == "Q: Which?"
    assert template.hash != load_template().hash


def test_unknown_templates_name_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="Did you mean 'profile-v1'"):
        load_template("profile")
    with pytest.raises(TemplateError, match="cannot read"):
        load_template(str(tmp_path / "none.jinja"))


def test_the_shipped_templates_have_a_version() -> None:
    assert template_names()
    assert all(name.rsplit("-v", 1)[-1].isdigit() for name in template_names())


def test_context_pairs_say_which_answer_was_preferred() -> None:
    pair = ContextPair("c1", "Which oven?", "The {{ hot }} one.", "The cold one.")
    text = render(Query("q", "Which flour?", ("Rye.", "Spelt."), UserView("u", (), (pair,))))
    assert "[1] Asked: Which oven?\nPreferred: The {{ hot }} one.\nNot preferred: The cold one.\n" in text
    assert text.endswith("What this person asks now:\n\nWhich flour?")


JUDGING = {"verifier-v1": 1, "choice-v1": 2}


@pytest.mark.parametrize(("name", "count"), JUDGING.items())
@given(data=st.data())
def test_answers_are_shown_as_they_are(name: str, count: int, data: st.DataObject) -> None:
    hostile = (
        st.text(st.sampled_from(list("{}%#[]<>ab \"'\\_.\n"))) | st.just("{{ answers[1] }}") | st.just("{Response_B}")
    )
    answers = data.draw(st.lists(hostile, min_size=count, max_size=count))
    text = load_template(name).render(_query("Which {{ flour }}?", "First {% raw %}."), answers)
    end = 0
    for expected in ("[1] (baking) First {% raw %}.", "Which {{ flour }}?", *answers):
        start = text.find(expected, end)
        assert start >= end, expected
        end = start + len(expected)


@pytest.mark.parametrize(("name", "count"), JUDGING.items())
def test_a_judging_template_asks_for_this_person_where_something_is_known(name: str, count: int) -> None:
    template, answers = load_template(name), ["Rye."] * count
    known = [
        template.render(_query("?", "First."), answers),
        template.render(_query("?", notes=("likes rye",)), answers),
    ]
    assert all("what this person expects" in text for text in known)
    bare = template.render(_query("?"), answers)
    assert "this person" not in bare
    assert "\n\n\n" not in bare


@pytest.mark.parametrize(("name", "count"), JUDGING.items())
def test_a_judging_template_has_the_posts_and_pairs_of_the_profile(name: str, count: int) -> None:
    pair = ContextPair("c1", "Which oven?", "The hot one.", "The cold one.")
    query = Query("q", "Which flour?", (), UserView("u", (Post("p", "First.", "baking"),), (pair,)), ("likes rye",))
    block = render(query).split("What this person asks now:")[0]
    assert block in load_template(name).render(query, ["Rye."] * count)


def test_a_template_that_leaves_an_answer_out_is_refused() -> None:
    Template("mine", "{{ query.prompt }} {{ answers[0] }}").require_answers(1)
    with pytest.raises(TemplateError, match=r"does not show the answer \{\{ answers\[1\] \}\}"):
        Template("mine", "{{ query.prompt }} {{ answers[0] }}").require_answers(2)
    with pytest.raises(TemplateError, match="does not show the answer"):
        load_template().require_answers(1)


def test_a_template_that_judges_is_not_rendered_without_answers() -> None:
    with pytest.raises(TemplateError):
        load_template("choice-v1").render(_query(), ["Rye."])


SAMPLING = load_template("sample-v1")


def test_the_template_of_a_policy_begins_with_a_system_turn_and_asks_for_one_short_answer() -> None:
    system, asked = SAMPLING.turns(_query("Which flour?", "First.", "Second."))
    assert (system.role, asked.role) == ("system", "user")
    assert "\n" not in system.content
    assert "First." not in system.content
    assert asked.content.index("[1] (baking) First.\n[2] (baking) Second.") < asked.content.index("Which flour?")
    assert "100 words" in asked.content.rpartition("Which flour?")[2]


def test_the_template_of_a_policy_shows_all_that_the_profile_shows() -> None:
    pair = ContextPair("c1", "Which oven?", "The {{ hot }} one.", "The cold one.")
    query = Query("q", "Which {{ flour }}?", (), UserView("u", (Post("p", "First {% raw %}."),), (pair,)), ("rye",))
    assert render(query) in SAMPLING.turns(query)[-1].content


def test_asked_of_nobody_in_particular_a_policy_is_told_of_no_person() -> None:
    text = SAMPLING.turns(_query("Which flour?"))[-1].content
    assert "this person" not in text
    assert "stands above" not in text
    assert "\n\n\n" not in text
    assert text.startswith("The question:\n\nWhich flour?\n")


def test_no_candidate_is_in_what_a_policy_is_asked() -> None:
    told = "".join(turn.content for turn in SAMPLING.turns(_query("Which flour?", "First.", notes=("n",))))
    assert not any(answer in told for answer in ("Rye.", "Spelt."))


def test_a_template_without_a_system_turn_is_one_turn_of_the_user() -> None:
    query = _query("Which flour?", "First.")
    assert load_template().turns(query) == [("user", render(query))]
    assert Template("mine", "{% set system = ' ' %}Q: {{ query.prompt }}").turns(query) == [("user", "Q: Which flour?")]


def test_a_system_turn_is_never_left_out_in_silence() -> None:
    """A judge or a grader sends one text; with half of a template it would be another judge."""
    mine = Template("mine", "{% set system %}Be {{ answers | length }}.{% endset %}{{ answers | join }}")
    with pytest.raises(TemplateError, match="'mine' sets a system turn"):
        mine.require_answers(1)
    with pytest.raises(TemplateError, match="'sample-v1' sets a system turn"):
        render(_query(), "sample-v1")
    conversation = SAMPLING.conversation(_query(), 1)
    assert [turn.role for turn in conversation] == ["system", "user", "assistant"]
    assert conversation[-1].content == "Spelt."


HASHES = {
    "choice-v1": "e702c5c7028c0901",
    "judge-verifier-v1": "e07c56e6bd4d471c",
    "listwise-v1": "3d0a78c371b2f8f0",
    "pairwise-v1": "98469a739dde6e48",
    "pointwise-v1": "a53431e92cd1a6b9",
    "profile-v1": "6bde96f765fdac53",
    "sample-v1": "55eaf1042e5466aa",
    "verifier-v1": "a53570faacf6c598",
}
"""Of runs from before the user's text had a file of its own: they are resumed under the same hash."""


@pytest.mark.parametrize("name", HASHES)
def test_what_a_template_includes_is_part_of_its_source(name: str) -> None:
    template = load_template(name)
    assert template.hash.startswith(HASHES[name])
    assert "include" not in template.source


def test_one_file_writes_the_user_of_every_template(tmp_path: Path) -> None:
    """Of the shipped ones none writes notes itself, and one of the user's own may include the same file."""
    folder = Path(templates.__file__).parent
    writing = ("in query.notes", "in pairs", "post.category")
    found = {file.name for file in folder.glob("*.jinja") if all(words in file.read_text() for words in writing)}
    assert found == {"user.jinja"}
    (tmp_path / "mine.jinja").write_text(
        '{% set pairs, posts = query.user.pairs, query.user.posts %}\n{% include "user.jinja" %}\n{{ query.prompt }}'
    )
    query = _query("Which flour?", "First.", notes=("likes rye",))
    mine, shipped = load_template(str(tmp_path / "mine.jinja")).render(query), render(query)
    assert mine == shipped.replace("What this person asks now:\n\n", "")
