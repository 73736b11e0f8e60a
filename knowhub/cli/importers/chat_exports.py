"""The exports of ChatGPT and of Claude: an archive, its folder, or its `conversations.json`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from knowhub.cli.importers.model import Conversation, Item, Note, get_object, list_objects, read_time
from knowhub.cli.importers.source import ImportSource, SourceFile
from knowhub.conversations.messages import Message
from knowhub.web.hooks.hosts import get_text, read_blocks
from knowhub.web.hooks.transcripts import clean_message

_UNKNOWN: Final = "conversations of an unknown shape"
_TEXTS: Final = ("text", "multimodal_text", "execution_output")
_KIND_CHARS: Final = 40


def read_chatgpt(source: ImportSource) -> Iterator[Conversation]:
    """Yield conversations as they went on last. Large exports have `conversations-000.json` and so on."""
    for file in _select_files(source, "conversations"):
        for item in file.iterate_items("conversations"):
            mapping = get_object(get_object(item).get("mapping"))
            session_id = get_text(get_object(item), "conversation_id") or get_text(get_object(item), "id")
            if not mapping or not session_id:
                source.left_out[_UNKNOWN] += 1
                continue
            if item.get("is_do_not_remember"):
                source.left_out["conversations that are not to be remembered"] += 1
                continue
            path = _follow(str(item.get("current_node")), mapping, "parent")
            source.left_out["messages of other branches"] += sum(
                bool(get_object(node).get("message")) for key, node in mapping.items() if key not in path
            )
            messages = [
                message
                for key in path
                for message in _read_node(get_object(get_object(mapping[key]).get("message")), source)
            ]
            if messages:
                yield Conversation(f"chatgpt-{session_id}", messages)


def _follow(last: str, nodes: dict[str, Any], parent: str) -> dict[str, None]:
    """Return the keys from the first node to `last`. Without a last node it is the newest that has no children."""
    if last not in nodes:
        parents = {str(get_object(node).get(parent)) for node in nodes.values()}
        last = next((key for key in reversed(nodes) if key not in parents), "")
    path: dict[str, None] = {}
    while last in nodes and last not in path:
        path[last] = None
        last = str(get_object(nodes[last]).get(parent))
    return dict.fromkeys(reversed(path))


def _read_node(sent_message: Mapping[str, Any], source: ImportSource) -> Iterator[Message]:
    author, content = get_object(sent_message.get("author")), get_object(sent_message.get("content"))
    kind, role = (get_text(content, "content_type") or "")[:_KIND_CHARS], get_text(author, "role")
    if not sent_message or role == "system":
        return
    is_hidden = get_object(sent_message.get("metadata")).get("is_visually_hidden_from_conversation")
    is_call = role == "assistant" and str(sent_message.get("recipient")) not in {"all", "None"}
    if is_hidden or is_call or kind not in _TEXTS or role not in {"user", "assistant", "tool"}:
        named = "messages of an unknown shape" if role is None or not kind else f"messages {kind}"
        source.left_out["hidden messages" if is_hidden else "calls of tools" if is_call else named] += 1
        return
    parts = content.get("parts")
    texts: Sequence[object] = parts if isinstance(parts, list) else [content.get("text")]
    # A part is a text, or an object: a picture, or the words of a recording.
    text = "\n".join(part if isinstance(part, str) else str(get_object(part).get("text") or "") for part in texts)
    name = str(author.get("name") or "") if role == "tool" else ""
    message = Message(role, text, name, get_text(sent_message, "id"), read_time(sent_message.get("create_time")))
    cleaned = clean_message(message, source.left_out)
    if cleaned is not None:
        yield cleaned


def read_claude_export(source: ImportSource) -> Iterator[Item]:
    """Yield conversations, what Claude remembers of the user, and the documents of projects."""
    for file in _select_files(source, "conversations", "memories", "projects"):
        for item in file.iterate_items("conversations"):
            entry = get_object(item)
            if "chat_messages" in entry:
                yield from _read_chat(entry, source)
            elif "conversations_memory" in entry or "project_memories" in entry:
                yield from _read_memories(entry)
            elif "docs" in entry or "prompt_template" in entry:
                yield from _read_project(entry)
            else:
                source.left_out[_UNKNOWN] += 1


def _read_chat(entry: Mapping[str, Any], source: ImportSource) -> Iterator[Conversation]:
    sent = list_objects(entry.get("chat_messages"))
    nodes = {str(sent_message.get("uuid")): sent_message for sent_message in sent}
    is_tree = any(str(sent_message.get("parent_message_uuid")) in nodes for sent_message in sent)
    path = _follow(str(entry.get("current_leaf_message_uuid")), nodes, "parent_message_uuid") if is_tree else nodes
    source.left_out["messages of other branches"] += len(nodes) - len(path)
    messages: list[Message] = []
    tools: dict[str, str] = {}
    for key in path:
        sent_message = nodes[key]
        source.left_out["attachments"] += len(list_objects(sent_message.get("attachments")))
        message = Message(str(sent_message.get("sender")), "", "", key, read_time(sent_message.get("created_at")))
        content = sent_message.get("content") or sent_message.get("text")
        cleaned = (clean_message(read, source.left_out) for read in read_blocks(message, content, tools))
        messages += [read for read in cleaned if read is not None and (read.is_user or read.is_agent or read.is_tool)]
    if messages and entry.get("uuid"):
        yield Conversation(f"claude-{entry['uuid']}", messages)


def _read_memories(entry: Mapping[str, Any]) -> Iterator[Note]:
    projects = get_object(entry.get("project_memories"))
    texts = {"conversations": entry.get("conversations_memory"), **projects}
    for name, text in texts.items():
        if isinstance(text, str) and text.strip():
            key = f"memory {entry.get('account_uuid')} {name}"
            title = "What Claude remembers" + ("" if name == "conversations" else f" of project {name}")
            yield Note(key, title, text, "user_profile")


def _read_project(entry: Mapping[str, Any]) -> Iterator[Note]:
    name, created = str(entry.get("name") or "project"), read_time(entry.get("created_at"))
    template = get_text(entry, "prompt_template")
    if template:
        yield Note(f"prompt {entry.get('uuid')}", f"Instructions of {name}", template, "strategy", {}, created)
    for document in list_objects(entry.get("docs")):
        title, text = str(document.get("filename") or name), get_text(document, "content")
        if text:
            said_at = read_time(document.get("created_at")) or created
            yield Note(f"doc {document.get('uuid')}", title, text, "definition", {"project": name}, said_at)


def _select_files(source: ImportSource, *names: str) -> list[SourceFile]:
    """Return the files with these names; a single file may have any."""
    files, chosen = source.list_files(".json"), []
    for file in files:
        if len(files) == 1 or any(part.startswith(names) for part in file.path.parts):
            chosen.append(file)
        else:
            source.left_out[f"file {file.path.name}"] += 1
    return chosen
