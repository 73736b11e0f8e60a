"""The verbs of seed 000 §7, each a call into a hub that runs in a thread of its own."""

import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, TypeVar

from knowhub.bootstrap import Hub, World
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields, rendering
from knowhub.keywords.agent_decision import Intent
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.model import (
    InfoPolicy,
    InfoQuery,
    Linking,
    NewInfo,
    NewKeyword,
    RelationType,
    Written,
    WrittenBatch,
)
from knowhub.keywords.service import Deletion
from knowhub.sdk.arguments import choice, expected_version, flag, items, key, number
from knowhub.sdk.llm_client import InjectedModel, StubLLMClient
from knowhub.sdk.open_tree import OpenTree
from knowhub.sdk.options import read_options
from knowhub.sdk.tree_text import TreeText, normal_forms
from knowhub.sdk.values import (
    ChildrenOf,
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

WrittenT = TypeVar("WrittenT", Written, WrittenBatch)

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
        **options: Any,
    ) -> None:
        """Open the directory, and make it with its root where there is none.

        `llm_client` is any object with `Chat(messages, json_schema)`; without one a StubLLMClient answers that
        everything is missing. `normalize` takes the place of the rules for names (KT-023). `options` are settings of
        the server by their names in lower case; caches of results and the record of a search's decisions are off
        unless `result_cache=True` and `log_agent_decisions=True` (C-35, C-79). `enable_result_cache` and
        `include_description` are names of two of them as well, `llm_disambiguate` and `llm_dedup_check` what Search
        and CreateKeyword do where a call does not say it (C-20, C-23, C-29). Raises TypeError for any other.
        """
        named = {
            "data_dir": data_dir,
            "recent_keywords": mru_capacity,
            "max_candidates": max_candidates,
            "descend_max_rounds": descend_max_rounds,
            "result_cache": False,
            "log_agent_decisions": False,
        }
        settings, self._defaults = read_options(named, options)
        self._text = KeywordTextRules()
        self._normalize = normalize
        model = InjectedModel(StubLLMClient() if llm_client is None else llm_client)
        self._tree = OpenTree(settings, World(llm=model, text=TreeText(self, self._text)))
        # Nothing of what runs there leads back here: a tree that nobody holds any more is let go of.
        weakref.finalize(self, self._tree.drop).atexit = False
        self.LastOperationId: str | None = None

    def __enter__(self) -> Self:
        self._tree.check_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.Close()

    def Close(self) -> None:
        """Bring the record files up to the log and let go of the directory; a second time does nothing.

        Verbs that are under way in other threads raise RuntimeError.
        """
        self._tree.close()

    def Search(self, query: str, llm_expand_query: bool = True, llm_disambiguate: bool | None = None) -> SearchResult:
        """Find a keyword: exactly, else by a descent of the model where `llm_expand_query` allows it (KT-149…165)."""
        query, expand = fields.text("query", query), flag("llm_expand_query", llm_expand_query)
        disambiguate = self._defaults.disambiguate if llm_disambiguate is None else llm_disambiguate
        disambiguate = flag("llm_disambiguate", disambiguate)

        async def search(hub: Hub, ctx: RequestContext) -> SearchResult:
            found = await hub.keyword_search.search(ctx, query, expand=expand, disambiguate=disambiguate)
            return result_of(found, _children_of(hub, ctx))

        return self._tree.run(search)

    def GetKeyword(self, id: str) -> KeywordNode | None:
        """Return a keyword; None when there is none."""
        keyword_id = key("id", id)
        try:
            return node_of(self._tree.run(lambda hub, ctx: hub.keywords.get(ctx, keyword_id)).json)
        except NotFound:
            return None

    def GetChildren(self, id: str) -> list[KeywordNode]:
        """Return the children of a keyword, oldest first. Raises NotFound."""
        keyword_id = key("id", id)
        return [node_of(row) for row in self._tree.run(lambda hub, ctx: hub.keywords.children(ctx, keyword_id))]

    def GetPath(self, id: str) -> list[KeywordNode]:
        """Return the keywords from the root to this one. Raises NotFound."""
        keyword_id = key("id", id)

        async def path(hub: Hub, ctx: RequestContext) -> list[KeywordNode]:
            return _nodes(hub, ctx, await hub.keywords.path(ctx, keyword_id))

        return self._tree.run(path)

    def GetInfosOfKeyword(
        self, id: str, relation: RelationType | None = None, page: int = 0, size: int = 50
    ) -> list[Info]:
        """Return a page of a keyword's infos, newest first; `page` counts from 0. Raises NotFound, InvalidInput."""
        keyword_id, known = key("id", id), None if relation is None else fields.relation("relation", relation)
        query = InfoQuery(known, page, size)
        return [info_of(row) for row in self._tree.run(lambda hub, ctx: hub.infos.of_keyword(ctx, keyword_id, query))]

    def GetKeywordsOfInfo(self, info_id: str) -> list[tuple[KeywordNode, RelationType]]:
        """Return the keywords that an info is linked to, each with its relation. Raises NotFound."""
        info_id = key("info_id", info_id)

        async def keywords_of(hub: Hub, ctx: RequestContext) -> list[tuple[KeywordNode, RelationType]]:
            found = await hub.infos.keywords_of(ctx, info_id)
            nodes = _nodes(hub, ctx, (row for row, _, _ in found))
            return [(node, relation) for node, (_, relation, _) in zip(nodes, found, strict=True)]

        return self._tree.run(keywords_of)

    def CreateKeyword(
        self,
        name: str,
        parent_id: str | None = None,
        aliases: list[str] | None = None,
        description: str = "",
        llm_auto_place: bool = True,
        llm_dedup_check: bool | None = None,
    ) -> KeywordNode:
        """Create a keyword; without a parent the model finds one, else the root is it (KT-173, KT-219…222)."""
        new = NewKeyword(name, parent_id, () if aliases is None else aliases, description)
        auto_place = flag("llm_auto_place", llm_auto_place)
        dedup_check = self._defaults.dedup_check if llm_dedup_check is None else llm_dedup_check
        dedup_check = flag("llm_dedup_check", dedup_check)
        done = self._write(
            lambda hub, ctx: hub.keywords.create(ctx, new, auto_place=auto_place, dedup_check=dedup_check)
        )
        return node_of(done.row)

    def UpdateKeyword(self, id: str, patch: Mapping[str, Any], version: int) -> KeywordNode:
        """Change name, aliases, description or metadata of the version that was read. Raises VersionConflict."""
        keyword_id, expected = key("id", id), expected_version(version, is_needed=True)
        return node_of(self._write(lambda hub, ctx: hub.keywords.update(ctx, keyword_id, patch, expected)).row)

    def MoveKeyword(self, id: str, new_parent_id: str, version: int | None = None) -> str | None:
        """Hang a keyword with all below it under another; return the operation. Raises Conflict on a cycle."""
        keyword_id, new_parent_id = key("id", id), key("new_parent_id", new_parent_id)
        expected = expected_version(version)
        return self._write(lambda hub, ctx: hub.keywords.move(ctx, keyword_id, new_parent_id, expected)).operation_id

    def MergeKeywords(self, src_id: str, dst_id: str, version: int | None = None) -> str | None:
        """Make one keyword of two; return the operation. Raises Conflict for a keyword below the first."""
        src_id, dst_id, expected = key("src_id", src_id), key("dst_id", dst_id), expected_version(version)
        return self._write(lambda hub, ctx: hub.keywords.merge(ctx, src_id, dst_id, expected)).operation_id

    def DeleteKeyword(
        self, id: str, cascade: bool = False, info_policy: str = "reattach", version: int | None = None
    ) -> str:
        """Delete a keyword; return the operation. `info_policy`: reattach, forbid or detach (KT-232)."""
        keyword_id, policy = key("id", id), choice("info_policy", InfoPolicy, info_policy)
        how = Deletion(flag("cascade", cascade), policy, expected_version(version))
        self.LastOperationId = self._tree.run(lambda hub, ctx: hub.keywords.delete(ctx, keyword_id, how))
        return self.LastOperationId

    def AddAlias(self, id: str, alias: str) -> KeywordNode:
        """Give a keyword another name. Raises Conflict when that is the name of another one."""
        keyword_id = key("id", id)
        return node_of(self._write(lambda hub, ctx: hub.keywords.add_alias(ctx, keyword_id, alias)).row)

    def RemoveAlias(self, id: str, alias: str) -> KeywordNode:
        """Take an alias from a keyword. Raises NotFound."""
        keyword_id = key("id", id)
        return node_of(self._write(lambda hub, ctx: hub.keywords.remove_alias(ctx, keyword_id, alias)).row)

    def CreateInfo(
        self, content: str, source: str = "", keyword_ids: list[str] | None = None, auto_link: bool = False
    ) -> Info:
        """Save an info, linked to `keyword_ids` as PRIMARY; `auto_link` links it to what it names as well."""
        named = () if keyword_ids is None else keyword_ids
        new = NewInfo(content, source, keyword_ids=named, auto_link=flag("auto_link", auto_link))
        return info_of(self._write(lambda hub, ctx: hub.infos.create(ctx, new)).row)

    def UpdateInfo(self, info_id: str, patch: Mapping[str, Any], version: int | None = None) -> Info:
        """Change content, source or metadata of an info. Raises VersionConflict when a version is given and stale."""
        info_id, expected = key("info_id", info_id), expected_version(version)
        return info_of(self._write(lambda hub, ctx: hub.infos.update(ctx, info_id, patch, expected)).row)

    def DeleteInfo(self, info_id: str, version: int | None = None) -> str:
        """Delete an info with its links; return the operation."""
        info_id, expected = key("info_id", info_id), expected_version(version)
        self.LastOperationId = self._tree.run(lambda hub, ctx: hub.infos.delete(ctx, info_id, expected))
        return self.LastOperationId

    def LinkInfo(
        self,
        info_id: str,
        keyword_id: str,
        relation: RelationType = RelationType.PRIMARY,
        created_by: str = "user",
    ) -> InfoKeywordLink:
        """Link an info to a keyword; a pair that is linked gets the new relation and maker (G-05)."""
        info_id, keyword_id = key("info_id", info_id), key("keyword_id", keyword_id)
        how = Linking(fields.relation("relation", relation), created_by)
        return link_of(self._write(lambda hub, ctx: hub.infos.link(ctx, info_id, keyword_id, how)).row)

    def UnlinkInfo(self, info_id: str, keyword_id: str) -> str:
        """Take an info from a keyword; return the operation. Raises NotFound."""
        info_id, keyword_id = key("info_id", info_id), key("keyword_id", keyword_id)
        self.LastOperationId = self._tree.run(lambda hub, ctx: hub.infos.unlink(ctx, info_id, keyword_id))
        return self.LastOperationId

    def BatchCreateKeywords(self, specs: Sequence[Mapping[str, Any]]) -> list[KeywordNode]:
        """Create many keywords in one operation, or none; a `ref` names one for the `parent_ref` of a later one."""
        news = items(NewKeyword, specs)
        return [node_of(row) for row in self._write(lambda hub, ctx: hub.keywords.create_batch(ctx, news)).rows]

    def BatchCreateInfos(self, specs: Sequence[Mapping[str, Any]]) -> list[Info]:
        """Save many infos in one operation, or none."""
        news = items(NewInfo, specs)
        return [info_of(row) for row in self._write(lambda hub, ctx: hub.infos.create_batch(ctx, news)).rows]

    def Reorganize(self, scope_id: str | None = None) -> dict[str, Any]:
        """Return a plan of what could be better ordered, below a keyword or in all; nothing is changed (KT-245)."""
        scope_id = None if scope_id is None else key("scope_id", scope_id)
        return self._tree.run(lambda hub, ctx: hub.curator.reorganize(ctx, scope_id))

    def ApplyReorganizePlan(self, plan: Mapping[str, Any]) -> str | None:
        """Carry out a plan as one operation, and return that. Raises Conflict when the tree has moved on."""
        if not isinstance(plan, Mapping):
            raise InvalidInput.of("plan", f"must be an object, not {type(plan).__name__}")
        return self._write(lambda hub, ctx: hub.curator.apply(ctx, dict(plan))).operation_id

    def TreeMetrics(self) -> dict[str, Any]:
        """Return the health of the tree: orphans, missing descriptions, depth, fan-out, duplicates (KT-246)."""
        return self._tree.run(lambda hub, ctx: hub.curator.metrics(ctx))

    def Undo(self, operation_id: str) -> str | None:
        """Undo an operation and return the undo. Raises Conflict naming what stands on it."""
        operation_id = key("operation_id", operation_id)
        done = self._tree.run(lambda hub, ctx: hub.operations.undo(ctx, operation_id))
        self.LastOperationId = done.operation_ids[-1] if done.operation_ids else None
        return self.LastOperationId

    def CompactStorage(self, keep_undo_days: float | None = None) -> int:
        """Forget old operations and free their space; return how many are forgotten (KT-250).

        Every keyword, info and link stays. What is younger than `keep_undo_days`, by default the setting
        `undo_retention_days`, can still be undone.
        """
        days = None if keep_undo_days is None else number("keep_undo_days", keep_undo_days)
        return self._tree.run(lambda hub, _ctx: hub.compact(days)).operations

    def Snapshot(self) -> str:
        """Keep everything in `snapshots/snapshot_{ts}.tar.gz` of the data directory; return its ts (KT-252)."""
        return self._tree.run(lambda hub, _ctx: hub.snapshots.create()).ts

    def Restore(self, ts: str) -> str | None:
        """Bring the tree back to a snapshot; return what `Undo` takes to undo that, None where nothing differed.

        What stands is kept in another snapshot before. Raises NotFound, and InvalidInput naming what is damaged.
        """
        named = key("ts", ts)
        done = self._tree.run(lambda hub, ctx: hub.snapshots.restore(ctx, named))
        self.LastOperationId = done.operation_ids[-1] if done.operation_ids else None
        return done.restore_id

    def _write(self, verb: Callable[[Hub, RequestContext], Coroutine[Any, Any, WrittenT]]) -> WrittenT:
        """Run a verb that writes, and keep its operation for `Undo`."""
        done = self._tree.run(verb)
        self.LastOperationId = done.operation_id
        return done

    def _Normalize(self, text: str) -> list[str]:
        """Return the normal forms that a text is looked up by; a subclass may have its own (KT-023, KT-189)."""
        if self._normalize is None:
            return self._text.tokens(fields.text("text", text))
        return normal_forms(self._normalize(text))

    def _AgentDescend(self, query: str, intent: str) -> dict[str, Any]:
        """Have the model walk the tree, and return how it ended (KT-114, KT-115)."""
        query, wanted = fields.text("query", query), choice("intent", Intent, intent)
        descended = self._tree.run(
            lambda hub, ctx: hub.agent.descend(
                ctx, lambda: hub.store.view(ctx.account), query, wanted, hub.settings.descent_budget_s
            )
        )
        told = asdict(descended)
        return {name: told[name] for name in _DESCENT_FIELDS}

    def _SuggestParent(self, name: str) -> str:
        """Return the keyword under which the model would put a name; the root where it finds none (KT-154…156)."""
        name = fields.text("name", name)
        placed = self._tree.run(
            lambda hub, ctx: hub.agent.suggest_parent(
                ctx, lambda: hub.store.view(ctx.account), name, hub.settings.llm_write_budget_s
            )
        )
        return placed.parent_id

    def _CollectCandidates(self, start_ids: Sequence[str]) -> list[dict[str, str]]:
        """Return what a model would be shown below these: `{id, name, path}` each, breadth first (KT-191)."""
        start_ids = fields.texts("start_ids", start_ids)

        async def collect(hub: Hub, ctx: RequestContext) -> list[dict[str, str]]:
            await hub.store.refresh()
            eyes = Eyes(hub.store.view(ctx.account), ctx)
            shown = map(eyes.candidate, eyes.below(start_ids, hub.settings.max_candidates))
            return [{"id": one.id, "name": one.name, "path": one.path} for one in shown]

        return self._tree.run(collect)

    def _ExactLookup(self, tokens: Sequence[str]) -> list[str]:
        """Return the ids of the keywords that have one of these normal forms, each once (KT-190)."""
        tokens = fields.texts("tokens", tokens)

        async def look_up(hub: Hub, ctx: RequestContext) -> list[str]:
            await hub.store.refresh()
            view = hub.store.view(ctx.account)
            return list(dict.fromkeys(node.id for token in tokens for node in view.by_token(token)))

        return self._tree.run(look_up)


def _nodes(hub: Hub, ctx: RequestContext, rows: Iterable[bytes]) -> list[KeywordNode]:
    children_of = _children_of(hub, ctx)
    return [node_of(row, children_of) for row in rows]


def _children_of(hub: Hub, ctx: RequestContext) -> ChildrenOf:
    view = hub.store.view(ctx.account)
    return lambda keyword_id: rendering.visible_child_ids(view, ctx, keyword_id)
