"""`knowhub import --from`: reads everything once to check and count it, and then writes it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import run_on_hub
from knowhub.cli.importers.chat_exports import read_chatgpt, read_claude_export
from knowhub.cli.importers.formats import ImportFormat
from knowhub.cli.importers.model import Conversation, Item, Note
from knowhub.cli.importers.notes import read_markdown, read_mem0, read_memory_server
from knowhub.cli.importers.openviking import read_openviking
from knowhub.cli.importers.source import ImportSource
from knowhub.cli.importers.transcripts import read_claude_code, read_codex
from knowhub.cli.importers.writing import ImportWriter
from knowhub.cli.options import CallerOptions
from knowhub.core.errors import InvalidInput
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import OnConflict

READERS: Final[Mapping[ImportFormat, Callable[[ImportSource], Iterator[Item]]]] = {
    ImportFormat.CLAUDE_CODE: read_claude_code,
    ImportFormat.CODEX: read_codex,
    ImportFormat.CHATGPT: read_chatgpt,
    ImportFormat.CLAUDE: read_claude_export,
    ImportFormat.MARKDOWN: read_markdown,
    ImportFormat.MEMORY_SERVER: read_memory_server,
    ImportFormat.MEM0: read_mem0,
    ImportFormat.OPENVIKING: read_openviking,
}

_MAX_LINES: Final = 20


@dataclass(slots=True)
class _ImportSummary:
    """What was read: how many conversations and messages, and the notes."""

    left_out: Mapping[str, int]
    conversations: int = 0
    messages: int = 0
    notes: list[Note] = field(default_factory=list)


def import_foreign(
    form: ImportFormat, path: Path, options: CallerOptions, on_conflict: OnConflict, *, dry_run: bool
) -> None:
    """Import what another program exported, and print what was done. With `dry_run`, nothing is opened or written.

    Raises NotFound, TooLarge, and InvalidInput for a file that cannot be read or holds nothing of this form.
    """
    with output.show_progress(options.as_json) as bars:
        reading = bars.add_task("reading", total=None)

        def open_source() -> ImportSource:
            return ImportSource(path, lambda read, total: bars.update(reading, completed=read, total=total))

        summary = _read_source(form, path, open_source())
        if dry_run:
            _print(form, summary, None, as_json=options.as_json)
            return
        writing = bars.add_task("writing", total=summary.messages + len(summary.notes))

        async def write(hub: Hub, ctx: RequestContext) -> ImportWriter:
            source = open_source()
            writer = ImportWriter(hub, ctx, source.left_out, lambda count: bars.update(writing, completed=count))
            try:
                await writer.write_notes(form, summary.notes, on_conflict)
                await writer.write_conversations(READERS[form](source) if summary.conversations else ())
            except BaseException:
                if writer.operations:
                    output.warn(
                        "the import broke off: the same command goes on with it, and this undoes what was written: "
                        f"knowhub undo {writer.import_id}"
                    )
                raise
            return writer

        written = run_on_hub(options, write, create=True)
    _print(form, summary, written, as_json=options.as_json)


def _read_source(form: ImportFormat, path: Path, source: ImportSource) -> _ImportSummary:
    summary = _ImportSummary(source.left_out)
    for item in READERS[form](source):
        if isinstance(item, Conversation):
            summary.conversations += 1
            summary.messages += len(item.messages)
        else:
            summary.notes.append(item)
    if not summary.conversations and not summary.notes:
        found = "; ".join(_list_left_out(summary.left_out))
        raise InvalidInput(f"{path} holds nothing of {form}" + (f"; left out: {found}" if found else ""))
    return summary


def _print(form: ImportFormat, summary: _ImportSummary, written: ImportWriter | None, *, as_json: bool) -> None:
    left_out = summary.left_out if written is None else {**summary.left_out, **written.left_out}
    import_id = written.import_id if written is not None and written.operations else None
    answer: dict[str, Any] = {
        "from": form.value,
        "dry_run": written is None,
        "conversations": summary.conversations,
        "messages": {"read": summary.messages, **(written.messages if written else {})},
        "records": {"read": len(summary.notes), **(written.records if written else {})},
        "left_out": {name: count for name, count in left_out.items() if count},
        "import_id": import_id,
    }
    read = "would import" if written is None else "read"
    lines = (
        [f"{read} {summary.conversations} conversations of {summary.messages} messages"]
        if summary.conversations
        else []
    )
    lines += [f"{read} {len(summary.notes)} notes"] if summary.notes else []
    for name in ("messages", "records") if written is not None else ():
        counts = [f"{count} {what}" for what, count in answer[name].items() if what != "read"]
        lines += [f"{name}: {', '.join(counts)}"] if counts else []
    lines += [f"left out: {line}" for line in _list_left_out(left_out)]
    output.print_answer(answer, [*lines, *output.list_undo(import_id)], as_json=as_json)


def _list_left_out(left_out: Mapping[str, int]) -> list[str]:
    lines = [f"{count} {name}" for name, count in sorted(left_out.items(), key=lambda item: -item[1]) if count]
    more = len(lines) - _MAX_LINES
    return lines if more <= 0 else [*lines[:_MAX_LINES], f"{more} more kinds, which --json names"]
