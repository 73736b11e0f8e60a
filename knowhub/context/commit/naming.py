"""What a node of a topic, an entity or a situation is called: its URI outlives an erasing, so it quotes nobody."""

from typing import Final

from knowhub.context import uri
from knowhub.context.extraction.preference_rules import TOPICS
from knowhub.context.model import Category, MemoryContext
from knowhub.context.spaces import space_of

_DIGITS: Final = 12


def topic_uri(whose: MemoryContext, owner_scope: str, category: Category, key: str) -> str:
    """Return the URI of all that is said under a key: one of the topics that KnowHub knows by itself, else a hash."""
    space, name = space_of(whose, owner_scope), uri.slug(key)
    if category is not Category.PREFERENCES or name not in TOPICS:
        name = uri.stable_hash(whose.account, space, category.value, name)[:_DIGITS]
    return uri.node_uri(whose.account, space, category, name)
