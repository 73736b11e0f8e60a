"""The verbs of seed 000 §7, each a call into a hub that runs in a thread of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, TypeVar

from knowhub.bootstrap import World
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.keywords.agent_decision import Intent
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.model import InfoPolicy, InfoQuery, NewInfo, NewKeyword, RelationType
from knowhub.keywords.service import Deletion
from knowhub.sdk.llm_client import InjectedModel, StubLLMClient
from knowhub.sdk.open_tree import OpenTree
from knowhub.sdk.values import (
    Info,
    InfoKeywordLink,
    KeywordNode,
    SearchResult,
    info_of,
    link_of,
    node_of,
    result_of,
)
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.settings import Settings

T = TypeVar("T")

_DESCENT_FIELDS = (
    "outcome",
    "node_id",
    "path",
    "candidates",
    "suggested_parent_id",
    "suggested_name",
    "reason",
)


class TreeVerbs:
    """A keyword tree on a data directory, alone or beside a server and other processes on the same one.

    Every method may be called from any thread. A write is durable when it returns; `LastOperationId` is what `Undo`
    takes. Raises the errors of `knowhub.core.errors`; InvalidInput is a ValueError too.
    """

    def __init__(
        self,
        data_dir: str = "./data/keyword_tree",
        llm_client: Any = None,
        mru_capacity: int = 128,
        max_candidates: int = 50,
        descend_max_rounds: int = 6,
        *,
        normalize: Callable[[str], list[str]] | None = None,
        **settings: Any,
    ) -> None:
        """Open the directory, and make it with its root where there is none.

        `llm_client` is any object with `Chat(messages, json_schema)`; without one a StubLLMClient answers that
        everything is missing. `normalize` takes the place of the rules for names (KT-023). `settings` are those of
        the server by their names in lower case; caches of results and the record of a search's decisions are off
        unless `result_cache=True` and `log_agent_decisions=True` (C-35, C-79).
        """
        self._text = KeywordTextRules()
        self._normalize = normalize
        chosen = {
            "data_dir": data_dir,
            "recent_keywords": mru_capacity,
            "max_candidates": max_candidates,
            "descend_max_rounds": descend_max_rounds,
            "result_cache": False,
            "log_agent_decisions": False,
            **settings,
        }
        model = InjectedModel(StubLLMClient() if llm_client is None else llm_client)
        self._tree = OpenTree(Settings(**chosen), World(llm=model, text=_TreeText(self)))
        self.LastOperationId: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.Close()

    def Close(self) -> None:
        """Bring the record files up to the log and let go of the directory; a second time does nothing."""
        self._tree.close()

    def Search(self, query: str, llm_expand_query: bool = True, llm_disambiguate: bool = False) -> SearchResult:
        """Find a keyword: exactly, else by a descent of the model where `llm_expand_query` allows it (KT-149…165)."""
        found = self._tree.run(
            lambda hub, ctx: hub.keyword_search.search(
                ctx, query, expand=llm_expand_query, disambiguate=llm_disambiguate
            )
        )
        return result_of(found)

    def GetKeyword(self, id: str) -> KeywordNode | None:
        """Return a keyword; None when there is none."""
        try:
            return node_of(self._tree.run(lambda hub, ctx: hub.keywords.get(ctx, id)).json)
        except NotFound:
            return None

    def GetChildren(self, id: str) -> list[KeywordNode]:
        """Return the children of a keyword, oldest first. Raises NotFound."""
        return [node_of(row) for row in self._tree.run(lambda hub, ctx: hub.keywords.children(ctx, id))]

    def GetPath(self, id: str) -> list[KeywordNode]:
        """Return the keywords from the root to this one. Raises NotFound."""
        return [node_of(row) for row in self._tree.run(lambda hub, ctx: hub.keywords.path(ctx, id))]

    def GetInfosOfKeyword(
        self, id: str, relation: RelationType | None = None, page: int = 0, size: int = 50
    ) -> list[Info]:
        """Return a page of a keyword's infos, newest first; `page` counts from 0. Raises NotFound, InvalidInput."""
        query = InfoQuery(None if relation is None else RelationType(relation), page, size)
        return [info_of(row) for row in self._tree.run(lambda hub, ctx: hub.infos.of_keyword(ctx, id, query))]

    def GetKeywordsOfInfo(self, info_id: str) -> list[tuple[KeywordNode, RelationType]]:
        """Return the keywords that an info is linked to, each with its relation. Raises NotFound."""
        found = self._tree.run(lambda hub, ctx: hub.infos.keywords_of(ctx, info_id))
        return [(node_of(row), relation) for row, relation, _ in found]

    def CreateKeyword(
        self,
        name: str,
        parent_id: str | None = None,
        aliases: list[str] | None = None,
        description: str = "",
        llm_auto_place: bool = True,
        llm_dedup_check: bool = False,
    ) -> KeywordNode:
        """Create a keyword; without a parent the model finds one, else the root is it (KT-173, KT-219…222)."""
        new = NewKeyword(name, parent_id, tuple(aliases or ()), description)
        done = self._tree.run(
            lambda hub, ctx: hub.keywords.create(ctx, new, auto_place=llm_auto_place, dedup_check=llm_dedup_check)
        )
        self.LastOperationId = done.operation_id
        return node_of(done.row)

    def UpdateKeyword(self, id: str, patch: Mapping[str, Any], version: int | None = None) -> KeywordNode:
        """Change name, aliases, description or metadata of the version that was read. Raises VersionConflict."""
        done = self._tree.run(lambda hub, ctx: hub.keywords.update(ctx, id, patch, version))
        self.LastOperationId = done.operation_id
        return node_of(done.row)

    def MoveKeyword(self, id: str, new_parent_id: str, version: int | None = None) -> str | None:
        """Hang a keyword with all below it under another; return the operation. Raises Conflict on a cycle."""
        done = self._tree.run(lambda hub, ctx: hub.keywords.move(ctx, id, new_parent_id, version))
        self.LastOperationId = done.operation_id
        return done.operation_id

    def MergeKeywords(self, src_id: str, dst_id: str, version: int | None = None) -> str | None:
        """Make one keyword of two; return the operation. Raises Conflict for a keyword below the first."""
        done = self._tree.run(lambda hub, ctx: hub.keywords.merge(ctx, src_id, dst_id, version))
        self.LastOperationId = done.operation_id
        return done.operation_id

    def DeleteKeyword(
        self, id: str, cascade: bool = False, info_policy: str = "reattach", version: int | None = None
    ) -> str:
        """Delete a keyword; return the operation. `info_policy`: reattach, forbid or detach (KT-232)."""
        how = Deletion(cascade, InfoPolicy(info_policy), version)
        self.LastOperationId = self._tree.run(lambda hub, ctx: hub.keywords.delete(ctx, id, how))
        return self.LastOperationId

    def AddAlias(self, id: str, alias: str) -> KeywordNode:
        """Give a keyword another name. Raises Conflict when that is the name of another one."""
        done = self._tree.run(lambda hub, ctx: hub.keywords.add_alias(ctx, id, alias))
        self.LastOperationId = done.operation_id
        return node_of(done.row)

    def RemoveAlias(self, id: str, alias: str) -> KeywordNode:
        """Take an alias from a keyword. Raises NotFound."""
        done = self._tree.run(lambda hub, ctx: hub.keywords.remove_alias(ctx, id, alias))
        self.LastOperationId = done.operation_id
        return node_of(done.row)

    def CreateInfo(
        self, content: str, source: str = "", keyword_ids: list[str] | None = None, auto_link: bool = False
    ) -> Info:
        """Save an info, linked to `keyword_ids` as PRIMARY; `auto_link` links it to what it names as well."""
        new = NewInfo(content, source, keyword_ids=tuple(keyword_ids or ()), auto_link=auto_link)
        done = self._tree.run(lambda hub, ctx: hub.infos.create(ctx, new))
        self.LastOperationId = done.operation_id
        return info_of(done.row)

    def UpdateInfo(self, info_id: str, patch: Mapping[str, Any], version: int | None = None) -> Info:
        """Change content, source or metadata of an info. Raises VersionConflict when a version is given and stale."""
        done = self._tree.run(lambda hub, ctx: hub.infos.update(ctx, info_id, patch, version))
        self.LastOperationId = done.operation_id
        return info_of(done.row)

    def DeleteInfo(self, info_id: str, version: int | None = None) -> str:
        """Delete an info with its links; return the operation."""
        self.LastOperationId = self._tree.run(lambda hub, ctx: hub.infos.delete(ctx, info_id, version))
        return self.LastOperationId

    def LinkInfo(
        self,
        info_id: str,
        keyword_id: str,
        relation: RelationType = RelationType.PRIMARY,
        created_by: str = "user",
    ) -> InfoKeywordLink:
        """Link an info to a keyword; a pair that is linked gets the new relation (G-05)."""
        done = self._tree.run(
            lambda hub, ctx: hub.infos.link(ctx, info_id, keyword_id, RelationType(relation), created_by)
        )
        self.LastOperationId = done.operation_id
        return link_of(done.row)

    def UnlinkInfo(self, info_id: str, keyword_id: str) -> str:
        """Take an info from a keyword; return the operation. Raises NotFound."""
        self.LastOperationId = self._tree.run(lambda hub, ctx: hub.infos.unlink(ctx, info_id, keyword_id))
        return self.LastOperationId

    def BatchCreateKeywords(self, specs: Sequence[Mapping[str, Any]]) -> list[KeywordNode]:
        """Create many keywords in one operation, or none; a `ref` names one for the `parent_ref` of a later one."""
        items = [_spec(NewKeyword, spec, index) for index, spec in enumerate(specs)]
        done = self._tree.run(lambda hub, ctx: hub.keywords.create_batch(ctx, items))
        self.LastOperationId = done.operation_id
        return [node_of(row) for row in done.rows]

    def BatchCreateInfos(self, specs: Sequence[Mapping[str, Any]]) -> list[Info]:
        """Save many infos in one operation, or none."""
        items = [_spec(NewInfo, spec, index) for index, spec in enumerate(specs)]
        done = self._tree.run(lambda hub, ctx: hub.infos.create_batch(ctx, items))
        self.LastOperationId = done.operation_id
        return [info_of(row) for row in done.rows]

    def Reorganize(self, scope_id: str | None = None) -> dict[str, Any]:
        """Return a plan of what could be better ordered, below a keyword or in all; nothing is changed (KT-245)."""
        return self._tree.run(lambda hub, ctx: hub.curator.reorganize(ctx, scope_id))

    def ApplyReorganizePlan(self, plan: Mapping[str, Any]) -> str | None:
        """Carry out a plan as one operation, and return that. Raises Conflict when the tree has moved on."""
        done = self._tree.run(lambda hub, ctx: hub.curator.apply(ctx, dict(plan)))
        self.LastOperationId = done.operation_id
        return done.operation_id

    def TreeMetrics(self) -> dict[str, Any]:
        """Return the health of the tree: orphans, missing descriptions, depth, fan-out, duplicates (KT-246)."""
        return self._tree.run(lambda hub, ctx: hub.curator.metrics(ctx))

    def Undo(self, operation_id: str) -> str | None:
        """Undo an operation and return the undo. Raises Conflict naming what stands on it."""
        done = self._tree.run(lambda hub, ctx: hub.operations.undo(ctx, operation_id))
        self.LastOperationId = done.operation_ids[-1] if done.operation_ids else None
        return self.LastOperationId

    def _Normalize(self, text: str) -> list[str]:
        """Return the normal forms that a text is looked up by; a subclass may have its own (KT-023, KT-189)."""
        return self._text.tokens(text) if self._normalize is None else self._normalize(text)

    def _AgentDescend(self, query: str, intent: str) -> dict[str, Any]:
        """Have the model walk the tree, and return how it ended (KT-114, KT-115)."""
        descended = self._tree.run(
            lambda hub, ctx: hub.agent.descend(
                ctx, lambda: hub.store.view(ctx.account), query, Intent(intent), hub.settings.descent_budget_s
            )
        )
        told = asdict(descended)
        return {name: told[name] for name in _DESCENT_FIELDS}

    def _SuggestParent(self, name: str) -> str:
        """Return the keyword under which the model would put a name; the root where it finds none (KT-154…156)."""
        placed = self._tree.run(
            lambda hub, ctx: hub.agent.suggest_parent(
                ctx, lambda: hub.store.view(ctx.account), name, hub.settings.llm_write_budget_s
            )
        )
        return placed.parent_id

    def _CollectCandidates(self, start_ids: Sequence[str]) -> list[dict[str, str]]:
        """Return what a model would be shown below these: `{id, name, path}` each, breadth first (KT-191)."""
        eyes = Eyes(self._tree.hub.store.view(self._tree.ctx.account), self._tree.ctx)
        nodes = eyes.below(start_ids, self._tree.hub.settings.max_candidates)
        shown = map(eyes.candidate, nodes)
        return [{"id": one.id, "name": one.name, "path": one.path} for one in shown]

    def _ExactLookup(self, tokens: Sequence[str]) -> list[str]:
        """Return the ids of the keywords that have one of these normal forms, each once (KT-190)."""
        view = self._tree.hub.store.view(self._tree.ctx.account)
        return list(dict.fromkeys(node.id for token in tokens for node in view.by_token(token)))


def _spec(kind: Callable[..., T], spec: Mapping[str, Any], index: int) -> T:
    try:
        return kind(**spec)
    except TypeError as problem:
        raise InvalidInput.of(f"items.{index}", str(problem)) from problem


class _TreeText:
    """The tree's own way to read names, whatever a subclass makes of it."""

    def __init__(self, tree: TreeVerbs) -> None:
        self._tree = tree

    def load(self) -> None:
        self._tree._text.load()  # noqa: SLF001 -- this is the tree's own half

    def tokens(self, text: str) -> list[str]:
        return self._tree._Normalize(text)  # noqa: SLF001 -- this is the tree's own half

    def pinyin(self, text: str) -> list[str]:
        return self._tree._text.pinyin(text)  # noqa: SLF001 -- as above

    def terms(self, text: str) -> list[str]:
        return self._tree._text.terms(text)  # noqa: SLF001 -- as above
