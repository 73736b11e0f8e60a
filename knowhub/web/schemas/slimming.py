"""Slimming and evolving: the bodies of requests and the shapes of answers (seed 003 `slim_knowledge`)."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from knowhub.settings import DEFAULT_MODEL
from knowhub.web.schemas.answers import Answer, SavedRecord
from knowhub.web.schemas.parts import MAX_LABEL_CHARS, Body, OperationAnswer, clean

ModelName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_LABEL_CHARS, strip_whitespace=True), AfterValidator(clean)
]


class SlimBody(Body):
    """How to slim."""

    model: ModelName = Field(
        default=DEFAULT_MODEL, description="Which model is asked; this default means the one of the settings."
    )
    dry_run: bool = Field(default=False, description="Tell what would be merged, and write nothing.")


class MergedRecords(Answer):
    """Records that became one. `task` and `content` are there where they are not those of `into` as it was."""

    into: str
    sources: list[str]
    how: str = Field(examples=["duplicate", "near_duplicate", "model"])
    similarity: float | None = Field(default=None, description="The least of the sources, of shared pairs of words.")
    task: str | None = None
    content: str | None = None


class LeftApart(Answer):
    ids: list[str]
    reason: str


class SlimAnswer(OperationAnswer):
    """What was merged into what. Undoing `slim_id` undoes all of it."""

    dry_run: bool
    records_before: int
    records_after: int
    characters_before: int
    characters_after: int
    merged: list[MergedRecords] = Field(description="The first 500; `merged_count` counts all.")
    merged_count: int
    sources_by: dict[str, int] = Field(examples=[{"duplicate": 2, "near_duplicate": 1, "model": 0}])
    skipped: list[LeftApart] = Field(description="The first 500; `skipped_count` counts all.")
    skipped_count: int
    families_asked: int = Field(description="How often a model was asked whether records are one.")
    has_more: bool = Field(description="Another slimming would look at more.")
    degraded: list[str]
    slim_id: str | None
    operation_ids: list[str]


class EvolvedRecord(SavedRecord):
    """A record after feedback; the rest is there where `evolve_feedback` was given."""

    evolved: bool | None = None
    diff: str | None = Field(default=None, description="A unified diff of the content; null where it stays.")
    degraded: list[str] | None = None
    detail: str | None = Field(default=None, description="What was changed, or why nothing was.")
