"""A resource as one dataclass: who may do what with it, and what each verb makes of it, said as simply as can be."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from knowhub.core.errors import Conflict, Forbidden, KnowHubError, NotFound, VersionConflict
from knowhub.resources.model import NewResource
from tests.builders import OWNER, caller, local

CALLERS = {"local": local(), "li": caller(user_id="li"), "wang": caller(user_id="wang")}
OWNERS = {"local": OWNER, "li": "user:li", "wang": "user:wang"}

Refusal: TypeAlias = type[KnowHubError]


@dataclass(frozen=True, slots=True)
class Row:
    """What the model knows of a resource; `secret` is what was sealed."""

    owner: str
    scopes: tuple[str, ...]
    title: str
    secret: str | None
    version: int
    is_deleted: bool = False
    is_erased: bool = False

    @property
    def is_live(self) -> bool:
        return not self.is_deleted and not self.is_erased

    def named(self) -> set[str]:
        return {self.owner if scope == "user:owner" else scope for scope in self.scopes}

    def is_seen_by(self, by: str) -> bool:
        return by == "local" or bool({OWNERS[by], "public"} & {*self.named(), self.owner})

    def is_edited_by(self, by: str) -> bool:
        return by == "local" or self.owner == OWNERS[by]

    def is_revealed_to(self, by: str) -> bool:
        return self.is_edited_by(by) or OWNERS[by] in self.named()

    def becomes(self, **changed: object) -> "Row":
        """Return the next version of it."""
        return replace(self, version=self.version + 1, **changed)  # type: ignore[arg-type] # any field of it


def saved(row: Row | None, by: str, new: NewResource, *, upsert: bool) -> Row | Refusal:
    """Return what a save makes of a row, itself where it says the same, or how it is refused."""
    given = tuple(new.scopes or ())
    if row is None or (row.is_deleted and not row.is_erased):
        if row is not None and not row.is_edited_by(by):
            return Conflict
        version = 1 if row is None else row.version + 1
        return Row(OWNERS[by], given or ("user:owner",), new.title, new.secure_body, version)
    if not upsert or row.is_erased or not row.is_seen_by(by):
        return Conflict
    if not row.is_edited_by(by):
        return Forbidden
    after = replace(row, scopes=given or row.scopes, title=new.title, secret=new.secure_body)
    return row if after == row and after.secret is None else after.becomes()


def patched(row: Row | None, by: str, patch: Mapping[str, Any], version: int | None) -> Row | Refusal:
    """Return what a patch makes of a row, itself where it changes nothing, or how it is refused."""
    refused = refusal(row, by, version)
    if refused is not None or row is None:
        return refused or NotFound
    after = replace(
        row,
        title=patch.get("title", row.title),
        scopes=tuple(patch.get("scopes", row.scopes)),
        secret=patch.get("secure_body", row.secret),
    )
    return row if after == row else after.becomes()


def refusal(row: Row | None, by: str, version: int | None = None) -> Refusal | None:
    """Return how a change of a row is refused; None where it is not."""
    if row is None or not row.is_live or not row.is_seen_by(by):
        return NotFound
    if not row.is_edited_by(by):
        return Forbidden
    return VersionConflict if version not in {None, row.version} else None


def erasing_refusal(row: Row, by: str) -> Refusal | None:
    """Return how erasing a row, a deleted one too, is refused; None where it is not."""
    if not row.is_seen_by(by):
        return NotFound
    if not row.is_edited_by(by):
        return Forbidden
    return Conflict if row.is_erased else None


def reveal_refusal(row: Row | None, by: str) -> Refusal | None:
    """Return how a reveal of a row is refused; None where it is not."""
    if row is None or not row.is_live or not row.is_seen_by(by):
        return NotFound
    return None if row.is_revealed_to(by) else Forbidden
