"""A simple model of a resource: who may do what with it, and the result of each verb."""

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
class ModelResource:
    """A resource as the model knows it; `secret` is the sealed text."""

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

    def resolve_scopes(self) -> set[str]:
        return {self.owner if scope == "user:owner" else scope for scope in self.scopes}

    def is_seen_by(self, by: str) -> bool:
        return by == "local" or bool({OWNERS[by], "public"} & {*self.resolve_scopes(), self.owner})

    def is_edited_by(self, by: str) -> bool:
        return by == "local" or self.owner == OWNERS[by]

    def is_revealed_to(self, by: str) -> bool:
        return self.is_edited_by(by) or OWNERS[by] in self.resolve_scopes()

    def next_version(self, **changed: object) -> "ModelResource":
        """Return the next version of the resource."""
        return replace(self, version=self.version + 1, **changed)  # type: ignore[arg-type] # any field of it


def expect_save(row: ModelResource | None, by: str, new: NewResource, *, upsert: bool) -> ModelResource | Refusal:
    """Return the row after a save (the same row if nothing changes), or the expected error."""
    given = tuple(new.scopes or ())
    if row is None or (row.is_deleted and not row.is_erased):
        if row is not None and not row.is_edited_by(by):
            return Conflict
        version = 1 if row is None else row.version + 1
        return ModelResource(OWNERS[by], given or ("user:owner",), new.title, new.secure_body, version)
    if not upsert or row.is_erased or not row.is_seen_by(by):
        return Conflict
    if not row.is_edited_by(by):
        return Forbidden
    after = replace(row, scopes=given or row.scopes, title=new.title, secret=new.secure_body)
    return row if after == row and after.secret is None else after.next_version()


def expect_patch(
    row: ModelResource | None, by: str, patch: Mapping[str, Any], version: int | None
) -> ModelResource | Refusal:
    """Return the row after a patch (the same row if nothing changes), or the expected error."""
    refused = refusal(row, by, version)
    if refused is not None or row is None:
        return refused or NotFound
    after = replace(
        row,
        title=patch.get("title", row.title),
        scopes=tuple(patch.get("scopes", row.scopes)),
        secret=patch.get("secure_body", row.secret),
    )
    return row if after == row else after.next_version()


def refusal(row: ModelResource | None, by: str, version: int | None = None) -> Refusal | None:
    """Return the error of changing a row; None if it is allowed."""
    if row is None or not row.is_live or not row.is_seen_by(by):
        return NotFound
    if not row.is_edited_by(by):
        return Forbidden
    return VersionConflict if version not in {None, row.version} else None


def erasing_refusal(row: ModelResource, by: str) -> Refusal | None:
    """Return the error of erasing a row, which may be deleted; None if it is allowed."""
    if not row.is_seen_by(by):
        return NotFound
    if not row.is_edited_by(by):
        return Forbidden
    return Conflict if row.is_erased else None


def reveal_refusal(row: ModelResource | None, by: str) -> Refusal | None:
    """Return the error of revealing a row; None if it is allowed."""
    if row is None or not row.is_live or not row.is_seen_by(by):
        return NotFound
    return None if row.is_revealed_to(by) else Forbidden
