"""Schemas of importing and exporting knowledge records."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from knowhub.core.errors import InvalidInput, TooLarge
from knowhub.knowledge.evidence import MAX_PENDING_FEEDBACK, VOTES_STORED
from knowhub.knowledge.model import DEFAULT_SCORE, HISTORY_SHOWN, ImportedKnowledge, OnConflict
from knowhub.web.json_limits import JsonLimits
from knowhub.web.json_parsing import MAX_WRONG_LINES, parse_json_lines
from knowhub.web.schemas.knowledge import (
    MAX_COUNT,
    MAX_IMPORT_LINES,
    RESERVED_WORDS,
    Case,
    Question,
    RecordFields,
    Score,
)
from knowhub.web.schemas.parts import CallerIds, EntityId, Label, Moment, Part

NumberedLine: TypeAlias = tuple[int, bytes]


class ImportParams(CallerIds):
    """How an import treats ids that are taken."""

    on_conflict: OnConflict = OnConflict.FAIL


class ExportParams(CallerIds):
    """Which form an export has."""

    layout: Literal["jsonl", "workspace"] = "jsonl"


Count = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]


class VoteLine(Part):
    """A vote that counts for the ranking."""

    kind: Literal["helpful", "harmful", "passed_over", "withdrawn", "restored"]
    voter: Label | None = None
    goal: Label | None = None
    timestamp: Moment | None = None


class Evaluation(Part):
    """The evidence of an imported record; what is left out is as for a fresh one."""

    model_config = ConfigDict(extra="forbid", strict=False)

    score: Score | None = None
    helpful: Count | None = None
    harmful: Count | None = None
    effective: dict[Literal["helpful", "harmful"], Count] | None = Field(
        default=None, description="Ignored; exports of earlier versions have it."
    )
    votes: Annotated[list[VoteLine], Field(max_length=VOTES_STORED)] | None = None
    weak: dict[Literal["success", "failure"], Count] | None = None
    kept_words: Annotated[list[Question], Field(max_length=MAX_PENDING_FEEDBACK)] | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    helpful_history: list[Case] | None = None
    harmful_history: list[Case] | None = None

    def to_evidence(self) -> dict[str, Any]:
        """Return what was given, in the form of a record's `eval`."""
        given = self.model_dump(exclude_none=True, exclude={"effective"})
        if "weak" in given:
            given["weak"] = {"success": 0, "failure": 0} | given["weak"]
        for name in ("helpful_history", "harmful_history"):
            if name in given:
                given[name] = [case.to_case() for case in getattr(self, name)][-HISTORY_SHOWN:]
        return given


def _check_record_id(text: str) -> str:
    if text in RESERVED_WORDS:
        raise ValueError(f"{text!r} is a word of the API, so a record of that id could not be read")
    return text


RecordId = Annotated[EntityId, AfterValidator(_check_record_id)]


class ImportLine(RecordFields):
    """A line of an import: a record as an export writes it."""

    id: RecordId | None = None
    eval: Evaluation = Field(default_factory=Evaluation)
    score: Score | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = Field(default=None, description="Ignored; the server sets it.")
    version: int | None = Field(default=None, description="Ignored; it starts at 1.")

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if not self.task.strip() and not self.content.strip():
            raise ValueError("task and content are both blank; one of them must say something")
        return self

    def to_imported(self) -> ImportedKnowledge:
        """Return the parsed line."""
        score = self.eval.score or self.score or DEFAULT_SCORE
        return ImportedKnowledge(
            self.id, self.to_new(score=score), {**self.eval.to_evidence(), "score": score}, self.created_at
        )


def parse_import(
    body: bytes,
    limits: JsonLimits,
    max_lines: int | None = MAX_IMPORT_LINES,
    watch: Callable[[Sequence[NumberedLine]], Iterable[NumberedLine]] = iter,
) -> list[ImportedKnowledge]:
    """Parse JSON lines into records. `watch` yields the lines that it is given, and may show how many are parsed.

    Raises TooLarge for more than `max_lines` records, and InvalidInput naming `lines.<number>.<field>` for each line
    that is wrong, up to 100 of them.
    """
    numbered = _number_lines(body, max_lines)
    rows, errors = parse_json_lines(
        watch(numbered), limits, lambda value: ImportLine.model_validate(value).to_imported()
    )
    if errors:
        detail = f"{errors[0].field}: {errors[0].message}; nothing was imported"
        raise InvalidInput(detail, errors[:MAX_WRONG_LINES])
    if not rows:
        raise InvalidInput.of("body", "holds no record; send one JSON object a line")
    return list(rows.values())


def _number_lines(body: bytes, max_lines: int | None) -> Sequence[NumberedLine]:
    """Return the lines that are not blank with their numbers. Raises TooLarge when they are too many."""
    # Room for a blank line after each record; what is behind is not split, as each line takes memory.
    max_splits = -1 if max_lines is None else 2 * max_lines
    lines = body.split(b"\n", max_splits)
    rest = lines.pop() if max_lines is not None and len(lines) > max_splits else b""
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if max_lines is not None and (len(numbered) > max_lines or rest.strip()):
        raise TooLarge(
            f"one request imports at most {max_lines} records, this one has more: split the file "
            f"(`split -l {max_lines}`) and import its parts, or give it to `knowhub import`; nothing was imported"
        )
    return numbered
