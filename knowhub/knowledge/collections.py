"""The collections of knowledge: records, votes, outcomes, and impressions."""

from typing import Final

from knowhub.core.collection import Collection, Computed, OnDelete, Reference
from knowhub.knowledge import decisions
from knowhub.knowledge.feedback import evidence
from knowhub.knowledge.feedback.impressions import IMPRESSIONS
from knowhub.knowledge.feedback.outcomes import OUTCOMES
from knowhub.knowledge.model import COLLECTION
from knowhub.knowledge.table import KNOWLEDGE_TABLE

_KINDS: Final = ("helpful", "harmful")

KNOWLEDGE: Final = Collection(
    COLLECTION,
    references=(
        Reference("supersedes", COLLECTION, OnDelete.FORBID),
        Reference("merged_into", COLLECTION, OnDelete.KEEP, excluded_by="supersedes"),
    ),
    counters=frozenset((*above, kind) for above in (("eval",), ("eval", "effective")) for kind in _KINDS),
    append_only=frozenset(("eval", f"{kind}_history") for kind in _KINDS),
    computed=(
        Computed(frozenset({("eval", "confidence")}), evidence.rebuild_confidence),
        Computed(frozenset({("eval", "effective")}), evidence.rebuild_weight),
    ),
    validate=decisions.validate,
    erase=decisions.ERASE_RULES,
    table=KNOWLEDGE_TABLE,
)
VOTES: Final = Collection(
    evidence.VOTES,
    references=(Reference("knowledge_id", COLLECTION, OnDelete.KEEP, limits_visibility=True),),
    append_only=frozenset({("votes",)}),
    computed=(Computed(frozenset({("deleted",)}), evidence.rebuild_votes),),
    is_evidence=True,
)
COLLECTIONS: Final = (
    KNOWLEDGE,
    VOTES,
    Collection(OUTCOMES, is_evidence=True),
    Collection(IMPRESSIONS, is_undoable=False),
)
