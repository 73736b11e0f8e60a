"""An erased log line keeps its length and checksum, and the other rows in it."""

import string
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.erasing import EraseRules, is_erased
from knowhub.keywords import info_rules, keyword_rules
from knowhub.keywords.model import INFOS, KEYWORDS
from knowhub.knowledge import record_rules
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.erasing.line_eraser import Fingerprints, Target, erase_from_line, find_versions
from knowhub.stores.files.log.log_line import add_checksum, end_line, parse_line
from tests.builders import knowledge_row

SECRET = "The quagga of platform nine sings at midnight."
CHINESE = "第九站台的斑驴在午夜歌唱，没有人听见。"
SHORT_SOURCE = ("name", "agent_id", "submitted_by", "timestamp")
RULES = {
    KNOWLEDGE: record_rules.ERASE_RULES,
    INFOS: info_rules.ERASE_RULES,
    KEYWORDS: keyword_rules.ERASE_RULES,
}


def make_change(
    row: dict[str, Any], before: dict[str, Any] | None = None, collection: str = KNOWLEDGE
) -> dict[str, Any]:
    return {"collection": collection, "id": row["id"], "before": before, "after": row}


def line_of(*changes: dict[str, Any], **fields: Any) -> bytes:  # noqa: ANN401 -- any field of a line
    record = {"seq": 3, "batch": 0, "op": "save", "operation_id": "o-3", "account": "default", "actor": "user:li"}
    rest = {"timestamp": 1.5, "changes": list(changes), "agent_io": None, "undo_of": None, "idempotency": None}
    return add_checksum(orjson.dumps(record | rest | fields)[:-1])


def erase(line: bytes, row_id: str = "knowledge-1", collection: str = KNOWLEDGE, *known: bytes) -> bytes | None:
    target, rules = Target("default", collection, row_id), RULES[collection]
    versions = [row for item in (line, *known) for row in find_versions(parse_line(item) or {}, target)]
    return erase_from_line(line, target, rules, Fingerprints.of(row_id, versions, rules))


def erase_and_read(line: bytes, *how: Any) -> dict[str, Any]:  # noqa: ANN401 -- the arguments of `erase`
    """Return the object of a line that was erased from; it keeps its length."""
    new = erase(line, *how)
    assert new is not None
    assert len(new) == len(line)
    record = parse_line(new)
    assert record is not None
    return record


def info_row(row_id: str = "info-1", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    times = {"created_at": "2026-03-05T12:00:00.000Z", "updated_at": "2026-03-05T12:00:00.000Z"}
    row = {"id": row_id, "content": "c", "source": "", "metadata": {}, "scopes": ["public"], "owner": "user:li"}
    return row | {"version": 1} | times | fields


def keyword_row(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    row = info_row("keyword-1") | {"name": "x", "aliases": [], "normalized": ["x"], "pinyin": [], "terms": ["x"]}
    del row["content"], row["source"]
    return row | {"parent_id": "root", "description": "", "deleted": True} | fields


@pytest.mark.parametrize(
    ("row", "collection"),
    [
        (knowledge_row(content=SECRET), KNOWLEDGE),
        (knowledge_row(content=CHINESE, tags={"地": ["斑驴", "x"]}), KNOWLEDGE),
        (knowledge_row(content='"quoted" \\ back\\nslash \n\t\u2028 \x01 \U0001f993'), KNOWLEDGE),
        (knowledge_row(content="x", task=""), KNOWLEDGE),
        (knowledge_row(content=SECRET) | {"deleted": True}, KNOWLEDGE),
        (knowledge_row(content=SECRET, source=dict.fromkeys(SHORT_SOURCE, "s")), KNOWLEDGE),
        (info_row(), INFOS),
        (info_row(content=CHINESE, metadata={"a": [1, {"b": SECRET}]}), INFOS),
        (info_row(deleted=True), INFOS),
        (keyword_row(), KEYWORDS),
        (keyword_row(name="斑驴", pinyin=["banlv", "bl"], description=CHINESE), KEYWORDS),
    ],
)
def test_an_erased_line_keeps_its_length_and_loses_the_text(row: dict[str, Any], collection: str) -> None:
    earlier = row | {"version": 0}
    line = line_of(make_change(row, earlier, collection))

    (change,) = erase_and_read(line, row["id"], collection)["changes"]

    for stub, version in ((change["before"], earlier), (change["after"], row)):
        assert is_erased(stub)
        assert all(stub[name] == version[name] for name in RULES[collection].kept & row.keys())
        assert all(stub.get(name, blank) == blank for name, blank in RULES[collection].blanks.items())


def test_lines_of_other_rows_and_accounts_are_unchanged() -> None:
    line = line_of(make_change(knowledge_row(content=SECRET)))
    nothing = Fingerprints.of("knowledge-1", [], RULES[KNOWLEDGE])

    assert erase(line, "knowledge-2") is None
    for account, other in (("other", line), ("default", end_line(3))):
        assert erase_from_line(other, Target(account, KNOWLEDGE, "knowledge-1"), RULES[KNOWLEDGE], nothing) is None


def test_a_line_of_a_base_is_erased_too() -> None:
    row = knowledge_row(content=SECRET)
    entry = {"collection": KNOWLEDGE, "id": row["id"], "after": row, "number": 7}
    line = add_checksum(orjson.dumps({"account": "default", "changes": [entry]})[:-1])

    record = erase_and_read(line)

    assert record["changes"][0]["number"] == 7
    assert is_erased(record["changes"][0]["after"])


def dedup_call(text: str) -> list[dict[str, Any]]:
    data = orjson.dumps({"candidates": [{"idx": 1, "text": text}]}).decode()
    return [{"function": "dedup_check", "messages": [{"role": "user", "content": f"<data>\n{data}\n</data>"}]}]


@pytest.mark.parametrize(
    "shown",
    [SECRET, CHINESE, f"{SECRET[:40]} …", 'it says "two\nlines" \\ and a \U0001f993 of them, all in one'],
    ids=["whole", "chinese", "cut", "escapes"],
)
def test_model_calls_that_show_the_row_are_erased_from_other_operations(shown: str) -> None:
    text = SECRET if shown.startswith("The") else shown
    known = line_of(make_change(knowledge_row(content=text)))
    line = line_of(agent_io=dedup_call(shown), op="agent_decision")

    record = erase_and_read(line, "knowledge-1", KNOWLEDGE, known)

    assert record["agent_io"] is None


def test_other_model_calls_are_erased_only_from_operations_on_the_row() -> None:
    known = line_of(make_change(knowledge_row(content=SECRET)), agent_io=dedup_call("something else"))

    assert erase_and_read(known)["agent_io"] is None
    assert erase(line_of(agent_io=dedup_call("The quagga")), "knowledge-1", KNOWLEDGE, known) is None


def test_a_reply_loses_the_row_and_keeps_the_ids_that_an_answer_is_made_of() -> None:
    row, other = knowledge_row(content=SECRET), knowledge_row("knowledge-2", content="other")
    known = line_of(make_change(row))
    reply = {"ids": ["knowledge-1", "knowledge-2"], "duplicates": {"knowledge-1": row}, "said": f"as in: {SECRET}"}
    line = line_of(make_change(other), reply=reply)

    record = erase_and_read(line, "knowledge-1", KNOWLEDGE, known)

    assert record["reply"]["ids"] == ["knowledge-1", "knowledge-2"]
    assert is_erased(record["reply"]["duplicates"]["knowledge-1"])
    assert record["reply"]["said"] == ""
    assert record["changes"][0]["after"] == other


def test_a_copy_of_the_row_in_a_reply_is_emptied() -> None:
    known = line_of(make_change(info_row(content=SECRET)), make_change(info_row(content="short"), None, INFOS))
    line = line_of(reply={"row": {"id": "info-1", "content": "short", "n": 1}})

    record = erase_and_read(line, "info-1", INFOS, known)

    assert record["reply"] == {"row": {"id": "info-1", "content": "", "n": 1}}


EVOLVED = {"evolved": True, "diff": "@@\n-pw: Old9\n+pw: Hx7!", "degraded": ["llm"], "detail": "Old9 became Hx7!"}


def test_replies_of_operations_on_the_row_lose_all_texts() -> None:
    row = knowledge_row(content="pw: Hx7!")
    line = line_of(make_change(row, row | {"content": "pw: Old9"}), reply=EVOLVED)

    record = erase_and_read(line)

    assert record["reply"] == {"evolved": True, "diff": "", "degraded": ["llm"], "detail": ""}


def test_other_replies_lose_only_the_part_that_names_the_row() -> None:
    ours = {"into": "knowledge-5", "sources": ["knowledge-1"], "how": "model", "task": "t", "content": "Old9 or Hx7!"}
    others = ours | {"sources": ["knowledge-6"], "content": "theirs"}
    row = knowledge_row("knowledge-7", content="a duplicate", supersedes="knowledge-1")
    apart = {"ids": ["knowledge-1", "knowledge-6"], "reason": "Hx7! would be lost"}
    reply = {"merged": [ours, others], "skipped": [apart], "duplicates": {"7": row}}
    line = line_of(make_change(knowledge_row("knowledge-5")), reply=reply)

    record = erase_and_read(line, "knowledge-1", KNOWLEDGE, line_of(make_change(knowledge_row(content="pw: Old9"))))

    assert record["reply"] == reply | {
        "merged": [ours | {"task": "", "content": ""}, others],
        "skipped": [apart | {"reason": ""}],
    }


def test_the_reason_of_a_placement_is_erased_with_the_keyword() -> None:
    decided = {"placed": "root", "parent_id": "root", "reason": "x is nobody's child"}
    reply = {"id": "keyword-1", "degraded": [], "decided": decided}
    line = line_of(make_change(keyword_row(), None, KEYWORDS), reply=reply)

    record = erase_and_read(line, "keyword-1", KEYWORDS)

    assert record["reply"] == reply | {"decided": decided | {"reason": ""}}


def test_raw_bytes_match_by_a_piece_of_the_text() -> None:
    traces = Fingerprints.of(
        "knowledge-1", [knowledge_row(content=SECRET), knowledge_row(content="斑驴")], RULES[KNOWLEDGE]
    )

    assert traces.matches_bytes(b'\0\0,"content":"' + SECRET[:44].encode())
    assert traces.matches_bytes('…"content":"斑驴"'.encode())
    assert traces.matches_bytes(b'"id":"knowledge-1","co')
    assert not traces.matches_bytes(b'"id":"knowledge-12"')
    assert not traces.matches_bytes(b'{"content":"something else that is long enough to be found"}')


def test_a_short_sentence_matches_after_speaker_names() -> None:
    traces = Fingerprints.of("knowledge-1", [knowledge_row(content="The heron left. Nobody saw it.")], RULES[KNOWLEDGE])

    assert traces.matches_quote("An ibis came.\nli: The heron left.")
    assert traces.matches_quote("agent: li: The heron left.")
    assert not traces.matches_quote("li: The ibis left.")


def test_very_short_texts_and_ids_match_only_as_whole_values() -> None:
    traces = Fingerprints.of("7", [knowledge_row(content="x1")], RULES[KNOWLEDGE])

    assert traces.matches({"choices": {"1": "7"}})
    assert traces.matches(['as in {"name": "x1"}'])
    assert not traces.matches(["version 7 of x10", {"n": 7}])
    assert not traces.matches_bytes(b"version 7 of x10")


def test_a_row_too_short_for_a_stub_is_refused() -> None:
    line = line_of(make_change({"id": "info-1", "content": "", "scopes": []}, None, INFOS))

    with pytest.raises(ValueError, match="does not fit"):
        erase(line, "info-1", INFOS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=120).filter(str.strip)
IDS = st.text(string.ascii_letters + string.digits + '-"\\斑', min_size=1, max_size=12)


@given(content=TEXT, metadata=st.dictionaries(st.text(), JSON, max_size=3), other=TEXT, row_id=IDS, reply=JSON)
def test_any_line_keeps_its_length_and_its_other_rows(
    content: str, metadata: dict[str, Any], other: str, row_id: str, reply: object
) -> None:
    row = info_row(row_id, content=content, metadata=metadata)
    neighbour = info_row(f"{row_id}-other", content=other)
    line = line_of(make_change(row, row, INFOS), make_change(neighbour, None, INFOS), reply={"said": reply})

    new = erase(line, row_id, INFOS)

    assert new is not None
    assert erase(new, row_id, INFOS) is None
    record = parse_line(new)
    assert record is not None
    assert len(new) == len(line)
    assert record["changes"][1]["after"] == neighbour
    assert new.find(orjson.dumps(neighbour)) == line.find(orjson.dumps(neighbour))
    assert is_erased(record["changes"][0]["before"])
    assert is_erased(record["changes"][0]["after"])
    assert not record["changes"][0]["after"].get("content")


def test_rules_name_every_field_of_their_rows() -> None:
    for rules, row in (
        (RULES[KNOWLEDGE], knowledge_row()),
        (RULES[INFOS], info_row()),
        (RULES[KEYWORDS], keyword_row()),
    ):
        assert isinstance(rules, EraseRules)
        assert rules.kept | rules.blanks.keys() >= row.keys()
        assert rules.kept.isdisjoint(rules.blanks)
