"""The collections of knowledge: records, outcomes, impressions, and the votes of earlier versions."""

from typing import Final

from knowhub.core.collection import Collection, Computed, OnDelete, Reference
from knowhub.knowledge import evidence, record_rules
from knowhub.knowledge.impressions import IMPRESSIONS
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.outcomes import OUTCOMES
from knowhub.knowledge.table import KNOWLEDGE_TABLE

_COUNTERS: Final = (("helpful",), ("harmful",), ("weak", "success"), ("weak", "failure"))
_LISTS: Final = ("helpful_history", "harmful_history", "votes")

KNOWLEDGE_COLLECTION: Final = Collection(
    KNOWLEDGE,
    references=(
        Reference("supersedes", KNOWLEDGE, OnDelete.FORBID),
        Reference("merged_into", KNOWLEDGE, OnDelete.KEEP, excluded_by="supersedes"),
    ),
    counters=frozenset(("eval", *path) for path in _COUNTERS),
    append_only=frozenset(("eval", name) for name in _LISTS),
    computed=(
        Computed(frozenset({("eval", "confidence")}), evidence.rebuild_confidence),
        Computed(frozenset({("eval", "kept_words")}), evidence.rebuild_pending_feedback),
    ),
    validate=record_rules.validate,
    erase=record_rules.ERASE_RULES,
    table=KNOWLEDGE_TABLE,
)
# Rows that earlier versions wrote: the votes of a record are in the record now.
VOTES: Final = Collection(
    "votes",
    references=(Reference("knowledge_id", KNOWLEDGE, OnDelete.KEEP, limits_visibility=True),),
    append_only=frozenset({("votes",)}),
    is_evidence=True,
)
COLLECTIONS: Final = (
    KNOWLEDGE_COLLECTION,
    VOTES,
    Collection(OUTCOMES, is_evidence=True),
    Collection(IMPRESSIONS, is_undoable=False),
)
