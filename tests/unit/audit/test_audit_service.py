"""An audit of a whole account: every kind of finding, its evidence, the junk rate, and yielding to other tasks."""

import asyncio
import random
import time
from typing import Any

import pytest

from knowhub.audit.model import AuditQuery, AuditSeverity, FindingKind, Report, RowFinding
from knowhub.audit.service import AuditService
from knowhub.core.clock import iso
from knowhub.core.operation import Draft
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_rules, keyword_rules
from knowhub.keywords.model import KEYWORDS, NewInfo
from knowhub.knowledge.model import NewKnowledge
from knowhub.knowledge.service import KnowledgeService
from tests.builders import START, CountedIds, FakeClock, caller, local, new_knowledge
from tests.fakes.memory_store import MemoryStore
from tests.keyword_rows import keyword_row

pytestmark = pytest.mark.anyio

DAY_S = 86_400.0
ADVICE = "Wait for the element to be clickable before you click it, and never sleep for a fixed time."
PASSWORD = "Tr0ub4dor&3xyz"


class Account:
    """An account in memory with its audit; the clock moves on by a second with every save."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        ids = CountedIds()
        self.store = MemoryStore(self.clock, ids)
        self.knowledge = KnowledgeService(self.store, ids)
        self.service = AuditService(self.store, self.clock)

    async def save(self, content: str, ctx: RequestContext | None = None, **fields: Any) -> str:  # noqa: ANN401 -- any field
        new = NewKnowledge(content=content, **{"dedup": False} | fields)
        saved = await self.knowledge.save(ctx or local(), new)
        self.clock.advance(1)
        return str(saved.record["id"])

    async def save_info(self, content: str, info_id: str) -> str:
        row = info_rules.make_info_row(NewInfo(content), info_id, self.clock.now(), local())
        write = info_rules.write_info(row)
        await self.store.commit("default", "user:local", lambda _: Draft("create_info", [write]))
        self.clock.advance(1)
        return info_id

    async def audit(self, ctx: RequestContext | None = None, **asked: Any) -> Report:  # noqa: ANN401 -- any field
        return await self.service.report(ctx or local(), AuditQuery(**asked))


@pytest.fixture
def account() -> Account:
    return Account()


def list_by_kind(report: Report, kind: FindingKind) -> list[RowFinding]:
    return [finding for finding in report.findings if finding.kind is kind]


async def test_copies_name_the_oldest_their_authors_and_count_as_junk(account: Account) -> None:
    first = await account.save(ADVICE)
    second = await account.save("  " + ADVICE.upper(), caller(agent_id="crawler"))
    third = await account.save(ADVICE, source={"agent_id": "crawler"})

    report = await account.audit()

    (finding,) = report.findings
    assert (finding.kind, finding.collection, finding.id) == (FindingKind.DUPLICATE, "knowledge", first)
    assert finding.related == [second, third]
    assert finding.evidence == {
        "copies": 2,
        "authors": ["user:local", "agent:crawler"],
        "author_count": 2,
        "first_at": iso(START),
        "last_at": iso(START + 2),
        "excerpt": ADVICE,
    }
    assert (report.junk, report.junk_rate) == (2, round(2 / 3, 6))


async def test_a_record_that_quotes_a_search_result_is_a_loop(account: Account) -> None:
    first = await account.save(ADVICE)
    second = await account.save(
        f"I searched and found this: {ADVICE} So this is what I did on that day, and it helped."
    )

    report = await account.audit(kinds=frozenset({FindingKind.FEEDBACK_LOOP}))

    (finding,) = report.findings
    assert (finding.id, finding.related, finding.severity) == (second, [first], AuditSeverity.WARNING)
    assert finding.evidence["how"] == ["quotes_a_row"]
    (quotation,) = finding.evidence["quotes"]
    assert (quotation["id"], quotation["chars"], quotation["share"]) == (first, len(ADVICE), 1.0)
    assert report.junk == 1


async def test_a_record_may_quote_the_record_that_it_supersedes(account: Account) -> None:
    first = await account.save(ADVICE)
    await account.save(f"{ADVICE} And since version 5 it does so by itself, so leave it out there.", supersedes=first)

    report = await account.audit()

    assert list_by_kind(report, FindingKind.FEEDBACK_LOOP) == []
    (stale,) = list_by_kind(report, FindingKind.STALE)
    assert (stale.id, list(stale.evidence["reasons"]), stale.severity) == (first, ["superseded"], AuditSeverity.NOTE)


async def test_an_info_that_quotes_a_record_is_found_and_a_record_that_quotes_an_info(account: Account) -> None:
    record = await account.save(ADVICE)
    info = await account.save_info(f"Out of the knowledge base, word for word: {ADVICE}", "info-1")
    other = "部署之前先备份数据库，然后再运行迁移脚本，最后检查健康状态是否正常，出错就回滚。"
    second_info = await account.save_info(other, "info-2")
    second = await account.save(f"我在知识库里找到了这一条：{other}所以照做。")

    report = await account.audit()

    found = {
        finding.id: (finding.collection, finding.related) for finding in list_by_kind(report, FindingKind.FEEDBACK_LOOP)
    }
    assert found == {info: ("infos", [record]), second: ("knowledge", [second_info])}
    assert (report.records, report.infos, report.junk) == (2, 2, 2)


async def test_one_text_by_three_authors_is_a_chain(account: Account) -> None:
    ids = [await account.save(ADVICE, caller(agent_id=name)) for name in ("a", "b", "c")]

    (finding,) = list_by_kind(await account.audit(), FindingKind.FEEDBACK_LOOP)

    assert (finding.id, finding.related, finding.severity) == (ids[0], ids[1:], AuditSeverity.NOTE)
    assert (finding.evidence["how"], finding.evidence["authors"]) == (["handed_on"], ["agent:a", "agent:b", "agent:c"])


async def test_old_records_without_votes_are_notes_and_not_junk(account: Account) -> None:
    record = await account.save(ADVICE)
    account.clock.advance(90 * DAY_S)

    report = await account.audit()
    patient = await account.audit(stale_days=91)

    assert [(finding.kind, finding.id, finding.severity) for finding in report.findings] == [
        (FindingKind.STALE, record, AuditSeverity.NOTE),
    ]
    assert (report.junk, patient.findings) == (0, [])


async def test_secrets_are_listed_first_and_evidence_never_shows_them(account: Account) -> None:
    text = f"数据库的密码：{PASSWORD}，连接时不要写错，先检查网络是否正常，再检查账号有没有被锁定，最后再试。"
    await account.save(text)
    await account.save(text)
    await account.save(f"根据搜索结果，{text}我照做了以后果然就好了，多谢。")
    await account.save_info(f"see {text}", "info-1")
    await account.save("tagged", tags={"password": PASSWORD})

    report = await account.audit()

    assert {finding.kind for finding in report.findings} == {
        FindingKind.SECRET,
        FindingKind.DUPLICATE,
        FindingKind.FEEDBACK_LOOP,
    }
    assert [finding.kind for finding in report.findings][:5] == [FindingKind.SECRET] * 5
    assert report.findings[4].evidence["secrets"][0]["field"] == "tags"
    assert report.findings[0].evidence["secrets"][0]["redacted"] == "Tr…yz (14 characters)"
    assert PASSWORD[2:-2] not in str(report)


async def test_keywords_with_one_name_are_duplicates_and_not_junk(account: Account) -> None:
    rows = [keyword_row("k1", "Java"), keyword_row("k2", "JAVA", parent_id="k1"), keyword_row("k3", "Rust")]
    writes = [keyword_rules.write_keyword(row) for row in rows]
    await account.store.commit("default", "user:local", lambda _: Draft("create_keywords", writes))

    report = await account.audit()

    (finding,) = report.findings
    assert (finding.kind, finding.collection, finding.id, finding.related) == (
        FindingKind.DUPLICATE,
        KEYWORDS,
        "k1",
        ["k2"],
    )
    assert (report.summary["duplicate"], report.junk) == (1, 0)


async def test_a_report_names_only_rows_that_the_caller_sees(account: Account) -> None:
    hidden = await account.save(ADVICE, caller(user_id="wang"))
    mine = await account.save(f"It is said that {ADVICE} and so I did.", caller(user_id="li"))
    await account.save(ADVICE, caller(user_id="li"))

    report = await account.audit(caller(user_id="li"))

    assert report.records == 2
    assert hidden not in str(report)
    assert all(finding.id == mine for finding in report.findings)


async def test_an_audit_during_writes_reports_only_known_rows(account: Account) -> None:
    rng = random.Random(3)
    ids = [await account.save(" ".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=50))) for _ in range(300)]
    ids += [await account.save(ADVICE) for _ in range(100)]
    known = set(ids)
    is_over = False

    async def write() -> int:
        written = 0
        while not is_over:
            row_id = ids[written % len(ids)]
            if written % 3 == 0:
                await account.knowledge.delete(local(), row_id)
            else:
                known.add(await account.save(ADVICE))
            written += 1
            if written >= len(ids):
                return written
        return written

    writer = asyncio.create_task(write())
    report = await account.audit()
    is_over = True

    assert await writer > 0
    assert 200 < report.records <= len(known)
    named = {finding.id for finding in report.findings} | {item for f in report.findings for item in f.related}
    assert named <= known
    assert 0 < report.junk_rate < 1


async def test_an_audit_yields_to_other_tasks(account: Account) -> None:
    rng = random.Random(4)
    words = ["".join(rng.choices("abcdefgh", k=6)) for _ in range(500)]
    for number in range(0, 3000, 500):
        items = [new_knowledge(" ".join(rng.choices(words, k=60)), dedup=False) for _ in range(500)]
        await account.knowledge.save_batch(local(), items)
        account.clock.advance(number)
    gaps: list[float] = []
    is_over = False

    async def beat() -> None:
        last = time.monotonic()
        while not is_over:
            await asyncio.sleep(0)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    began = time.monotonic()
    await account.audit()
    lasted = time.monotonic() - began
    is_over = True
    await beating

    # Turns of 3 ms: one of a tenth of the whole would be ten times too long, on a machine of any speed.
    assert len(gaps) > 20
    assert sorted(gaps)[len(gaps) // 2] < lasted / 20
