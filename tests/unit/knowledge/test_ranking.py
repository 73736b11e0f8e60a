"""The order of recalled hits: relevance first, moved within bounds by evidence, by age and, among equals, by scope."""

from collections.abc import Sequence
from typing import Any

import pytest

from knowhub.core.clock import iso
from knowhub.core.operation import Row
from knowhub.core.recall import StageScore
from knowhub.knowledge import evidence
from knowhub.knowledge.evidence import VoteKind, Voter, sum_votes, weigh_votes
from knowhub.knowledge.model import ROUTING, Feedback, KnowledgeSummary, Order
from knowhub.knowledge.search.ranking import RankedHit, RankingInputs, RecordHit, rank_hits
from knowhub.knowledge.table import summarize
from knowhub.search.analysis import index_terms, query_terms
from tests.builders import START, knowledge_row, local

DAY = 86_400.0
PICKED = StageScore(ROUTING, 1, None)
QUESTION = "reset the router password"


def match(question: str, text: str) -> frozenset[str]:
    return frozenset(query_terms(question)).intersection(index_terms(text))


def make_summary(row_id: str = "a", ordinal: int = 0, **fields: Any) -> KnowledgeSummary:  # noqa: ANN401 -- any field of a record
    evaluation = {name: fields.pop(name) for name in ("score", "helpful", "harmful", "votes", "weak") if name in fields}
    row = knowledge_row(row_id, **{"task": row_id, **fields})
    return summarize(row | {"eval": row["eval"] | evaluation}, ordinal, 1)


def make_voted(row_id: str, kind: VoteKind, count: int) -> KnowledgeSummary:
    """Return a record that `count` voters voted on."""
    row: Row = knowledge_row(row_id, task=row_id)
    for number in range(count):
        row = evidence.with_vote(row, kind, START, Voter(f"user:{number}", "goal"))
    return summarize(row, 0, 1)


def make_inputs(rows: Sequence[Row] = (), **fields: Any) -> RankingInputs:  # noqa: ANN401 -- any input of the ranking
    by_id = {row["id"]: row for row in rows}
    row_of = lambda row_id: by_id.get(row_id) or knowledge_row(row_id, task=row_id, content=row_id)  # noqa: E731 -- short
    inputs: dict[str, Any] = {"question": QUESTION, "order": Order.AUTO, "top_k": 5, "match_terms": match} | fields
    return RankingInputs(ctx=local(), now=START, get_row=row_of, **inputs)


def rank(hits: Sequence[tuple[KnowledgeSummary, float]], **fields: Any) -> list[RankedHit]:  # noqa: ANN401 -- any input of the ranking
    return rank_hits([RecordHit(summary, relevance) for summary, relevance in hits], make_inputs(**fields))


def ids_of(ranked: Sequence[RankedHit]) -> list[str]:
    return [hit.summary.id for hit in ranked]


def test_votes_swap_neighbours_but_not_clearly_less_relevant_records() -> None:
    praised = make_voted("praised", VoteKind.HELPFUL, 40)

    near = rank([(make_summary("best"), 0.5), (praised, 0.4)])
    far = rank([(make_voted("best", VoteKind.HARMFUL, 3), 0.5), (praised, 0.25)])

    assert ids_of(near) == ["praised", "best"]
    assert ids_of(far) == ["best", "praised"]


def test_passed_over_records_rank_below_used_and_new_ones() -> None:
    passed = make_voted("passed", VoteKind.PASSED_OVER, 6)
    used = make_voted("used", VoteKind.HELPFUL, 6)

    assert ids_of(rank([(passed, 0.5), (used, 0.4)])) == ["used", "passed"]
    assert ids_of(rank([(passed, 0.5), (make_summary("new"), 0.4), (used, 0.38)]))[-1] == "passed"
    assert ids_of(rank([(make_summary("new"), 0.5), (used, 0.25)])) == ["new", "used"]


def test_weak_evidence_moves_a_record_by_at_most_one_place() -> None:
    weak = make_summary("weak", weak={"success": 0, "failure": 10_000})

    ranked = rank([(weak, 0.5), (make_summary("near"), 0.42), (make_summary("far"), 0.3)])
    few = rank([(make_summary("few", weak={"success": 0, "failure": 3}), 0.5), (make_summary("near"), 0.47)])

    assert ids_of(ranked) == ["near", "weak", "far"]
    assert ids_of(few) == ["few", "near"]


def lesson_row(row_id: str, task: str, later_s: float = 0.0, owner: str = "user:ada") -> Row:
    return knowledge_row(row_id, task=task, content="x") | {"created_at": iso(START + later_s), "owner": owner}


def rank_two(old: Row, new: Row, relevance: tuple[float, float], question: str = QUESTION) -> list[str]:
    summaries = [summarize(row, ordinal, 1) for ordinal, row in enumerate((old, new))]
    hits = list(zip(summaries, relevance, strict=True))
    return ids_of(rank(hits, rows=[old, new], question=question))


def test_the_newer_of_two_similar_records_comes_first() -> None:
    old, new = lesson_row("old", "reset the router password"), lesson_row("new", "reset the router password now", DAY)

    assert rank_two(old, new, (0.5, 0.4)) == ["new", "old"]
    assert rank_two(old, new, (0.5, 0.1)) == ["old", "new"]


@pytest.mark.parametrize(
    ("old_task", "new_task", "content", "question"),
    [
        (
            "Book a meeting room in the Elm Street building",
            "Meeting rooms: the concierge app took over",
            "The panel at the door is off. Book through the app, choose Elm Street and the floor of the building.",
            "book a room in the Elm Street building for Monday",
        ),
        (
            "在食堂系统里给饭卡充值",
            "饭卡改用企业微信扫码",
            "食堂系统的充值窗口已关。在企业微信里绑卡,扫码即扣。",
            "给饭卡充值两百",
        ),
    ],
)
def test_a_newer_record_may_name_the_older_task_in_its_content(
    old_task: str, new_task: str, content: str, question: str
) -> None:
    old = knowledge_row("old", task=old_task, content="Use the panel.")
    new = knowledge_row("new", now=START + DAY, task=new_task, content=content)
    other = knowledge_row("other", now=START + DAY, task=new_task, content="Ask at the desk.")

    assert rank_two(old, new, (0.5, 0.2), question=question) == ["new", "old"]
    assert rank_two(old, other, (0.5, 0.2), question=question) == ["old", "other"]


def add_helpful_votes(row: Row, *voters: str) -> Row:
    for voter in voters:
        row = evidence.with_vote(row, VoteKind.HELPFUL, START, Voter(voter))
    return row


def test_a_newer_record_of_another_owner_does_not_pass_one_that_several_found_helpful() -> None:
    old = lesson_row("old", "reset the router password")
    vouched = add_helpful_votes(old, "user:bo", "user:cy")
    own = lesson_row("new", "reset the router password now", DAY)
    foreign = lesson_row("new", "reset the router password now", DAY, owner="user:eve")

    assert rank_two(vouched, foreign, (0.5, 0.45)) == ["old", "new"]
    assert rank_two(vouched, own, (0.5, 0.45)) == ["new", "old"]
    assert rank_two(old, foreign, (0.5, 0.45)) == ["new", "old"]


@pytest.mark.parametrize(
    ("old_voters", "new_voters", "first"),
    [
        (["user:ada", "user:ada", "user:bo"], [], "new"),
        (["user:bo", "user:bo", "user:bo"], [], "new"),
        (["user:bo", "user:cy"], ["user:eve"], "old"),
        (["user:bo", "user:cy"], ["user:bo", "user:cy"], "new"),
    ],
)
def test_supporters_are_different_people_and_not_the_owner(
    old_voters: Sequence[str], new_voters: Sequence[str], first: str
) -> None:
    old = lesson_row("old", "reset the router password")
    new = lesson_row("new", "reset the router password now", DAY, owner="user:eve")

    ranked = rank_two(add_helpful_votes(old, *old_voters), add_helpful_votes(new, *new_voters), (0.5, 0.4))

    assert ranked[0] == first


def test_a_newer_record_passes_the_votes_of_the_older_one_unless_votes_speak_against_it() -> None:
    old, new = lesson_row("old", "reset the router password"), lesson_row("new", "reset the router password now", DAY)
    for number in range(40):
        old = evidence.with_vote(old, VoteKind.HELPFUL, START, Voter(f"user:{number}", "goal"))
    wrong = new
    for number in range(3):
        wrong = evidence.with_vote(wrong, VoteKind.HARMFUL, START, Voter(f"user:{number}", "goal"))

    assert rank_two(old, new, (0.5, 0.3)) == ["new", "old"]
    assert rank_two(old, new, (0.5, 0.1)) == ["old", "new"]
    assert rank_two(old, wrong, (0.5, 0.4)) == ["old", "new"]


def test_the_newer_of_two_short_tasks_comes_first_only_if_they_are_equal() -> None:
    assert rank_two(lesson_row("old", "Rotate keys"), lesson_row("new", "rotate keys", DAY), (0.5, 0.4)) == [
        "new",
        "old",
    ]
    assert rank_two(lesson_row("old", "rotate keys"), lesson_row("new", "rotate logs", DAY), (0.5, 0.4)) == [
        "old",
        "new",
    ]


@pytest.mark.parametrize(
    ("task", "later_s"), [("paint the garden fence", DAY), ("reset the router password now", 0.3)], ids=str
)
def test_age_does_not_rank_other_subjects_or_records_saved_together(task: str, later_s: float) -> None:
    old = lesson_row("old", "reset the router password")

    assert rank_two(old, lesson_row("new", task, later_s), (0.5, 0.4)) == ["old", "new"]


def test_a_newer_record_without_most_query_words_does_not_come_first() -> None:
    old, new = lesson_row("old", "reset the router password of the guests"), lesson_row("new", "reset the router", DAY)
    hits = [(summarize(old, 0, 1), 0.5), (summarize(new, 1, 1), 0.4)]

    ranked = rank(hits, rows=[old, new], question="guests password router")

    assert ids_of(ranked) == ["old", "new"]


@pytest.mark.parametrize(
    ("old_task", "new_task"),
    [
        ("deploy the billing service to production", "deploy the billing service to staging"),
        ("重置 北京 机房 服务器 的 密码", "重置 上海 机房 服务器 的 密码"),
        ("router password", "router printer"),
        ("publish the Android app to beta", "publish the iOS app to beta after the review"),
        ("重启 测试 环境 的 服务", "重启 生产 环境 的 服务 ， 先 通知 值班 同事"),
        ("back up the orders database at night", "restore the orders database at night, with the key of the vault"),
    ],
)
def test_a_newer_record_about_another_thing_does_not_come_first(old_task: str, new_task: str) -> None:
    old, new = lesson_row("old", old_task), lesson_row("new", new_task, DAY)
    hits = [(summarize(old, 0, 1), 0.79), (summarize(new, 1, 1), 0.58)]

    ranked = rank(hits, rows=[old, new], question=old_task)

    assert ids_of(ranked) == ["old", "new"]


def test_a_task_of_function_words_is_not_that_of_any_newer_record() -> None:
    old, new = lesson_row("old", "what to do with it"), lesson_row("new", "reset the router password", DAY)

    assert rank_two(old, new, (0.5, 0.4)) == ["old", "new"]


def test_votes_swap_only_neighbours_among_the_picks_of_a_model() -> None:
    praised, blamed = make_voted("praised", VoteKind.HELPFUL, 40), make_voted("blamed", VoteKind.HARMFUL, 40)

    def pick(*summaries: KnowledgeSummary) -> list[str]:
        # The model decides how relevant they are, not the words.
        found = [RecordHit(summary, 0.9 * (summary is praised), (PICKED,)) for summary in summaries]
        return ids_of(rank_hits(found, make_inputs()))

    assert pick(blamed, praised) == ["praised", "blamed"]
    assert pick(blamed, make_summary("new"), praised)[0] != "praised"
    assert pick(make_summary("first"), make_summary("second"), make_summary("third"), praised)[0] == "first"


def test_fresh_evidence_outweighs_old() -> None:
    row: Row = knowledge_row("a")
    for _ in range(5):
        row = evidence.with_feedback(row, Feedback(helpful_case={}), START)
    votes = weigh_votes(row["eval"])

    now, later = [sum_votes(votes, START + days * DAY, 90.0).helpful for days in (0, 90)]

    assert later == pytest.approx(now / 2)
