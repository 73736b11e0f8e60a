"""Recorded decisions of a language model, asked again, to see what another one would decide (KT-251)."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.core.chat import ChatFailed, ChatModel, FailureReason, Message, NotAsked, Question, Reply
from knowhub.core.choices import Choices, pointed_at, short_text
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Operation, Row
from knowhub.core.replaying import UNUSABLE, Replayable, Shown, by_choices
from knowhub.keywords import prompts
from knowhub.keywords.agent_decision import Action, decode

_MAX_ASKED = 200


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call as the log holds it. `choices` says which keyword each idx of its prompt stood for."""

    operation_id: str
    function: str
    model: str
    messages: Sequence[Message]
    output: Any
    failure: str | None
    choices: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """What was decided, and what a model decides now; `same` when both mean the same.

    `was` and `now` are decisions with ids, or `{"failure": reason}`. `asked` is what it was about, in short; `names`
    tells the names of the ids. `was_text` and `now_text` are what the answers write, which is not compared. `tokens`
    (both directions, None where nobody counted) and `seconds` are of the new call.
    Not `was_asked`: the question was not sent, `now` is the failure that says so, and it is never the same.
    """

    operation_id: str
    function: str
    asked: str
    was: Row
    now: Row
    same: bool
    was_asked: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    was_text: str = ""
    now_text: str = ""
    detail: str = ""
    tokens: int | None = None
    seconds: float = 0.0


class ScriptedModel:
    """A model that gives the answers of a JSON Lines text in their order, for replays without a server.

    A line is an answer, or `{"failure": "agent_timeout"}` for one that does not come. When no line is left it fails.
    """

    def __init__(self, lines: Iterable[str], name: str = "scripted") -> None:
        """Read all lines. Raises InvalidInput naming the first line that is no JSON object."""
        self._name = name
        self._answers = iter([_scripted(line, number) for number, line in enumerate(lines, 1) if line.strip()])

    @property
    def model(self) -> str:
        """The name under which its answers are told."""
        return self._name

    async def chat(self, question: Question, timeout_s: float) -> Reply:  # noqa: ARG002 -- the port's signature
        """Return the next answer, whatever is asked. Raises ChatFailed."""
        answer = next(self._answers, None)
        if answer is None:
            raise NotAsked(FailureReason.FAILURE, "the script has no answer left")
        if set(answer) == {"failure"}:
            raise ChatFailed(_reason(answer["failure"]), "as the script says")
        return Reply(answer, self._name, 0.0)


def recorded_calls(
    operations: Iterable[Operation], functions: Mapping[str, Replayable] | None = None
) -> Iterator[Recorded]:
    """Yield the calls of `functions` that these operations hold, in their order; without any, those of the tree."""
    known = FUNCTIONS if functions is None else functions
    for operation in operations:
        for call in operation.agent_io or ():
            if call.get("function") in known:
                yield Recorded(
                    operation.operation_id,
                    call["function"],
                    str(call.get("model")),
                    call.get("messages") or (),
                    call.get("output"),
                    call.get("failure"),
                    call.get("choices") or {},
                )


async def replay(
    calls: Iterable[Recorded],
    chat: ChatModel,
    timeout_s: float,
    functions: Mapping[str, Replayable] | None = None,
) -> AsyncIterator[Difference]:
    """Ask `chat` each recorded question again, `timeout_s` for each, and yield how its answer compares.

    Nothing is written. A call that fails is a difference that says so, unless it failed alike when it was recorded; one
    that was never sent tells nothing about the model, and says that.
    """
    known = FUNCTIONS if functions is None else functions
    for call in calls:
        function = known[call.function]
        question = Question(call.function, call.messages, function.schema)
        try:
            answer: Reply | ChatFailed = await chat.chat(question, timeout_s)
        except ChatFailed as failed:
            answer = failed
        yield _difference(call, function, answer)


def meaning(
    function: Replayable, output: object, choices: Mapping[str, str], data: Mapping[str, Any] | None = None
) -> Row:
    """Return what an answer decides, with ids in place of idx, without its reasons and the order of its lists.

    A description counts by whom it describes: no two models write the same words. Raises nothing, whatever
    `output` is. `data` is what the prompt showed.
    """
    if not isinstance(output, Mapping):
        return UNUSABLE
    ordered = sorted((idx for idx in choices if idx.isdecimal()), key=int)
    return function.meaning(output, Shown(Choices([choices[idx] for idx in ordered]), data or {}))


def _difference(call: Recorded, function: Replayable, answer: Reply | ChatFailed) -> Difference:
    data = _shown(call.messages)

    def decided(output: object, failure: str | None) -> Row:
        return {"failure": failure} if failure else meaning(function, output, call.choices, data)

    reply, failed = (answer, None) if isinstance(answer, Reply) else (None, answer)
    was = decided(call.output, call.failure)
    now = decided(reply and reply.data, None if failed is None else failed.reason.value)
    was_asked = not isinstance(failed, NotAsked)
    return Difference(
        operation_id=call.operation_id,
        function=call.function,
        asked=_asked(data),
        was=was,
        now=now,
        same=was_asked and was == now,
        was_asked=was_asked,
        names=_names(data, call.choices),
        was_text=_written(function, call.output),
        now_text=_written(function, reply and reply.data),
        detail="" if failed is None else failed.detail,
        tokens=None if reply is None else _tokens(reply),
        seconds=0.0 if reply is None else reply.seconds,
    )


def _written(function: Replayable, output: object) -> str:
    text = function.text(output) if isinstance(output, Mapping) else ""
    return text.encode("utf-8", "replace").decode()


def _branch(output: Mapping[str, Any], choices: Choices) -> Row:
    decision = decode(output, choices)
    if decision is None:
        return UNUSABLE
    match decision.action:
        case Action.MISSING:
            chosen: dict[str, Any] = {"suggest_name": decision.suggest_name}
        case Action.AMBIGUOUS:
            chosen = {"candidate_ids": sorted(decision.candidate_ids)}
        case Action.JUMP | Action.MATCH:
            chosen = {"node_ids": sorted(decision.targets)}
    # What was never shown is dropped when it is read, and yet it tells two models apart.
    return {"action": decision.action.value, **chosen} | ({"strays": True} if decision.strays else {})


def _same_name(output: Mapping[str, Any], choices: Choices) -> Row:
    return {"node_id": choices.pick(output.get("node_id"))}


def _dedup(output: Mapping[str, Any], choices: Choices) -> Row:
    action = short_text(output.get("action"), _MAX_ASKED)
    return {"action": action} if action == "create_new" else {"action": action, **_same_name(output, choices)}


def _links(output: Mapping[str, Any], choices: Choices) -> Row:
    links = [
        [_picked(choices, link.get("keyword_id")), short_text(link.get("relation"), _MAX_ASKED)]
        for link in _objects(output, "links")
    ]
    names = [short_text(name, _MAX_ASKED) for name in pointed_at(output.get("suggested_names"))]
    return {"links": sorted(links), "suggested_names": sorted(names)}


def _tidying(output: Mapping[str, Any], choices: Choices) -> Row:
    def pairs(name: str, other: str) -> list[list[str]]:
        found = _objects(output, name)
        return sorted([_picked(choices, one.get("node_id")), _picked(choices, one.get(other))] for one in found)

    splits = [
        [_picked(choices, split.get("node_id")), sorted(_group(group, choices) for group in _objects(split, "groups"))]
        for split in _objects(output, "splits")
    ]
    return {
        "moves": pairs("moves", "new_parent_id"),
        "merges": pairs("merges", "into_id"),
        "described": sorted(_picked(choices, one.get("node_id")) for one in _objects(output, "descriptions")),
        "splits": sorted(splits),
    }


def _group(group: Mapping[str, Any], choices: Choices) -> list[Any]:
    return [
        short_text(group.get("name"), _MAX_ASKED),
        sorted(choices.pick_all(pointed_at(group.get("node_ids")))),
    ]


FUNCTIONS: Mapping[str, Replayable] = {
    name: by_choices(prompts.SCHEMAS[name], meaning_of)
    for name, meaning_of in (
        (prompts.PICK_BRANCH, _branch),
        (prompts.DISAMBIGUATE, _same_name),
        (prompts.DEDUP_CHECK, _dedup),
        (prompts.LINK_INFO, _links),
        (prompts.REORGANIZE, _tidying),
    )
}
"""What is asked about the tree. Other domains ask other functions, and hand them in."""


def _picked(choices: Choices, pointed: object) -> str:
    """Return the id that is meant; "" for what was never shown."""
    return choices.pick(pointed) or ""


def _objects(body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = body.get(name)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


def _shown(messages: Sequence[Message]) -> Mapping[str, Any]:
    """Return what the prompt showed as data; nothing where it is no prompt of this version."""
    if not messages:
        return {}
    content = str(messages[-1].get("content", ""))
    begin, end = content.find("{"), content.rfind("}")
    try:
        data = json.loads(content[begin : end + 1])
    except ValueError:
        return {}
    return data if isinstance(data, Mapping) else {}


def _asked(data: Mapping[str, Any]) -> str:
    new = data.get("new")
    words = data.get("query") or data.get("info") or data.get("feedback")
    named = (one.get("name") or one.get("task") or one.get("text") for one in _listed(data, "records", "messages"))
    return short_text(words or (new.get("name") if isinstance(new, Mapping) else next(named, "")), _MAX_ASKED)


def _names(data: Mapping[str, Any], choices: Mapping[str, str]) -> dict[str, str]:
    # Keywords are shown by idx and name, records by id or idx, and task or content.
    shown = _listed(data, "candidates", "nodes", "records", "known")
    named = (
        (choices.get(str(one.get("idx")), one.get("id")), one.get("name") or one.get("task") or one.get("content"))
        for one in shown
    )
    return {str(row_id): short_text(str(name), _MAX_ASKED) for row_id, name in named if row_id is not None}


def _listed(data: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the objects of the first of these lists that has any."""
    return next(filter(None, (_objects(data, name) for name in names)), [])


def _tokens(reply: Reply) -> int | None:
    counted = [count for count in (reply.prompt_tokens, reply.completion_tokens) if count is not None]
    return sum(counted) if counted else None


def _scripted(line: str, number: int) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError as problem:
        raise InvalidInput.of(f"line {number}", f"is no JSON: {short_text(str(problem), _MAX_ASKED)}") from problem
    except RecursionError as problem:
        raise InvalidInput.of(f"line {number}", "is nested too deep to be read") from problem
    if not isinstance(answer, dict):
        raise InvalidInput.of(f"line {number}", "must be a JSON object, the answer of one call")
    return answer


def _reason(name: object) -> FailureReason:
    return FailureReason.TIMEOUT if name == FailureReason.TIMEOUT.value else FailureReason.FAILURE
