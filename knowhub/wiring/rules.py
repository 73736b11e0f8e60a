"""What undo and erasing must know of each collection."""

from typing import Final

from knowhub.audit.pasted_secrets import withheld_secrets
from knowhub.context import model as context
from knowhub.context import row_rules as context_rules
from knowhub.context.commit.archive_builder import ArchiveBuilder
from knowhub.core.erasing import EraseRules
from knowhub.core.undo import RowRules
from knowhub.identity import uses
from knowhub.identity.model import API_KEYS
from knowhub.keywords import decisions as keyword_decisions
from knowhub.keywords import info_decisions
from knowhub.keywords import model as keywords
from knowhub.knowledge import decisions as knowledge_decisions
from knowhub.knowledge import model as knowledge
from knowhub.knowledge import outcome, votes
from knowhub.operations.model import Discretion
from knowhub.resources import decisions as resource_decisions
from knowhub.resources import model as resources
from knowhub.search.simplified import simplified
from knowhub.usecases.spoken_memories import KnowledgeSpeech

UNDO_RULES: Final[dict[str, RowRules]] = {
    knowledge.COLLECTION: votes.RECORD_RULES,
    keywords.KEYWORDS: keyword_decisions.KEYWORD_RULES,
    keywords.INFOS: info_decisions.INFO_RULES,
    keywords.LINKS: info_decisions.LINK_RULES,
    outcome.OUTCOMES: outcome.UNDO_RULES,
    votes.VOTES: votes.UNDO_RULES,
    resources.RESOURCES: resource_decisions.UNDO_RULES,
    context.NODES: context_rules.node_rules(ArchiveBuilder(KnowledgeSpeech(simplified), withheld_secrets).extracted),
    context.PARTS: context_rules.PART_RULES,
}
ERASE_RULES: Final[dict[str, EraseRules]] = {
    knowledge.COLLECTION: knowledge_decisions.ERASE_RULES,
    keywords.KEYWORDS: keyword_decisions.ERASE_RULES,
    keywords.INFOS: info_decisions.ERASE_RULES,
    resources.RESOURCES: resource_decisions.ERASE_RULES,
    context.NODES: context_rules.ERASE_NODE,
    context.PARTS: context_rules.ERASE_PART,
}
# Keys are not among those above: no undo and no snapshot brings back what was revoked.
DISCRETION: Final = Discretion(
    withheld={API_KEYS: frozenset({"hash"}), resources.RESOURCES: frozenset({resource_decisions.SEALED})},
    quiet=frozenset({uses.OP}),
    leans={
        votes.VOTES: lambda row: (knowledge.COLLECTION, row["knowledge_id"]),
        resources.REVEALS: lambda row: (resources.RESOURCES, row["id"]),
    },
)
