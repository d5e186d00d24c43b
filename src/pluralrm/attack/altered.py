"""The attacked benchmark: an ordinary one, whose rejected answers an attack has changed."""

from collections.abc import Mapping
from dataclasses import replace

from pluralrm.attack.table import Attack
from pluralrm.attack.target import Target, aim
from pluralrm.conditions.others import partners
from pluralrm.core import Benchmark, Condition, Item, User


def attacked(benchmark: Benchmark, attack: Attack, *, seed: int = 0) -> Benchmark:
    """Return the items that the attack can change, one rejected answer each changed; everything else is as it was.

    Which answer that is depends on the seed and the item alone, so all attacks change the same one.
    """
    partner = partners(benchmark, seed) if attack.quotes else {}
    aims = (aim(item, seed=seed, partner=_beside(item, partner)) for item in benchmark.items)
    items = (_changed(target, attack) for target in aims if target is not None)
    card = replace(
        benchmark.card,
        name=f"{benchmark.card.name}+{attack.name}",
        summary=f"{benchmark.card.name}, where a rejected answer {attack.does}",
        metrics=benchmark.card.metrics[:1],
    )
    return Benchmark(card, tuple(item for item in items if item is not None), benchmark.seed)


def _beside(item: Item, partner: Mapping[tuple[str, str], User]) -> User | None:
    """Return another user of the item's domain, or None where there is nobody else."""
    found = item.user and partner.get((item.domain, item.user.id))
    return None if found == item.user else found


def _changed(target: Target, attack: Attack) -> Item | None:
    text = attack.alter(target)
    return None if text is None else target.changed(text, attack.name)


def unsupported(attack: Attack, benchmark: Benchmark, condition: Condition) -> str | None:
    """Return why an attack has no meaning here, or None."""
    if not attack.quotes:
        return None
    if not benchmark.has_posts:
        return f"{benchmark.card.name} has no posts to quote"
    # Where no post is shown, a post in an answer is like any other text; and a model that may not be sent what users
    # wrote is asked for permission by the posts that it is shown.
    if "posts" not in condition.reveals:
        return f"the condition {condition.spec!r} shows the model no posts of the user, so none can be quoted back"
    return None
