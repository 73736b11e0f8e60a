"""What undo and erasing must know of each collection."""

from typing import Final

from knowhub.core.erasing import EraseRules
from knowhub.core.undo import RowRules
from knowhub.keywords import decisions as keyword_decisions
from knowhub.keywords import info_decisions
from knowhub.keywords import model as keywords
from knowhub.knowledge import decisions as knowledge_decisions
from knowhub.knowledge import model as knowledge
from knowhub.knowledge import outcome

UNDO_RULES: Final[dict[str, RowRules]] = {
    knowledge.COLLECTION: knowledge_decisions.UNDO_RULES,
    keywords.KEYWORDS: keyword_decisions.KEYWORD_RULES,
    keywords.INFOS: info_decisions.INFO_RULES,
    keywords.LINKS: info_decisions.LINK_RULES,
    outcome.OUTCOMES: outcome.UNDO_RULES,
}
ERASE_RULES: Final[dict[str, EraseRules]] = {
    knowledge.COLLECTION: knowledge_decisions.ERASE_RULES,
    keywords.KEYWORDS: keyword_decisions.ERASE_RULES,
    keywords.INFOS: info_decisions.ERASE_RULES,
}
