"""The keyword tree as plain dicts: the expected state after each verb, in the simplest form."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from knowhub.core import scopes
from knowhub.core.errors import Conflict, InvalidInput, KnowHubError, NotFound
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, InfoPolicy, NewInfo, NewKeyword
from tests.builders import OWNER
from tests.fakes.plain_text import PlainText

Said = dict[str, Any]
Rows = Mapping[tuple[str, str], Mapping[str, Any]]
"""The newest row under each collection and id, tombstones too, in the order in which they were first written."""

ROOT_SAID: Said = {
    "name": "root",
    "aliases": [],
    "parent_id": None,
    "description": "",
    "metadata": {},
    "scopes": ["public"],
}
_STRENGTH = ("PRIMARY", "EXAMPLE", "SOURCE", "RELATED")
_TEXT = PlainText()


class ModelRefusal(Exception):
    """A verb that must not be carried out, with the error that should say so."""

    def __init__(self, kind: type[KnowHubError]) -> None:
        super().__init__(kind.__name__)
        self.kind = kind


def refuse(kind: type[KnowHubError], *, when: object) -> None:
    if when:
        raise ModelRefusal(kind)


@dataclass
class TreeModel:
    """The live keywords, infos and links, oldest first. A verb that raises ModelRefusal may have changed them."""

    keywords: dict[str, Said] = field(default_factory=lambda: {ROOT_ID: dict(ROOT_SAID)})
    infos: dict[str, Said] = field(default_factory=dict)
    links: dict[tuple[str, str], Said] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows) -> "TreeModel":
        """Build the model from the live rows."""
        model = cls()
        for (collection, row_id), row in rows.items():
            if row.get("deleted"):
                continue
            if collection == KEYWORDS:
                model.keywords[row_id] = {name: row[name] for name in ROOT_SAID}
            elif collection == INFOS:
                model.infos[row_id] = {name: row[name] for name in ("content", "source", "metadata", "scopes")}
            elif collection == LINKS:
                stored = {name: row[name] for name in ("relation", "created_by")}
                model.links[row["info_id"], row["keyword_id"]] = stored
        return model

    def create(self, row_id: str, new: NewKeyword, parent_id: str) -> None:
        stored = fresh(new, parent_id)
        refuse(InvalidInput, when=parent_id not in self.keywords)
        self._check_aliases_free(row_id, stored["aliases"])
        self.keywords[row_id] = stored

    def create_batch(self, row_ids: Sequence[str], items: Sequence[NewKeyword]) -> None:
        parents: list[str] = []
        by_ref: dict[str, str] = {}
        stored_rows = [fresh(new, ROOT_ID) for new in items]
        for row_id, new in zip(row_ids, items, strict=True):
            refuse(InvalidInput, when=new.parent_ref is not None and new.parent_ref not in by_ref)
            refuse(InvalidInput, when=new.ref in by_ref)
            parents.append(by_ref[new.parent_ref] if new.parent_ref is not None else new.parent_id or ROOT_ID)
            if new.ref is not None:
                by_ref[new.ref] = row_id
        for index, stored in enumerate(stored_rows):
            names = {name_key(item["name"]) for other, item in enumerate(stored_rows) if other != index}
            refuse(Conflict, when=names & set(map(name_key, stored["aliases"])))
        for row_id, stored, parent_id in zip(row_ids, stored_rows, parents, strict=True):
            refuse(InvalidInput, when=parent_id not in self.keywords and parent_id not in row_ids)
            self._check_aliases_free(row_id, stored["aliases"], passing=row_ids)
            self.keywords[row_id] = stored | {"parent_id": parent_id}

    def update(self, keyword_id: str, patch: Mapping[str, Any]) -> None:
        stored = self._there(keyword_id)
        changed = {**stored, **patch}
        if keyword_id == ROOT_ID:
            refuse(Conflict, when=any(changed[name] != stored[name] for name in ("aliases", "scopes")))
        if "name" in patch or "aliases" in patch:
            _check_name(changed["name"])
        if keyword_id != ROOT_ID and ("name" in patch or "aliases" in patch):
            changed["aliases"] = distinct(changed["name"], changed["aliases"], standing=stored["aliases"])
        self._check_aliases_free(keyword_id, [alias for alias in changed["aliases"] if alias not in stored["aliases"]])
        stored.update(changed)

    def move(self, keyword_id: str, parent_id: str) -> None:
        refuse(Conflict, when=keyword_id == ROOT_ID)
        stored = self._there(keyword_id)
        refuse(InvalidInput, when=parent_id not in self.keywords)
        refuse(Conflict, when=keyword_id in self.path(parent_id))
        stored["parent_id"] = parent_id

    def merge(self, source_id: str, into_id: str) -> None:
        refuse(Conflict, when=ROOT_ID in (source_id, into_id))
        source = self._there(source_id)
        refuse(InvalidInput, when=into_id not in self.keywords)
        refuse(Conflict, when=source_id in self.path(into_id))
        into = self.keywords[into_id]
        spellings = [*into["aliases"], source["name"], *source["aliases"]]
        into["aliases"] = without_doubles(into["name"], spellings, standing=into["aliases"])
        into["description"] = into["description"] or source["description"]
        into["metadata"] = {**source["metadata"], **into["metadata"]}
        self._hand_over([source_id], into_id)
        for child_id in self.children(source_id):
            self.keywords[child_id]["parent_id"] = into_id
        del self.keywords[source_id]

    def delete(self, keyword_id: str, policy: InfoPolicy, *, cascade: bool) -> None:
        refuse(Conflict, when=keyword_id == ROOT_ID)
        above = self._there(keyword_id)["parent_id"]
        doomed = self.subtree(keyword_id)
        refuse(Conflict, when=len(doomed) > 1 and not cascade)
        has_infos = any(keyword in doomed for _, keyword in self.links)
        refuse(Conflict, when=has_infos and policy is InfoPolicy.FORBID)
        self._hand_over(doomed, above if policy is InfoPolicy.REATTACH else None)
        for item in doomed:
            del self.keywords[item]

    def add_alias(self, keyword_id: str, alias: str) -> None:
        refuse(Conflict, when=keyword_id == ROOT_ID)
        stored = self._there(keyword_id)
        refuse(InvalidInput, when=not name_key(alias))
        if alias != stored["name"] and alias not in stored["aliases"]:
            self._check_aliases_free(keyword_id, [alias])
            stored["aliases"] = [*stored["aliases"], alias]

    def remove_alias(self, keyword_id: str, alias: str) -> None:
        stored = self._there(keyword_id)
        same = [item for item in stored["aliases"] if name_key(item) == name_key(alias)]
        doomed = [alias] if alias in stored["aliases"] else same
        refuse(NotFound, when=not doomed)
        stored["aliases"] = [item for item in stored["aliases"] if item not in doomed]

    def create_info(self, row_id: str, new: NewInfo) -> None:
        refuse(InvalidInput, when=not new.content.strip())
        refuse(InvalidInput, when=any(keyword_id not in self.keywords for keyword_id in new.keyword_ids))
        self.infos[row_id] = {
            "content": new.content,
            "source": new.source,
            "metadata": dict(new.metadata),
            "scopes": list(new.scopes or ["public"]),
        }
        for keyword_id in new.keyword_ids:
            self.links[row_id, keyword_id] = {"relation": "PRIMARY", "created_by": new.created_by}

    def update_info(self, info_id: str, patch: Mapping[str, Any]) -> None:
        self._info(info_id).update(patch)

    def delete_info(self, info_id: str) -> None:
        self._info(info_id)
        del self.infos[info_id]
        self.links = {pair: stored for pair, stored in self.links.items() if pair[0] != info_id}

    def link(self, info_id: str, keyword_id: str, relation: str, created_by: str) -> None:
        self._info(info_id)
        self._there(keyword_id)
        self.links[info_id, keyword_id] = {"relation": relation, "created_by": created_by}

    def unlink(self, info_id: str, keyword_id: str) -> None:
        self._info(info_id)
        refuse(NotFound, when=(info_id, keyword_id) not in self.links)
        del self.links[info_id, keyword_id]

    def apply(self, steps: Iterable[Mapping[str, Any]], created: Sequence[str]) -> None:
        """Carry out the steps of a plan; `created` are the ids of the groups that its splits make."""
        ids = chain(created, (f"refused-{number}" for number in count()))
        for step in steps:
            try:
                self._take(step, ids)
            except ModelRefusal as refused:
                raise ModelRefusal(InvalidInput if refused.kind is InvalidInput else Conflict) from refused

    def path(self, keyword_id: str) -> list[str]:
        """Return the ids from the root to a keyword. Fails when it does not hang below the root."""
        upwards = [keyword_id]
        while upwards[-1] != ROOT_ID:
            above = self.keywords[upwards[-1]]["parent_id"]
            assert above in self.keywords, f"{upwards[-1]} hangs below {above}, which is not there"
            assert above not in upwards, f"{above} hangs below itself"
            upwards.append(above)
        return upwards[::-1]

    def children(self, keyword_id: str) -> list[str]:
        return [keyword for keyword, stored in self.keywords.items() if stored["parent_id"] == keyword_id]

    def subtree(self, keyword_id: str) -> list[str]:
        found = [keyword_id]
        for item in found:
            found += self.children(item)
        return found

    def fault(self) -> str | None:
        """Return the fault of the tree: a keyword that does not reach the root, or a link without an end."""
        for keyword_id in self.keywords:
            try:
                self.path(keyword_id)
            except AssertionError as problem:
                return str(problem)
        dead = [pair for pair in self.links if pair[0] not in self.infos or pair[1] not in self.keywords]
        return f"links with a dead end: {dead}" if dead else None

    def _take(self, step: Mapping[str, Any], ids: Iterator[str]) -> None:
        match step["kind"]:
            case "move":
                refuse(Conflict, when=step["to"]["id"] not in self.keywords)
                self.move(step["node"]["id"], step["to"]["id"])
            case "merge":
                refuse(Conflict, when=step["into"]["id"] not in self.keywords)
                self.merge(step["source"]["id"], step["into"]["id"])
            case "describe":
                refuse(Conflict, when=step["node"]["id"] == ROOT_ID)
                self._there(step["node"]["id"])["description"] = step["description"]
            case "split":
                for group in step["groups"]:
                    self._split(step["node"]["id"], group, next(ids))

    def _split(self, keyword_id: str, group: Mapping[str, Any], row_id: str) -> None:
        children = [child["id"] for child in group["children"]]
        self._there(keyword_id)
        stored_rows = [self._there(child_id) for child_id in children]
        refuse(Conflict, when=any(stored["parent_id"] != keyword_id for stored in stored_rows))
        _check_name(group["name"])
        refuse(Conflict, when=len(set(children)) < len(children))
        seen_by = {item for stored in stored_rows for item in scopes.audience(stored["scopes"], OWNER)}
        group_scopes = ["public"] if "public" in seen_by else sorted(seen_by - {OWNER}) or [scopes.OWNER]
        self.keywords[row_id] = fresh(NewKeyword(group["name"], scopes=group_scopes), keyword_id)
        for stored in stored_rows:
            stored["parent_id"] = row_id

    def _hand_over(self, keyword_ids: Sequence[str], heir: str | None) -> None:
        """Unlink the infos of keywords, and link them to `heir`: of several links of one info the strongest goes on."""
        of_them = [pair for item in keyword_ids for pair in self.links if pair[1] == item]
        for pair in sorted(of_them, key=lambda item: _STRENGTH.index(self.links[item]["relation"])):
            stored = self.links.pop(pair)
            if heir is not None and (pair[0], heir) not in self.links:
                self.links[pair[0], heir] = stored

    def _check_aliases_free(self, own_id: str, aliases: Iterable[str], passing: Sequence[str] = ()) -> None:
        """Refuse an alias that is the name of another keyword; those of `passing` are looked at elsewhere."""
        others = self.keywords.keys() - {ROOT_ID, own_id, *passing}
        names = {name_key(self.keywords[other]["name"]) for other in others}
        refuse(Conflict, when=names & set(map(name_key, aliases)))

    def _there(self, keyword_id: str) -> Said:
        refuse(NotFound, when=keyword_id not in self.keywords)
        return self.keywords[keyword_id]

    def _info(self, info_id: str) -> Said:
        refuse(NotFound, when=info_id not in self.infos)
        return self.infos[info_id]


def fresh(new: NewKeyword, parent_id: str) -> Said:
    _check_name(new.name)
    return {
        "name": new.name,
        "aliases": distinct(new.name, new.aliases),
        "parent_id": parent_id,
        "description": new.description,
        "metadata": dict(new.metadata),
        "scopes": list(new.scopes or ["public"]),
    }


def distinct(name: str, aliases: Sequence[str], standing: Sequence[str] = ()) -> list[str]:
    refuse(InvalidInput, when=not all(map(name_key, aliases)))
    return without_doubles(name, aliases, standing)


def without_doubles(name: str, aliases: Sequence[str], standing: Sequence[str] = ()) -> list[str]:
    """Return the aliases without new duplicates; existing ones stay."""
    aliases_left: list[str] = []
    known = {name_key(name)}
    for alias in aliases:
        if alias != name and alias not in aliases_left and (alias in standing or name_key(alias) not in known):
            aliases_left.append(alias)
        known.add(name_key(alias))
    return aliases_left


def name_key(name: str) -> str:
    return next(iter(_TEXT.name_keys(name)), "")


def _check_name(name: str) -> None:
    refuse(InvalidInput, when=not name_key(name))
