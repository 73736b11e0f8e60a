"""The methods of a keyword tree. Each calls the hub, which runs in a thread of its own."""

import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, TypeVar

from knowhub.bootstrap import Hub
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.owned_rows import SavedBatch, SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering
from knowhub.keywords.fields import parse_choice, parse_text, parse_texts
from knowhub.keywords.model import InfoPolicy, InfoQuery, LinkRequest, NewInfo, NewKeyword, RelationType
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.search.descent import DescentResult
from knowhub.keywords.search.prompts import Goal, Intent
from knowhub.keywords.service import DeleteOptions
from knowhub.keywords.tree import BY_NAME
from knowhub.sdk.arguments import (
    TreeText,
    check_flag,
    check_normal_forms,
    check_number,
    parse_options,
    parse_specs,
)
from knowhub.sdk.hub_thread import HubThread
from knowhub.sdk.llm_client import InjectedModel, StubLLMClient
from knowhub.sdk.values import (
    Info,
    InfoKeywordLink,
    KeywordNode,
    ListChildren,
    SearchResult,
    make_info,
    make_link,
    make_node,
    make_result,
)
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.wiring.adapters import Overrides

WrittenT = TypeVar("WrittenT", SavedRow, SavedBatch)

_DESCENT_FIELDS = ("outcome", "node_id", "path", "candidates", "suggested_parent_id", "suggested_name", "reason")


class KeywordMethods:
    """A keyword tree on a data directory. Servers and other processes may use the same directory.

    Every method may be called from any thread. A write is durable when it returns; `last_operation_id` is what `undo`
    takes. Raises the errors of `knowhub.core.errors`; InvalidInput is also a ValueError.
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
        """Open the directory; create it with the root if it does not exist.

        `llm_client` is any object with `Chat(messages, json_schema)`. Without one, a StubLLMClient answers that every
        keyword is missing. `normalize` replaces the rules for names. `options` are settings of the server by their
        names in lower case. Cached results and recorded decisions are off unless `result_cache=True` and
        `log_agent_decisions=True`. `enable_result_cache` and `include_description` are other names of two settings.
        `llm_disambiguate` and `llm_dedup_check` are the defaults of `search` and `create_keyword`. Raises TypeError
        for any other option.
        """
        parameters = {
            "data_dir": data_dir,
            "recent_keywords": mru_capacity,
            "max_candidates": max_candidates,
            "descend_max_rounds": descend_max_rounds,
            "result_cache": False,
            "log_agent_decisions": False,
        }
        settings, self._defaults = parse_options(parameters, options)
        self._rules = KeywordTextRules()
        self._normalize = normalize
        model = InjectedModel(StubLLMClient() if llm_client is None else llm_client)
        self._thread = HubThread(settings, Overrides(llm=model, text=TreeText(self._Normalize)))
        # The thread holds no reference to this object, so a tree that nobody uses any more is freed and closed.
        weakref.finalize(self, self._thread.drop).atexit = False
        self.last_operation_id: str | None = None

    def __enter__(self) -> Self:
        self._thread.check_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write the record files and release the directory. A second call does nothing.

        Methods that run in other threads raise RuntimeError.
        """
        self._thread.close()

    def search(self, query: str, *, use_agent: bool = True, disambiguate: bool | None = None) -> SearchResult:
        """Find a keyword by name; if there is none and `use_agent` is set, let the model search the tree."""
        query, expand = parse_text("query", query), check_flag("llm_expand_query", use_agent)
        is_disambiguated = self._get_flag("llm_disambiguate", disambiguate)

        async def search(hub: Hub, ctx: RequestContext) -> SearchResult:
            found = await hub.keywords.search.search(ctx, query, expand=expand, disambiguate=is_disambiguated)
            return make_result(found, _make_children_lister(hub, ctx))

        return self._thread.run(search)

    def get_keyword(self, id: str) -> KeywordNode | None:
        """Return a keyword, or None."""
        try:
            return make_node(self._thread.run(lambda hub, ctx: hub.keywords.tree.get(ctx, id)).json)
        except NotFound:
            return None

    def get_children(self, id: str) -> list[KeywordNode]:
        """Return the children of a keyword, the oldest first. Raises NotFound."""
        rows = self._thread.run(lambda hub, ctx: hub.keywords.tree.list_children(ctx, id))
        return [make_node(row) for row in rows.records]

    def get_path(self, id: str) -> list[KeywordNode]:
        """Return the keywords from the root to this one. Raises NotFound."""

        async def read_path(hub: Hub, ctx: RequestContext) -> list[KeywordNode]:
            return _make_nodes(hub, ctx, await hub.keywords.tree.get_path(ctx, id))

        return self._thread.run(read_path)

    def get_infos_of_keyword(
        self, id: str, relation: RelationType | None = None, page: int = 0, size: int = 50
    ) -> list[Info]:
        """Return a page of the infos of a keyword, the newest first. The first page is 0. Raises NotFound."""
        query = InfoQuery(None if relation is None else parse_choice("relation", RelationType, relation), page, size)
        rows = self._thread.run(lambda hub, ctx: hub.keywords.infos.list_for_keyword(ctx, id, query))
        return [make_info(row) for row in rows]

    def get_keywords_of_info(self, info_id: str) -> list[tuple[KeywordNode, RelationType]]:
        """Return the keywords that an info is linked to, each with its relation. Raises NotFound."""

        async def read_keywords(hub: Hub, ctx: RequestContext) -> list[tuple[KeywordNode, RelationType]]:
            linked = await hub.keywords.infos.list_keywords(ctx, info_id)
            nodes = _make_nodes(hub, ctx, (row for row, _, _ in linked))
            return [(node, relation) for node, (_, relation, _) in zip(nodes, linked, strict=True)]

        return self._thread.run(read_keywords)

    def create_keyword(
        self,
        name: str,
        *,
        parent_id: str | None = None,
        aliases: list[str] | None = None,
        description: str = "",
        use_agent_for_parent: bool = True,
        dedup_check: bool | None = None,
    ) -> KeywordNode:
        """Create a keyword. Without a parent the model chooses one; otherwise the root is the parent."""
        new = NewKeyword(name, parent_id, () if aliases is None else aliases, description, allow_duplicate=True)
        auto_place = check_flag("llm_auto_place", use_agent_for_parent)
        is_checked = self._get_flag("llm_dedup_check", dedup_check)
        return self._write_node(
            lambda hub, ctx: hub.keywords.tree.create(ctx, new, auto_place=auto_place, dedup_check=is_checked)
        )

    def update_keyword(self, id: str, patch: Mapping[str, Any], version: int) -> KeywordNode:
        """Change name, aliases, description or metadata. Raises VersionConflict if `version` is not the current one."""
        return self._write_node(
            lambda hub, ctx: hub.keywords.tree.update(ctx, id, patch, version, allow_duplicate=True)
        )

    def move_keyword(self, id: str, new_parent_id: str, version: int | None = None) -> str | None:
        """Move a keyword with everything below it; return the operation. Raises Conflict for a cycle."""
        return self._write(
            lambda hub, ctx: hub.keywords.tree.move(ctx, id, new_parent_id, version, allow_duplicate=True)
        ).operation_id

    def merge_keywords(self, src_id: str, dst_id: str, version: int | None = None) -> str | None:
        """Merge the first keyword into the second; return the operation. Raises Conflict if the second is below it."""
        return self._write(lambda hub, ctx: hub.keywords.tree.merge(ctx, src_id, dst_id, version)).operation_id

    def delete_keyword(
        self, id: str, cascade: bool = False, info_policy: str = "reattach", version: int | None = None
    ) -> str:
        """Delete a keyword; return the operation. `info_policy` is reattach, forbid or detach."""
        policy = parse_choice("info_policy", InfoPolicy, info_policy)
        deletion = DeleteOptions(check_flag("cascade", cascade), policy, version)
        return self._run_operation(lambda hub, ctx: hub.keywords.tree.delete(ctx, id, deletion))

    def add_alias(self, id: str, alias: str) -> KeywordNode:
        """Add an alias to a keyword. Raises Conflict when another keyword has this name."""
        return self._write_node(lambda hub, ctx: hub.keywords.tree.add_alias(ctx, id, alias))

    def remove_alias(self, id: str, alias: str) -> KeywordNode:
        """Remove an alias from a keyword. Raises NotFound."""
        return self._write_node(lambda hub, ctx: hub.keywords.tree.remove_alias(ctx, id, alias))

    def create_info(
        self, content: str, source: str = "", keyword_ids: list[str] | None = None, auto_link: bool = False
    ) -> Info:
        """Save an info, linked to `keyword_ids` as PRIMARY. `auto_link` also links it to the keywords it names."""
        linked = () if keyword_ids is None else keyword_ids
        new = NewInfo(content, source, keyword_ids=linked, auto_link=check_flag("auto_link", auto_link))
        return make_info(self._write(lambda hub, ctx: hub.keywords.infos.create(ctx, new)).record)

    def update_info(self, info_id: str, patch: Mapping[str, Any], version: int | None = None) -> Info:
        """Change content, source or metadata. Raises VersionConflict if `version` is given and not the current one."""
        return make_info(self._write(lambda hub, ctx: hub.keywords.infos.patch(ctx, info_id, patch, version)).record)

    def delete_info(self, info_id: str, version: int | None = None) -> str:
        """Delete an info with its links; return the operation."""
        return self._run_operation(lambda hub, ctx: hub.keywords.infos.delete(ctx, info_id, version))

    def link_info(
        self, info_id: str, keyword_id: str, relation: RelationType = RelationType.RELATED, created_by: str = "user"
    ) -> InfoKeywordLink:
        """Link an info to a keyword. If they are linked, the relation and the creator are replaced."""
        link = LinkRequest(parse_choice("relation", RelationType, relation), created_by)
        return make_link(self._write(lambda hub, ctx: hub.keywords.infos.link(ctx, info_id, keyword_id, link)).record)

    def unlink_info(self, info_id: str, keyword_id: str) -> str:
        """Unlink an info from a keyword; return the operation. Raises NotFound."""
        return self._run_operation(lambda hub, ctx: hub.keywords.infos.unlink(ctx, info_id, keyword_id))

    def batch_create_keywords(self, specs: Sequence[Mapping[str, Any]]) -> list[KeywordNode]:
        """Create all keywords in one operation, or none. A spec may name an earlier `ref` as its `parent_ref`."""
        news = parse_specs(NewKeyword, specs)
        batch = self._write(lambda hub, ctx: hub.keywords.tree.create_batch(ctx, news))
        return [make_node(saved.record) for saved in batch.records]

    def batch_create_infos(self, specs: Sequence[Mapping[str, Any]]) -> list[Info]:
        """Save all infos in one operation, or none."""
        news = parse_specs(NewInfo, specs)
        batch = self._write(lambda hub, ctx: hub.keywords.infos.create_batch(ctx, news))
        return [make_info(saved.record) for saved in batch.records]

    def reorganize(self, scope_id: str | None = None) -> dict[str, Any]:
        """Return a plan to tidy the tree, or the part below a keyword. Nothing is changed."""
        return self._thread.run(lambda hub, ctx: hub.keywords.curator.reorganize(ctx, scope_id))

    def apply_reorganize_plan(self, plan: Mapping[str, Any]) -> str | None:
        """Apply a plan as one operation and return it. Raises Conflict when the tree has changed since."""
        if not isinstance(plan, Mapping):
            raise InvalidInput.of("plan", f"must be an object, not {type(plan).__name__}")
        return self._write(lambda hub, ctx: hub.keywords.curator.apply(ctx, dict(plan))).operation_id

    def tree_metrics(self) -> dict[str, Any]:
        """Return figures of the tree: orphans, missing descriptions, depth, fan-out, duplicates."""
        return self._thread.run(lambda hub, ctx: hub.keywords.curator.metrics(ctx))

    def undo(self, operation_id: str, with_later: bool = False) -> str | None:
        """Undo an operation; return the operation that did it. Raises Conflict with the operations in the way.

        Those are in `extra["blocked_by"]`. `with_later` undoes them too, newest first, all or none.
        """
        result = self._thread.run(lambda hub, ctx: hub.operations.log.undo(ctx, operation_id, with_later=with_later))
        self.last_operation_id = result.operation_ids[-1] if result.operation_ids else None
        return self.last_operation_id

    def compact_storage(self, keep_undo_days: float | None = None) -> int:
        """Forget old operations and free their space; return how many.

        Every keyword, info and link stays. Operations of the last `keep_undo_days` can still be undone; the default is
        the setting `undo_retention_days`.
        """
        days = None if keep_undo_days is None else check_number("keep_undo_days", keep_undo_days)
        return self._thread.run(lambda hub, _ctx: hub.compact(days)).operations

    def snapshot(self) -> str:
        """Save everything in `snapshots/snapshot_{ts}.tar.gz` of the data directory; return its ts."""
        return self._thread.run(lambda hub, _ctx: hub.operations.snapshots.create()).ts

    def restore(self, ts: str) -> str | None:
        """Restore a snapshot; return what `undo` takes to undo this, or None when nothing differed.

        The present state is saved in another snapshot first. Raises NotFound, and InvalidInput for a damaged snapshot.
        """
        result = self._thread.run(lambda hub, ctx: hub.operations.snapshots.restore(ctx, ts))
        self.last_operation_id = result.operation_ids[-1] if result.operation_ids else None
        return result.restore_id

    def _get_flag(self, option: str, given: bool | None) -> bool:
        return self._defaults[option] if given is None else check_flag(option, given)

    def _write(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, WrittenT]]) -> WrittenT:
        written = self._thread.run(work)
        self.last_operation_id = written.operation_id
        return written

    def _write_node(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, SavedRow]]) -> KeywordNode:
        return make_node(self._write(work).record)

    def _run_operation(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, str]]) -> str:
        self.last_operation_id = operation_id = self._thread.run(work)
        return operation_id

    # The next five have the names that subclasses and callers know.

    def _Normalize(self, text: str) -> list[str]:
        """Return the normal forms by which a name is looked up. A subclass may override this."""
        if self._normalize is None:
            return self._rules.name_keys(parse_text("text", text))
        return check_normal_forms(self._normalize(text))

    def _AgentDescend(self, query: str, intent: str) -> dict[str, Any]:
        """Let the model search the tree; return the outcome."""
        goal = Goal(parse_text("query", query), parse_choice("intent", Intent, intent))
        values = asdict(self._descend(goal, "descent_budget_s"))
        return {name: values[name] for name in _DESCENT_FIELDS}

    def _SuggestParent(self, name: str) -> str:
        """Return the parent that the model chooses for a name; the root if it finds none."""
        goal = Goal(parse_text("name", name), Intent.SUGGEST_PARENT)
        return self._descend(goal, "llm_write_budget_s").parent_id

    def _descend(self, goal: Goal, budget: str) -> DescentResult:
        return self._thread.run(
            lambda hub, ctx: hub.keywords.agent.descend(
                ctx, lambda: hub.store.view(ctx.account), goal, getattr(hub.settings, budget)
            )
        )

    def _CollectCandidates(self, start_ids: Sequence[str]) -> list[dict[str, str]]:
        """Return what a model would see below these keywords: `{id, name, path}`, breadth first."""
        start_ids = parse_texts("start_ids", start_ids)

        async def collect(hub: Hub, ctx: RequestContext) -> list[dict[str, str]]:
            await hub.store.refresh(ctx.account)
            tree = VisibleTree(hub.store.view(ctx.account), ctx)
            candidates = map(tree.make_candidate, tree.list_page(start_ids, hub.settings.max_candidates).nodes)
            return [{"id": item.id, "name": item.name, "path": item.path} for item in candidates]

        return self._thread.run(collect)

    def _ExactLookup(self, tokens: Sequence[str]) -> list[str]:
        """Return the ids of the keywords that have one of these normal forms, without duplicates."""
        tokens = parse_texts("tokens", tokens)

        async def look_up(hub: Hub, ctx: RequestContext) -> list[str]:
            await hub.store.refresh(ctx.account)
            view = hub.store.view(ctx.account)
            return list(dict.fromkeys(node.id for token in tokens for node in view.lookup(BY_NAME, token)))

        return self._thread.run(look_up)


def _make_nodes(hub: Hub, ctx: RequestContext, rows: Iterable[bytes]) -> list[KeywordNode]:
    list_children = _make_children_lister(hub, ctx)
    return [make_node(row, list_children) for row in rows]


def _make_children_lister(hub: Hub, ctx: RequestContext) -> ListChildren:
    view = hub.store.view(ctx.account)
    return lambda keyword_id: [child.id for child in rendering.list_visible_children(view, ctx, keyword_id)]
