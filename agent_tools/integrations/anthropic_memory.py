"""The memory tool of Anthropic's SDK on KnowHub: the files under /memories are resources of a user.

Needs the extra `anthropic`. See docs/how-to/use-anthropic-memory-tool.md.
"""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Final, TypeVar

from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from agent_tools.arguments import clean_text
from agent_tools.integrations.documents import Document, DocumentFolder
from agent_tools.results import ToolFailure

ROOT: Final = "memories"
SHOWN_LEVELS: Final = 2
NUMBER_WIDTH: Final = 6
CONTEXT_LINES: Final = 2
KIB: Final = 1024

ValueT = TypeVar("ValueT")
_Path = tuple[str, ...]


class KnowHubMemoryTool(BetaAsyncAbstractMemoryTool):
    """Keeps a model's files for a user: on every machine, with a history, and an undo of each change.

    What a model reads is worded as in Anthropic's own implementation. Every error is a `ToolError`, which the SDK shows
    to the model.
    """

    def __init__(self, user_id: str) -> None:
        super().__init__()
        self._files = DocumentFolder("anthropic-memory", user_id)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the lines of a file with their numbers, or the names and sizes of the files in a directory."""
        path = _parse(command.path)
        file = await self._find(path)
        if file is not None:
            lines = _number_lines(file.text.split("\n"), command.view_range)
            return f"Here's the content of {command.path} with line numbers:\n" + "\n".join(lines)
        below = await _ask(self._files.scan(path))
        if path and not below:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        header = f"Here're the files and directories up to 2 levels deep in {command.path}, excluding hidden items:"
        return "\n".join([header, *_list_sizes(command.path.rstrip("/"), len(path), below)])

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        await self._check_free(command.path)
        if not await _ask(self._files.create(_parse(command.path), clean_text(command.file_text))):
            raise ToolError(f"{command.path} already exists")
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        file = await self._open(command.path)
        before, found, after = file.text.partition(command.old_str) if command.old_str else (file.text, "", "")
        if not found:
            raise ToolError(
                f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim in {command.path}."
            )
        line = before.count("\n")
        if command.old_str in after:
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}`, the first in line "
                f"{line + 1}. Please ensure it is unique"
            )
        changed = f"{before}{command.new_str}{after}"
        await self._write(file, changed)
        shown = [max(1, line + 1 - CONTEXT_LINES), line + 1 + CONTEXT_LINES]
        lines = "\n".join(_number_lines(changed.split("\n"), shown))
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{lines}"

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text behind a line of a file; 0 is its beginning."""
        file = await self._open(command.path)
        lines = file.text.removesuffix("\n").split("\n") if file.text else []
        if not 0 <= command.insert_line <= len(lines):
            valid = f"It should be within the range [0, {len(lines)}]."
            raise ToolError(f"Invalid `insert_line` parameter: {command.insert_line}. {valid}")
        lines.insert(command.insert_line, command.insert_text.removesuffix("\n"))
        await self._write(file, "\n".join(lines) + "\n")
        return f"The file {command.path} has been edited."

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a directory with all that is in it."""
        for file in await self._collect(command.path):
            await _ask(self._files.delete(file.path))
        return f"Successfully deleted {command.path}"

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename a file or a directory. The old files go when all new ones are stored."""
        files = await self._collect(command.old_path)
        await self._check_free(command.new_path)
        old, new = _parse(command.old_path), _parse(command.new_path)
        for file in files:
            if not await _ask(self._files.create((*new, *file.path[len(old) :]), file.text)):
                raise ToolError(f"{command.new_path} already exists")
        for file in files:
            await _ask(self._files.delete(file.path))
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        for file in await _ask(self._files.scan()):
            await _ask(self._files.delete(file.path))
        return "All memory cleared"

    async def _find(self, path: _Path) -> Document | None:
        return await _ask(self._files.read(path)) if path else None

    async def _open(self, name: str) -> Document:
        path = _parse(name)
        file = await self._find(path)
        if file is not None:
            return file
        below = await _ask(self._files.scan(path))
        if below or not path:
            raise ToolError(f"The path {name} is not a file.")
        raise ToolError(f"The path {name} does not exist. Please provide a valid path.")

    async def _write(self, file: Document, text: str) -> None:
        if not await _ask(self._files.change(file, body=clean_text(text))):
            raise ToolError("The file was changed meanwhile, and nothing was written. View it again.")

    async def _collect(self, name: str) -> list[Document]:
        path = _parse(name)
        if not path:
            raise ToolError("Cannot delete or rename the /memories directory itself")
        file = await self._find(path)
        if file is not None:
            return [file]
        below = await _ask(self._files.scan(path))
        if not below:
            raise ToolError(f"The path {name} does not exist")
        return below

    async def _check_free(self, name: str) -> None:
        path = _parse(name)
        below = await _ask(self._files.scan(path))
        if below or not path or await self._find(path) is not None:
            raise ToolError(f"{name} already exists")
        for length in range(1, len(path)):
            if await self._find(path[:length]) is not None:
                raise ToolError(f"/{ROOT}/{'/'.join(path[:length])} is a file, not a directory")


async def _ask(answer: Awaitable[ValueT]) -> ValueT:
    try:
        return await answer
    except ToolFailure as failure:
        raise ToolError(failure.advice) from failure


def _parse(name: str) -> _Path:
    root, *parts = [part for part in name.split("/") if part] or [""]
    if not name.startswith("/") or root != ROOT:
        raise ToolError(f"Path must start with /{ROOT}, got: {name}")
    if any(part in {".", ".."} for part in parts):
        raise ToolError(f"Path {name} would escape /{ROOT} directory")
    return tuple(parts)


def _number_lines(lines: Sequence[str], shown: Sequence[int] | None) -> list[str]:
    first, last = max(1, shown[0]) if shown else 1, shown[-1] if shown else -1
    return [
        f"{number:>{NUMBER_WIDTH}}\t{line}"
        for number, line in enumerate(lines[first - 1 : None if last == -1 else max(last, 0)], first)
    ]


def _list_sizes(name: str, depth: int, files: Sequence[Document]) -> Iterator[str]:
    sizes: dict[_Path, int] = {(): 0}
    for file in files:
        path = file.path[depth:]
        if not any(part.startswith(".") for part in path):
            for length in range(min(len(path), SHOWN_LEVELS) + 1):
                sizes[path[:length]] = sizes.get(path[:length], 0) + len(file.text.encode())
    names = {file.path[depth:] for file in files}
    for path in sorted(sizes):
        directory = "" if path in names or not path else "/"
        yield f"{_format_size(sizes[path])}\t{'/'.join((name, *path))}{directory}"


def _format_size(size: float) -> str:
    for unit in "BKM":
        if size < KIB or unit == "M":
            break
        size /= KIB
    return f"{size:.0f}{unit}" if size == int(size) else f"{size:.1f}{unit}"
