import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.texts import read_answer
from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.conditions import load_condition
from pluralrm.core import ContextPair, Failure, Query, UserView, Verdict
from pluralrm.errors import PrivacyError
from pluralrm.models.personal.synthesize import open_summary, open_synthesize
from tests.models.judge.judges import answers

TRAITS = ("steam", "butter")


def pair(rng: random.Random, name: str, liked: str) -> ContextPair:
    other = TRAITS[1 - TRAITS.index(liked)]
    filler = [f"{rng.choice(['rye', 'salt', 'oven'])} {rng.randrange(1000)}" for _ in range(2)]
    return ContextPair(
        name, f"How do I bake number {rng.randrange(1000)}?", f"{filler[0]} {liked}", f"{filler[1]} {other}"
    )


def asked(users: int = 6, pairs: int = 6, items: int = 4) -> tuple[list[Query], list[int]]:
    """Return queries of users who like one of two traits, and the place of the answer that each would choose."""
    queries, right = [], []
    for number in range(users):
        rng = random.Random(f"baker:{number}")
        liked = TRAITS[number % 2]
        shown = tuple(pair(rng, f"u{number}-c{place}", liked) for place in range(pairs))
        for place in range(items):
            one = pair(rng, "", liked)
            turned = rng.random() < 0.5
            candidates = (one.other, one.preferred) if turned else (one.preferred, one.other)
            queries.append(Query(f"u{number}-i{place}", one.prompt, candidates, UserView(f"u{number}", pairs=shown)))
            right.append(int(turned))
    return queries, right


def knows_the_rule(request: ChatRequest) -> str:
    """Choose by what earlier choices or a persona say; without either, say A whatever the answers are."""
    prompt = request.messages[0][1]
    if "You are shown choices" in prompt:
        return f"Wants {liked_in(prompt)} and nothing fancy."
    persona = re.search(r"Wants (steam|butter)", prompt)
    liked = persona[1] if persona else liked_in(prompt)
    letters = [letter for letter, text in answers(prompt).items() if liked and liked in text]
    return f"It has what this person keeps choosing.\n\nResult: {letters[0] if len(letters) == 1 else 'A'}"


def liked_in(prompt: str) -> str:
    preferred = " ".join(re.findall(r"^Preferred: (.*)$", prompt, re.MULTILINE))
    counts = {trait: preferred.count(trait) for trait in TRAITS}
    return max(TRAITS, key=lambda trait: counts[trait]) if any(counts.values()) else ""


def accuracy(verdicts: Iterable[Verdict], right: Sequence[int]) -> float:
    credits_ = []
    for verdict, place in zip(verdicts, right, strict=True):
        mine, other = verdict.scores[place], verdict.scores[1 - place]
        assert not isinstance(mine, Failure)
        assert not isinstance(other, Failure)
        credits_.append(0.5 if mine == other else float(mine > other))
    return sum(credits_) / len(credits_)


def bare(queries: Sequence[Query]) -> list[Query]:
    return [Query(query.id, query.prompt, query.candidates, UserView("u")) for query in queries]


def test_persona_and_demonstrations_find_a_hidden_rule_that_the_plain_judge_cannot_see():
    queries, right = asked()
    model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(knows_the_rule))
    assert accuracy(model.score(queries), right) == 1.0
    assert accuracy(model.score(bare(queries)), right) == 0.5


def test_the_pairs_of_another_user_mislead():
    queries, right = asked()
    lenders = [*queries[4:], *queries[:4]]  # the next user, who likes the other trait
    lent = [replace(query, user=lender.user) for query, lender in zip(queries, lenders, strict=True)]
    model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(knows_the_rule))
    assert accuracy(model.score(lent), right) == 0.0


def test_without_pairs_it_is_the_plain_judge_and_the_transcript_says_so():
    from pluralrm.models.judge import open_judge

    queries = bare(asked()[0])[:3]
    ours, theirs = ScriptedChat(knows_the_rule), ScriptedChat(knows_the_rule)
    mine = list(open_synthesize("synthesizeme:scripted", chat=ours).score(queries))
    plain = list(open_judge("judge:scripted", chat=theirs).score(queries))
    assert [request.messages for request in ours.requests] == [request.messages for request in theirs.requests]
    assert [verdict.scores for verdict in mine] == [verdict.scores for verdict in plain]
    assert all("judged without persona" in verdict.exchanges[0].said for verdict in mine)


def test_a_user_is_read_once_however_many_questions_there_are():
    chat = ScriptedChat(knows_the_rule)
    model = open_synthesize("synthesizeme:scripted", chat=chat)
    queries, _ = asked(users=1)
    list(model.score(queries[:1]))
    first = chat.calls
    list(model.score(queries[1:]))
    assert chat.calls - first == 2 * len(queries[1:])
    personas = [request for request in chat.requests if "You are shown choices" in request.messages[0][1]]
    assert len(personas) == 1


def test_verdicts_do_not_depend_on_the_batch():
    queries, _ = asked()
    together = list(open_synthesize("synthesizeme:scripted", chat=ScriptedChat(knows_the_rule)).score(queries))
    model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(knows_the_rule))
    assert [verdict for query in reversed(queries) for verdict in model.score([query])][::-1] == together


def test_no_trace_is_told_the_label_and_no_held_out_pair_is_in_a_persona():
    chat = ScriptedChat(knows_the_rule)
    queries, _ = asked(users=1, pairs=6)
    list(open_synthesize("synthesizeme:scripted", chat=chat).score(queries[:1]))
    prompts = [request.messages[0][1] for request in chat.requests]
    traces = [prompt for prompt in prompts if prompt.startswith("One person asked")]
    assert len(traces) == 8  # four of six pairs, in both orders
    for one in traces:
        shown = list(answers(one).values())
        assert not any(f"Preferred: {text}" in one for text in shown)
    [persona] = [prompt for prompt in prompts if "You are shown choices" in prompt]
    known = {each.prompt for each in queries[0].user.pairs} if queries[0].user else set()
    assert sum(prompt in persona for prompt in known) <= 4


def test_only_traces_that_foresaw_the_choice_in_both_orders_are_verified():
    """A model that always says A foresees nothing: no persona is written, and no trace is shown as verified."""
    chat = ScriptedChat(lambda _: "The first is better.\nResult: A")
    queries, _ = asked(users=1)
    [verdict] = open_synthesize("synthesizeme:scripted", chat=chat).score(queries[:1])
    assert not any("You are shown choices" in request.messages[0][1] for request in chat.requests)
    assert "persona: none" in verdict.exchanges[0].said
    assert verdict.scores == (0.5, 0.5)


def test_demonstrations_are_those_that_were_right_on_held_out_pairs():
    """A judge that is misled by every demonstration is given none."""

    def contrary(request: ChatRequest) -> str:
        prompt = request.messages[0][1]
        if "You are shown choices" in prompt or "Earlier choices of the same person" in prompt:
            return knows_the_rule(request)
        persona = re.search(r"Wants (steam|butter)", prompt)
        liked = persona[1] if persona else "steam"
        if "Preferred: " in prompt:
            liked = TRAITS[1 - TRAITS.index(liked)]
        [letter] = [letter for letter, text in answers(prompt).items() if liked in text]
        return f"So it is.\nResult: {letter}"

    queries, right = asked()
    verdicts = list(open_synthesize("synthesizeme:scripted", chat=ScriptedChat(contrary)).score(queries))
    assert all("demonstrations: none" in verdict.exchanges[0].said for verdict in verdicts)
    assert accuracy(verdicts, right) == 1.0


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_few_pairs_are_enough_to_be_read(pairs):
    queries, right = asked(pairs=pairs)
    model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(knows_the_rule))
    assert accuracy(model.score(queries), right) == 1.0


def test_an_outage_while_a_user_is_read_leaves_the_items_open_and_is_tried_again():
    down = [True]

    def sometimes(request: ChatRequest):
        if down[0] and request.messages[0][1].startswith("One person asked"):
            return Failure("transport", "connection refused")
        return knows_the_rule(request)

    queries, right = asked(users=2)
    model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(sometimes))
    assert {failure.kind for verdict in model.score(queries) for failure in verdict.failures} == {"transport"}
    down[0] = False
    assert accuracy(model.score(queries), right) == 1.0


def test_what_users_chose_leaves_the_machine_only_where_that_is_allowed():
    queries, _ = asked(users=1)
    with pytest.raises(PrivacyError, match="would be shown what users chose"):
        list(open_synthesize("synthesizeme:m,url=https://judge.example/v1").score(queries))
    chat = ScriptedChat(knows_the_rule)
    chat.sees_posts = False
    with pytest.raises(PrivacyError, match="send=posts"):
        list(open_synthesize("synthesizeme:scripted", chat=chat).score(queries))
    assert chat.calls == 0


def test_identity_names_every_template():
    from pluralrm.templates import load_template

    model = open_synthesize("synthesizeme:scripted,sets=2", chat=ScriptedChat([]))
    assert model.identity["trace"] == load_template("synthesize-trace-v1").hash
    assert model.identity["persona"] == load_template("synthesize-persona-v1").hash
    assert model.identity["sets"] == "2"


# ---------------------------------------------------------------- summary


def summaries(request: ChatRequest) -> str | None:
    """Return a summary of the choices shown, or None where a judge is asked."""
    prompt = request.messages[0][1]
    return f"Wants {liked_in(prompt)} and nothing fancy." if prompt.startswith("Below are choices") else None


def reads_summaries(request: ChatRequest) -> str:
    return summaries(request) or knows_the_rule(request)


def summarised(chat: ScriptedChat, queries: Iterable[Query], options: str = "") -> list[Verdict]:
    return list(open_summary(f"summary:scripted{options}", chat=chat).score(queries))


@pytest.mark.parametrize("pairs", [2, 3, 6, 100])
def test_a_summary_that_predicts_held_out_pairs_is_given_to_the_judge(pairs: int) -> None:
    queries, right = asked(users=2, pairs=pairs)
    verdicts = summarised(ScriptedChat(reads_summaries), queries)
    assert accuracy(verdicts, right) == 1.0
    assert "summary: Wants steam" in verdicts[0].exchanges[0].said


def test_the_best_of_several_summaries_is_chosen_and_the_first_of_equals() -> None:
    texts = iter(["Wants butter.", "Wants steam, and is first.", "Wants steam, and is second.", "Wants butter too."])
    queries, right = asked(users=1)

    def scribe(request: ChatRequest) -> str:
        return next(texts) if summaries(request) else knows_the_rule(request)

    verdicts = summarised(ScriptedChat(scribe), queries)
    assert accuracy(verdicts, right) == 1.0
    account = verdicts[0].exchanges[0].said
    assert account.startswith("summary: Wants steam, and is first.\n")
    assert "held-out pairs: 3; accuracy of each: 0.00, 1.00, 1.00, 0.00; without: 0.50" in account


@pytest.mark.parametrize("liked", ["butter", "neither of the two"])
def test_where_no_summary_predicts_better_than_none_there_is_none(liked: str) -> None:
    """One misleads, the other says nothing: both leave the plain judge."""
    queries, _ = asked(users=1)
    chat = ScriptedChat(lambda request: f"Wants {liked}." if summaries(request) else knows_the_rule(request))
    verdicts = summarised(chat, queries)
    assert all("summary: none" in verdict.exchanges[0].said for verdict in verdicts)
    assert [verdict.scores for verdict in verdicts] == [(0.5, 0.5)] * 4


@pytest.mark.parametrize("pairs", [0, 1])
def test_without_a_pair_to_hold_out_it_is_the_plain_judge(pairs: int) -> None:
    from pluralrm.models.judge import open_judge

    queries, _ = asked(users=1, pairs=pairs)
    ours, theirs = ScriptedChat(reads_summaries), ScriptedChat(reads_summaries)
    verdicts = summarised(ours, queries)
    plain = list(open_judge("judge:scripted", chat=theirs).score(bare(queries)))
    assert [request.messages for request in ours.requests] == [request.messages for request in theirs.requests]
    assert [verdict.scores for verdict in verdicts] == [verdict.scores for verdict in plain]
    assert ("without a summary" if pairs == 0 else "summary: none") in verdicts[0].exchanges[0].said


def test_the_labels_of_held_out_pairs_reach_no_summary() -> None:
    chat = ScriptedChat(reads_summaries)
    queries, _ = asked(users=1, pairs=6)
    summarised(chat, queries[:1])
    prompts = [request.messages[0][1] for request in chat.requests if summaries(request)]
    assert len(prompts) == 4
    pairs = queries[0].user.pairs if queries[0].user else ()
    assert sum(any(pair.prompt in prompt for prompt in prompts) for pair in pairs) == 3


def test_shuffled_labels_of_the_pairs_shown_are_worth_no_more_than_no_pairs() -> None:
    queries, right = asked(users=40, pairs=8, items=1)
    rng = random.Random(0)

    def tossed(pair: ContextPair) -> ContextPair:
        return pair if rng.random() < 0.5 else replace(pair, preferred=pair.other, other=pair.preferred)

    mixed = [
        replace(query, user=query.user and replace(query.user, pairs=tuple(map(tossed, query.user.pairs))))
        for query in queries
    ]
    assert 0.3 < accuracy(summarised(ScriptedChat(reads_summaries), mixed), right) < 0.7


def test_summaries_do_not_depend_on_the_batch_or_on_who_else_is_read() -> None:
    queries, _ = asked()
    together = summarised(ScriptedChat(reads_summaries), queries)
    model = open_summary("summary:scripted", chat=ScriptedChat(reads_summaries))
    assert [verdict for query in reversed(queries) for verdict in model.score([query])][::-1] == together


def test_an_unreadable_summary_is_not_tried_and_without_a_readable_one_there_is_no_verdict() -> None:
    queries, right = asked(users=1)
    replies = iter(["", "", "Wants steam."])

    def scribe(request: ChatRequest) -> str:
        if request.messages[0][1].startswith("Below are choices"):
            return next(replies, "Wants steam.")
        return knows_the_rule(request)

    assert accuracy(summarised(ScriptedChat(scribe), queries), right) == 1.0
    silent = ScriptedChat(lambda request: "" if summaries(request) else knows_the_rule(request))
    for verdict in summarised(silent, queries):
        assert {failure.kind for failure in verdict.failures} == {"parse"}
        assert "no summary" in verdict.failures[0].detail


def test_an_outage_of_a_summary_leaves_the_items_open_and_is_tried_again() -> None:
    down = [True]

    def sometimes(request: ChatRequest) -> str | Failure:
        return Failure("transport", "refused") if down[0] and summaries(request) else reads_summaries(request)

    queries, right = asked(users=2)
    model = open_summary("summary:scripted", chat=ScriptedChat(sometimes))
    assert {failure.kind for verdict in model.score(queries) for failure in verdict.failures} == {"transport"}
    down[0] = False
    assert accuracy(model.score(queries), right) == 1.0


def test_pairs_leave_the_machine_for_a_summary_only_where_that_is_allowed() -> None:
    queries, _ = asked(users=1)
    with pytest.raises(PrivacyError, match="would be shown what users chose"):
        list(open_summary("summary:m,url=https://judge.example/v1").score(queries))


def test_the_identity_of_a_summary_names_its_template_and_count() -> None:
    from pluralrm.templates import load_template

    model = open_summary("summary:scripted,summaries=2", chat=ScriptedChat([]))
    assert model.identity["summary"] == load_template("synthesize-summary-v1").hash
    assert model.identity["summaries"] == "2"


# ---------------------------------------------------------------- summaries of simulated users


CHOICES = re.compile(
    r"^Preferred: (.*?)\nNot preferred: (.*?)(?=\n\n\[\d+\] Asked: |\n\nAll of the above)", re.MULTILINE | re.DOTALL
)


def levels(text: str) -> set[str]:
    return {f"{attribute}:{level}" for attribute, level in (read_answer(text) or {}).items()}


def counts_attributes(request: ChatRequest) -> str:
    """Summarise choices by the attributes that preferred answers have more often; judge by such a summary alone."""
    prompt = request.messages[0][1]
    if prompt.startswith("Below are choices"):
        counts: Counter[str] = Counter()
        for preferred, other in CHOICES.findall(prompt):
            counts.update(levels(preferred) - levels(other))
            counts.subtract(levels(other) - levels(preferred))
        return f"Wants {' '.join(f'{level}={count}' for level, count in counts.items())} in an answer."
    summary = re.search(r"Wants (\S.*?) in an answer", prompt)
    wants = dict(pair.split("=") for pair in summary[1].split()) if summary else {}
    worth = {
        letter: sum(int(wants.get(level, 0)) for level in levels(text)) for letter, text in answers(prompt).items()
    }
    best = [letter for letter, value in worth.items() if value == max(worth.values())]
    return f"By the summary.\n\nResult: {best[0] if len(best) == 1 else 'A'}"


def earned(users: int, condition: str) -> float:
    benchmark = load_benchmark(f"simulated:users={users},items=2,pairs=16")
    queries = load_condition(condition).queries(benchmark, benchmark.items)
    return accuracy(
        summarised(ScriptedChat(counts_attributes), list(queries)), [item.best[0] for item in benchmark.items]
    )


def test_a_summary_of_simulated_choices_predicts_that_users_next_choices() -> None:
    assert earned(16, "none") == 0.5  # nothing is known, and both orders are asked
    assert earned(16, "pairs:16") > 0.6


@pytest.mark.slow
def test_a_summary_is_worth_twenty_points_with_the_users_own_pairs_and_nothing_with_anothers() -> None:
    own, other = earned(200, "pairs:16"), earned(200, "pairs:16,of=swapped")
    assert 0.65 < own < 0.85
    assert abs(other - 0.5) < 0.075  # three standard errors of 400 items
