"""Rows with random scopes, an oracle of three lines for who may see them, and random changes of both."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.bootstrap import Hub
from knowhub.core.request_context import RequestContext, Role, caller_context
from knowhub.identity.decisions import make_key_row, narrow_context, parse_key_row
from knowhub.identity.model import KeyHolder, NewKey
from knowhub.keywords.model import ROOT_ID, NewInfo, NewKeyword
from knowhub.keywords.service import DeleteOptions
from knowhub.knowledge.model import NewKnowledge
from knowhub.resources.model import NewResource
from tests.builders import START
from tests.keys import root_caller

KNOWLEDGE, KEYWORDS, INFOS, RESOURCES = "knowledge", "keywords", "infos", "resources"
SIZES = {KNOWLEDGE: 70, KEYWORDS: 45, INFOS: 45, RESOURCES: 30}
NAMES = tuple(f"主题{letter}" for letter in "甲乙丙丁戊己庚辛壬癸")
_USERS, _AGENTS = tuple("abcde"), tuple("xyz")
_GROUPS = ("project:p1", "project:p2", "project:p3", "team:t1", "team:t2", "org:o1")
_SCOPES = (
    *(f"user:{item}" for item in _USERS),
    *(f"agent:{item}" for item in _AGENTS),
    *_GROUPS,
    "public",
    "user:owner",
)
_TRIES = 20


@dataclass(slots=True)
class OracleRow:
    """A row as the oracle knows it. `above` is the parent of a keyword, `linked` the keywords of an info."""

    owner: str
    scopes: tuple[str, ...]
    name: str = ""
    above: str | None = None
    linked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OracleCaller:
    """A caller, with the scopes that its key allows it to see; None means the whole account."""

    ctx: RequestContext
    sees: frozenset[str] | None

    def may_see(self, row: OracleRow) -> bool:
        """Return whether the caller may see a row: this is the oracle."""
        shown_to = {row.owner} | {row.owner if scope == "user:owner" else scope for scope in row.scopes}
        return self.sees is None or bool(shown_to & self.sees)


@dataclass(slots=True)
class VisibleWorld:
    """An account of a hub, changed with the root key, and the same rows as the oracle knows them."""

    hub: Hub
    dice: random.Random
    rows: dict[str, dict[str, OracleRow]] = field(default_factory=lambda: {kind: {} for kind in SIZES})
    gone: dict[str, OracleRow] = field(default_factory=dict)

    async def fill(self) -> None:
        """Create rows of every kind."""
        for kind, size in SIZES.items():
            for number in range(size):
                await self._make(kind, number)

    async def change(self, times: int) -> None:
        """Change scopes, move keywords, and replace some rows by new ones."""
        for number in range(times):
            kind = self.dice.choice(tuple(SIZES))
            row_id = self.dice.choice(tuple(self.rows[kind]))
            match self.dice.randrange(8):
                case 0 if kind == KEYWORDS:
                    await self._move(row_id)
                case 1 if kind != KEYWORDS or not self._holds_any(row_id):
                    await self._delete(kind, row_id)
                    await self._make(kind, 1_000 + self.dice.randrange(10**6) + number)
                case _:
                    await self._rescope(kind, row_id)

    def visible_ids(self, asker: OracleCaller, kind: str) -> set[str]:
        """Return the ids of the rows that a caller may see."""
        return {row_id for row_id, row in self.rows[kind].items() if asker.may_see(row)}

    def row(self, row_id: str) -> OracleRow | None:
        """Return a row of any kind, even a deleted one; None for an unknown id."""
        return next((rows[row_id] for rows in (*self.rows.values(), self.gone) if row_id in rows), None)

    def path(self, asker: OracleCaller, keyword_id: str) -> list[str]:
        """Return the visible keywords from the root down to this keyword."""
        upwards: list[str] = []
        above: str | None = keyword_id
        while above is not None and above != ROOT_ID:
            upwards.append(above)
            above = self.rows[KEYWORDS][above].above
        return [ROOT_ID, *(upward for upward in reversed(upwards) if asker.may_see(self.rows[KEYWORDS][upward]))]

    def children(self, asker: OracleCaller, keyword_id: str) -> set[str]:
        """Return the visible children of a keyword."""
        return {item for item in self.visible_ids(asker, KEYWORDS) if self.rows[KEYWORDS][item].above == keyword_id}

    def below(self, asker: OracleCaller, keyword_id: str) -> set[str]:
        """Return the visible descendants that a caller reaches step by step."""
        near = self.children(asker, keyword_id)
        return near.union(*(self.below(asker, item) for item in near))

    async def _make(self, kind: str, number: int) -> None:
        owner, scopes = self._owner(), self._scopes()
        oracle_row = OracleRow(owner, scopes)
        if kind == KNOWLEDGE:
            new = NewKnowledge(f"wait {number}", f"element {number}", ("tool",), scopes=scopes, owner=owner)
            row_id = (await self.hub.knowledge.records.save(root_caller(), new)).record["id"]
        elif kind == KEYWORDS:
            oracle_row.above = self.dice.choice((ROOT_ID, ROOT_ID, *self.rows[KEYWORDS]))
            oracle_row.name = self.dice.choice(NAMES)
            named = NewKeyword(oracle_row.name, oracle_row.above, scopes=scopes, owner=owner, allow_duplicate=True)
            row_id = str((await self.hub.keywords.tree.create(root_caller(), named, auto_place=False)).record["id"])
        elif kind == INFOS:
            oracle_row.linked = tuple(self.dice.sample(tuple(self.rows[KEYWORDS]), 3))
            linked = NewInfo(f"info {number}", keyword_ids=oracle_row.linked, scopes=scopes, owner=owner)
            row_id = str((await self.hub.keywords.infos.create(root_caller(), linked)).record["id"])
        else:
            row_id = f"of/{number:07}"
            await self.hub.resources.save(root_caller(), NewResource(row_id, body="text", scopes=scopes, owner=owner))
        self.rows[kind][row_id] = oracle_row

    async def _rescope(self, kind: str, row_id: str) -> None:
        patch = {"scopes": list(self._scopes())}
        services: dict[str, Callable[..., Awaitable[Any]]] = {
            KNOWLEDGE: self.hub.knowledge.records.patch,
            KEYWORDS: self.hub.keywords.tree.update,
            INFOS: self.hub.keywords.infos.patch,
            RESOURCES: self.hub.resources.patch,
        }
        await services[kind](root_caller(), row_id, patch)
        self.rows[kind][row_id].scopes = tuple(patch["scopes"])

    async def _move(self, keyword_id: str) -> None:
        everything = OracleCaller(root_caller(), None)
        elsewhere = set(self.rows[KEYWORDS]) - self.below(everything, keyword_id) - {keyword_id}
        above = self.dice.choice((ROOT_ID, *sorted(elsewhere)))
        await self.hub.keywords.tree.move(root_caller(), keyword_id, above, allow_duplicate=True)
        self.rows[KEYWORDS][keyword_id].above = above

    async def _delete(self, kind: str, row_id: str) -> None:
        if kind == KNOWLEDGE:
            await self.hub.knowledge.records.delete(root_caller(), row_id)
        elif kind == KEYWORDS:
            await self.hub.keywords.tree.delete(root_caller(), row_id, DeleteOptions())
        elif kind == INFOS:
            await self.hub.keywords.infos.delete(root_caller(), row_id)
        else:
            await self.hub.resources.delete(root_caller(), row_id)
        self.gone[row_id] = self.rows[kind].pop(row_id)

    def _holds_any(self, keyword_id: str) -> bool:
        hangs = any(row.above == keyword_id for row in self.rows[KEYWORDS].values())
        return hangs or any(keyword_id in row.linked for row in self.rows[INFOS].values())

    def _owner(self) -> str:
        return self.dice.choice((*(f"user:{user}" for user in _USERS), *(f"agent:{agent}" for agent in _AGENTS)))

    def _scopes(self) -> tuple[str, ...]:
        # A fifth is for everybody; of the rest most have one scope, and some several.
        if self.dice.randrange(5) == 0:
            return ("public", *self.dice.sample(_GROUPS, self.dice.randrange(2)))
        return tuple(
            self.dice.sample([scope for scope in _SCOPES if scope != "public"], self.dice.choice((1, 1, 1, 2, 3)))
        )


def make_callers(dice: random.Random, many: int) -> Sequence[OracleCaller]:
    """Return callers of every kind: with keys of each role, narrowed to a project or not, and without keys."""
    return [_make_caller(dice, number) for number in range(many)]


def _make_caller(dice: random.Random, number: int) -> OracleCaller:
    user, agent = dice.choice((*_USERS, "stranger")), dice.choice((*_AGENTS, None))
    groups = {
        kind: [group for group in _GROUPS if group.startswith(kind) and dice.randrange(3) == 0] for kind in _KINDS
    }
    if number % 4 == 3:
        ids = {"user_id": user} | {f"{kind}_id": held[0].partition(":")[2] for kind, held in groups.items() if held}
        return OracleCaller(caller_context(ids, "user:local"), _scopes_of(ids))
    role = (Role.WRITER, Role.READER, Role.WRITER, Role.ADMIN)[number // 4 % 4]
    names = {f"{kind}_ids": tuple(item.partition(":")[2] for item in held) for kind, held in groups.items()}
    key = parse_key_row(
        "default", make_key_row(NewKey(KeyHolder(user, agent, **names), role), f"key-{number}", "hash", START)
    )
    named = next((item for item in groups["project"] if dice.randrange(2)), None)
    narrowing = {} if named is None else {"project_id": named.partition(":")[2]}
    held = [item for kind, some in groups.items() for item in ([named] if kind == "project" and named else some)]
    own = {f"user:{user}", *((f"agent:{agent}",) if agent else ())}
    sees = None if role is Role.ADMIN else frozenset({*own, *held, "public"})
    return OracleCaller(narrow_context(key.caller, narrowing, None), sees)


def _scopes_of(ids: Mapping[str, str]) -> frozenset[str]:
    return frozenset({*(f"{name.removesuffix('_id')}:{item}" for name, item in ids.items()), "public"})


_KINDS = ("project", "team", "org")
