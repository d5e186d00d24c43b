"""The allow-list. Conditions call `allowlist.shown`, and nothing else makes a Query from an Item."""

from pluralrm.core import Item, Query, UserView


def shown(item: Item, user: UserView | None = None) -> Query:
    """Return the Query for an item. This is the allow-list: whatever is not named here, no model sees."""
    return Query(id=item.id, prompt=item.prompt, candidates=item.candidates, user=user)
