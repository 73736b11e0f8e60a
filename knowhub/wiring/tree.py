"""The services on the keyword tree, built on their ground."""

from dataclasses import dataclass

from knowhub.core.clock import Clock
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.caches import Picks, ResultCache
from knowhub.keywords.curator import Curator
from knowhub.keywords.finding import KeywordSearch
from knowhub.keywords.infos import InfoService
from knowhub.keywords.model import Options
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.recent import Recents
from knowhub.keywords.service import KeywordService
from knowhub.settings import Settings
from knowhub.wiring.ground import Ground


@dataclass(frozen=True, slots=True)
class Kept:
    """What a tree keeps in memory of what was asked: answers, where the settings want them, and recent matches."""

    answers: ResultCache | None
    recents: Recents


@dataclass(frozen=True, slots=True)
class TreeServices:
    """Everything that is done with keywords and infos."""

    keywords: KeywordService
    infos: InfoService
    search: KeywordSearch
    curator: Curator
    agent: KeywordAgent


def kept_by(settings: Settings, clock: Clock) -> Kept:
    """Make room for what is kept, as the settings bound it."""
    answers = None
    if settings.result_cache:
        answers = ResultCache(clock, settings.result_cache_entries, settings.result_cache_bytes)
    return Kept(answers, Recents(settings.recent_keywords))


def tree_on(ground: Ground, text: KeywordText, kept: Kept) -> TreeServices:
    """Build the services; `text` reads names."""
    store, ids, options = ground.store, ground.ids, _options(ground.settings)
    picks = Picks(kept.answers) if kept.answers is not None else None
    agent = KeywordAgent(ground.models.chat, kept.recents, options, picks, ground.decisions.note)
    return TreeServices(
        keywords=KeywordService(store, text, ids, agent, options),
        infos=InfoService(store, text, ids, agent, options, kept.answers),
        search=KeywordSearch(store, text, agent, options, kept.answers, ground.decisions),
        curator=Curator(store, text, ids, agent, options, ground.decisions),
        agent=agent,
    )


def _options(settings: Settings) -> Options:
    return Options(
        max_candidates=settings.max_candidates,
        max_rounds=settings.descend_max_rounds,
        recent_capacity=settings.recent_keywords,
        descent_budget_s=settings.descent_budget_s,
        write_budget_s=settings.llm_write_budget_s,
        describe_candidates=settings.describe_candidates,
        uncategorized_name=settings.uncategorized_name,
        auto_link_creates=settings.auto_link_creates,
    )
