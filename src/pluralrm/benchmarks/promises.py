"""What a benchmark promises, check by check; loaders keep it, and a benchmark of your own is held to it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal, NamedTuple

from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.errors import BenchmarkError
from pluralrm.plugin import Maker, Wanted, find, source_hash
from pluralrm.specs import Spec
from pluralrm.text import counted


class Finding(NamedTuple):
    """The outcome of one check."""

    check: str
    status: Literal["pass", "warn", "fail"]
    detail: str = ""


def benchmark_findings(benchmark: Benchmark) -> list[Finding]:
    """Return one Finding per check, in a fixed order."""
    items = benchmark.items
    twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
    card = benchmark.card
    nameless = [name for name in ("name", "summary", "licence", "source", "labelled") if not getattr(card, name)]
    return [
        Finding("has items", "pass" if items else "fail", f"{counted(len(items), 'item')}, {_people(items)}"),
        finding("the card is filled in", not nameless, f"empty: {', '.join(nameless)}"),
        finding("item ids are unique", not twice, f"twice: {some(twice)}"),
        _none_of("texts are not empty", items, _has_empty_text),
        _none_of("two or more different candidates", items, _has_no_choice),
        _none_of("one candidate is better than another", items, _has_one_grade),
        _none_of("no two candidates have one text", items, _has_twins, status="warn"),
        _none_of("preferred is a candidate", items, _has_bad_label),
        _none_of("one id per candidate", items, lambda item: len(item.candidate_ids) != len(item.candidates)),
        _none_of("clusters and domains are named", items, lambda item: not (item.cluster and item.domain)),
        finding("one cluster per user id", *_users_are_clusters(items)),
        _none_of("post ids are unique", items, _has_repeated_posts),
        _none_of("post dates are ISO 8601", items, _has_bad_dates),
        _none_of("no context pair holds a preferred answer", items, _leaks_a_pair),
        _none_of("the prompt does not hold the rubric", items, _leaks_the_rubric, status="warn"),
        _position(items),
    ]


def _people(items: Sequence[Item]) -> str:
    users = {item.user.id for item in items if item.user is not None}
    alone = sum(item.user is None for item in items)
    return counted(len(users), "user") + f", {alone:,} without a user" * (0 < alone < len(items))


def _none_of(
    check: str, items: Sequence[Item], broken: Callable[[Item], bool], status: Literal["warn", "fail"] = "fail"
) -> Finding:
    culprits = [item.id for item in items if broken(item)]
    return Finding(check, status if culprits else "pass", f"not so: {some(culprits)}" if culprits else "")


def _has_empty_text(item: Item) -> bool:
    return not all(text.strip() for text in (item.prompt, *item.candidates))


def _has_no_choice(item: Item) -> bool:
    return bool(item.grades) and len(set(item.candidates)) < 2


def _has_one_grade(item: Item) -> bool:
    return len(item.grades) > 1 and len(set(item.grades)) == 1


def _has_twins(item: Item) -> bool:
    return bool(item.grades) and 2 <= len(set(item.candidates)) < len(item.candidates)


def _has_bad_label(item: Item) -> bool:
    return item.preferred is not None and not 0 <= item.preferred < len(item.candidates)


def _has_repeated_posts(item: Item) -> bool:
    posts = item.user.posts if item.user else ()
    return len({post.id for post in posts}) < len(posts)


def holds(pair: Iterable[str], preferred: str) -> bool:
    """Return whether one of a context pair's two answers is an item's preferred one, spaces and case aside.

    The one rule on what a context pair may not show: who has read that answer in it need not know the user, whatever
    was asked, and whichever of the two was preferred.
    """
    return plain(preferred) in map(plain, pair)


def plain(text: str) -> str:
    """Return a text without what makes no difference between answers: kinds of spaces, upper case."""
    return " ".join(text.split()).casefold()


def _leaks_a_pair(item: Item) -> bool:
    best = [item.candidates[index] for index in item.best]
    pairs = item.user.preferences if item.user else ()
    return any(holds((pair.preferred, pair.other), text) for pair in pairs for text in best)


def _leaks_the_rubric(item: Item) -> bool:
    return item.oracle is not None and any(
        len(aspect.aspect) > 20 and aspect.aspect.lower() in item.prompt.lower() for aspect in item.oracle.aspects
    )


def _has_bad_dates(item: Item) -> bool:
    return item.user is not None and not all(is_date(post.date) for post in item.user.posts if post.date)


def is_date(text: str) -> bool:
    """Return whether a text is a date, or a date and a time, in ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _users_are_clusters(items: Sequence[Item]) -> tuple[bool, str]:
    """Return whether the items of a user are of one cluster; the user may stand with other posts at each."""
    seen: dict[str, str] = {}
    for item in items:
        if item.user is not None:
            seen.setdefault(item.user.id, item.cluster)
    split = [item.id for item in items if item.user is not None and seen[item.user.id] != item.cluster]
    return not split, f"another cluster than at an earlier item of the user: {some(split)}"


def _position(items: Sequence[Item]) -> Finding:
    """Return whether preferred candidates stand at each place about equally often (1 in 1,000 by chance).

    Several of one item stand at different places: their counts vary less, by (width - number) / (width - 1).
    """
    from scipy.stats import chi2, chisquare

    places: dict[tuple[int, int], Counter[int]] = {}
    for item in items:
        if 0 < len(item.best) < len(item.candidates):
            places.setdefault((len(item.candidates), len(item.best)), Counter()).update(item.best)
    worst = 1.0
    for (width, number), counts in places.items():
        statistic = chisquare([counts[index] for index in range(width)]).statistic
        worst = min(worst, float(chi2.sf(statistic * (width - 1) / (width - number), width - 1)))
    detail = f"chi-squared p = {worst:.2g}; place candidates with Random(f'{{seed}}:{{item.id}}')"
    return Finding("places are balanced", "pass" if worst > 1e-3 else "warn", "" if worst > 1e-3 else detail)


def finding(check: str, holds: bool, detail: str = "") -> Finding:
    """Return the Finding of a check that passes or fails."""
    return Finding(check, "pass") if holds else Finding(check, "fail", detail)


def some(names: Sequence[str]) -> str:
    """Return the first five names, and how many more there are."""
    return ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


CARD = Card(
    name="python",
    summary="Your own: python:package.module:make, a function that returns a pluralrm.Benchmark.",
    licence="yours",
    source="your module",
    labelled="as your card says",
    citation="as your card says",
    notes="Held to the checks of 'pluralrm check --benchmark' when it is loaded.",
)

_WANTED = Wanted("pluralrm.Benchmark", "package.module:make", BenchmarkError, "'pluralrm list benchmarks'")
_SEED = "seed"


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark that `python:module:make` names; one that breaks a promise is refused with all of them.

    The content is hashed here, whatever the object says of itself.
    """
    maker = find(spec, _WANTED)
    placed = maker.takes(_SEED) and _SEED not in spec.options
    if seed and not placed:
        raise BenchmarkError(
            f"{spec.target!r} has no parameter {_SEED}, so that seed {seed} would change nothing; leave it out, or let "
            f"{spec.target} place the candidates by {_SEED}: int"
        )
    benchmark = _checked(maker.make(**({_SEED: seed} if placed else {})), maker)
    return Benchmark(_card(benchmark.card, maker), benchmark.items, seed if placed else benchmark.seed)


def _checked(product: object, maker: Maker) -> Benchmark:
    name = maker.spec.target
    if not isinstance(product, Benchmark):
        raise BenchmarkError(f"{name!r} made a {type(product).__name__}, wanted a {_WANTED.noun}; see {_WANTED.page}")
    card: object = product.card
    if not isinstance(card, Card):
        raise BenchmarkError(f"{name!r}: card is a {type(card).__name__}, wanted a pluralrm.Card")
    items: object = product.items
    others = [items] if not isinstance(items, tuple) else [item for item in items if not isinstance(item, Item)]
    if others:
        raise BenchmarkError(f"{name!r}: items hold a {type(others[0]).__name__}, wanted a tuple of pluralrm.Item")
    findings: list[Finding] = maker.ask(lambda: benchmark_findings(product), "makes a benchmark that cannot be checked")
    failed = [f"  {finding.check}: {finding.detail}".rstrip(": ") for finding in findings if finding.status == "fail"]
    if failed:
        raise BenchmarkError(f"{name!r} breaks {len(failed)} of {len(findings)} promises:\n" + "\n".join(failed))
    return product


def _card(card: Card, maker: Maker) -> Card:
    """Return the card with the spec and the module's hash in its revision, as `simulated` has its texts' hash."""
    module = "" if maker.file is None else f"module {source_hash(maker.file)}"
    return replace(card, revision=f"{maker.spec} ({'; '.join(filter(None, (card.revision, module)))})")
