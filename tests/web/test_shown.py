"""Sessions and goals over HTTP: which records were shown before, `unseen`, and the outcome of a goal."""

from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.knowledge.evidence import sum_votes, weigh_votes
from tests.web.conftest import OpenServer, SaveRecord

pytestmark = pytest.mark.anyio


async def search_shown(api: httpx.AsyncClient, q: str = "wait", **params: str | int) -> dict[str, bool | None]:
    """Return the `shown` field of each result by its content."""
    answer = (await api.get("/api/knowledge/search", params={"q": q, **params})).json()
    return {result["content"]: result.get("shown") for result in answer["results"]}


async def tags_of(api: httpx.AsyncClient, q: str = "wait", **params: str | int) -> dict[str, str]:
    """Return the tag of each result by its id, best first."""
    answer = (await api.get("/api/knowledge/search", params={"q": q, **params})).json()
    return {result["id"]: result["tag"] for result in answer["results"]}


async def report_outcome(api: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field of the body
    response = await api.post("/api/knowledge/outcome", json={"is_helpful": True} | fields)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def count_votes(api: httpx.AsyncClient, record: dict[str, Any]) -> tuple[int, int]:
    found = (await api.get(f"/api/knowledge/{record['id']}")).json()["eval"]
    return found["helpful"], found["harmful"]


async def test_a_result_says_whether_it_was_shown_to_this_session_before(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record("wait a")

    assert await search_shown(api) == {"wait a": None}
    assert await search_shown(api, session_id="s-1") == {"wait a": False}
    await save_record("wait b")
    assert await search_shown(api, session_id="s-1") == {"wait a": True, "wait b": False}
    assert await search_shown(api, session_id="s-1") == {"wait a": True, "wait b": True}
    assert await search_shown(api, session_id="s-2") == {"wait a": False, "wait b": False}
    assert await search_shown(api) == {"wait a": None, "wait b": None}


async def test_goals_have_separate_impressions_and_their_session_has_all(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record("wait a")

    await search_shown(api, session_id="s", goal_id="g-1")

    assert await search_shown(api, session_id="s", goal_id="g-1") == {"wait a": True}
    assert await search_shown(api, session_id="s", goal_id="g-2") == {"wait a": False}
    assert await search_shown(api, session_id="s") == {"wait a": True}
    assert await search_shown(api, session_id="other", goal_id="g-1") == {"wait a": False}
    assert await search_shown(api, goal_id="g-1") == {"wait a": False}
    assert await search_shown(api, goal_id="g-1") == {"wait a": True}


async def test_unseen_returns_the_next_best_records(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    for number in range(5):
        await save_record(f"wait {number}")

    pages = [await search_shown(api, session_id="s", top_k=2, unseen="true") for _ in range(4)]

    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert len({name for page in pages for name in page}) == 5
    assert {shown for page in pages for shown in page.values()} == {False}
    assert len(await search_shown(api, session_id="s", top_k=2)) == 2


async def test_an_explanation_names_records_dropped_as_already_shown(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s")

    params = {"q": "wait", "session_id": "s", "unseen": "true", "explain": "true"}
    answer = (await api.get("/api/knowledge/search", params=params)).json()

    assert answer["explanation"]["filtered"] == [{"id": record["id"], "rule": "already_shown"}]


async def test_unseen_or_an_outcome_without_session_and_goal_is_refused(api: httpx.AsyncClient) -> None:
    search_answer = await api.get("/api/knowledge/search", params={"q": "wait", "unseen": "true"})
    outcome_answer = await api.post("/api/knowledge/outcome", json={"is_helpful": True})

    assert (search_answer.status_code, outcome_answer.status_code) == (422, 422)
    assert "session_id or goal_id" in search_answer.text
    assert "session_id or goal_id" in outcome_answer.text


async def test_impressions_survive_a_restart_and_are_shared_by_processes(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord, open_second_server: OpenServer
) -> None:
    await save_record("wait a")
    await search_shown(api, session_id="会话 1/2", goal_id="目标:一")
    await hub.knowledge.impressions.close()

    async with open_second_server() as second:
        assert await search_shown(second, session_id="会话 1/2", goal_id="目标:一") == {"wait a": True}


async def test_impressions_are_visible_only_to_their_caller(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord
) -> None:
    await save_record("wait a", scopes=["public"])
    li, chen, wang = [{"user_id": name} for name in ("li", "chen", "wang")]

    await search_shown(api, session_id="s", **li)
    await hub.knowledge.impressions.close()

    assert await search_shown(api, session_id="s", **chen) == {"wait a": False}
    assert await search_shown(api, session_id="s", **li) == {"wait a": True}
    assert (await report_outcome(api, session_id="s", **wang))["results"] == []
    ops = [(await api.get("/api/operations", params={"op": "note_showing", **who})).json() for who in (li, wang)]
    assert [item["count"] for item in ops] == [1, 0]
    assert ops[0]["results"][0]["undoable"] is False


async def test_a_repeated_impression_is_not_written_again(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord
) -> None:
    await save_record("wait a")
    await search_shown(api, session_id="s")
    await hub.knowledge.impressions.close()
    before = hub.store.last_seq

    for _ in range(5):
        await search_shown(api, session_id="s")
    await hub.knowledge.impressions.close()

    assert hub.store.last_seq == before


def statuses(answer: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {result["knowledge_id"]: (result["status"], result["evidence"]) for result in answer["results"]}


async def read_eval(api: httpx.AsyncClient, record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"/api/knowledge/{record['id']}")).json()["eval"]
    return found


async def test_results_have_short_tags_in_the_order_in_which_the_goal_was_shown_them(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first = await save_record("wait a")
    goal: dict[str, Any] = {"session_id": "s", "goal_id": "g"}

    assert await tags_of(api, **goal) == {first["id"]: "a"}
    second = await save_record("wait b")
    assert await tags_of(api, **goal) == {first["id"]: "a", second["id"]: "b"}
    assert (await tags_of(api, session_id="s", goal_id="other", top_k=1)).popitem()[1] == "a"


async def test_used_records_gain_and_skipped_records_lose_evidence(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    for name in ("one", "two", "three"):
        await save_record(f"wait {name}")
    goal: dict[str, Any] = {"session_id": "s", "goal_id": "g"}
    above, used, below = [{"id": row_id} for row_id in await tags_of(api, **goal)]

    answer = await report_outcome(api, **goal, used=["b"], case={"task": "t", "outcome": "成功"})

    assert statuses(answer) == {used["id"]: ("applied", "helpful"), above["id"]: ("applied", "passed_over")}
    assert [await count_votes(api, item) for item in (above, used, below)] == [(1, 0), (2, 0), (1, 0)]
    assert [case["outcome"] for case in (await read_eval(api, used))["helpful_history"]] == ["成功"]
    assert "votes" not in await read_eval(api, below)


async def test_a_record_of_another_search_was_not_skipped(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first, second = await save_record("wait"), await save_record("zebra")
    goal: dict[str, Any] = {"session_id": "s", "goal_id": "g"}
    await search_shown(api, **goal)
    await search_shown(api, "zebra", **goal)

    answer = await report_outcome(api, **goal, used=[second["id"]])

    assert statuses(answer) == {second["id"]: ("applied", "helpful")}
    assert "votes" not in await read_eval(api, first)


async def test_an_unrated_record_gets_weak_evidence_without_a_counter(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record, other = await save_record("wait a"), await save_record("zebra")
    await search_shown(api, session_id="s", goal_id="g")
    await search_shown(api, "zebra", session_id="s", goal_id="other")

    answer = await report_outcome(api, session_id="s", goal_id="g", is_helpful=False)

    assert statuses(answer) == {record["id"]: ("applied", "weak")}
    assert await count_votes(api, record) == (1, 0)
    assert (await read_eval(api, record))["weak"] == {"success": 0, "failure": 1}
    assert "weak" not in await read_eval(api, other)


async def test_a_failure_counts_only_against_records_named_wrong_or_unhelpful(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    for name in ("one", "two", "three"):
        await save_record(f"wait {name}")
    goal: dict[str, Any] = {"session_id": "s", "goal_id": "g"}
    used, wrong, useless = await tags_of(api, **goal)
    fields = {"outcome": "failure", "is_helpful": None, "used": ["a"], "wrong": ["b"], "not_helpful": [useless]}

    answer = await report_outcome(api, **goal, **fields, reason="the button has moved")

    assert statuses(answer) == {
        used: ("applied", "weak"),
        wrong: ("applied", "harmful"),
        useless: ("applied", "harmful"),
    }
    assert [await count_votes(api, {"id": item}) for item in (used, wrong, useless)] == [(1, 0), (1, 1), (1, 1)]
    assert (await read_eval(api, {"id": wrong}))["harmful_history"][0]["reason"] == "the button has moved"


@pytest.mark.parametrize("fields", [{}, {"used": ["a"]}, {"wrong": ["a"]}])
async def test_a_cause_outside_knowledge_is_no_evidence(
    api: httpx.AsyncClient, save_record: SaveRecord, fields: dict[str, Any]
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s", goal_id="g")

    answer = await report_outcome(api, session_id="s", goal_id="g", outcome="external", is_helpful=None, **fields)

    assert (statuses(answer), answer["operation_id"]) == ({record["id"]: ("not_counted", "none")}, None)
    assert (await api.get(f"/api/knowledge/{record['id']}")).json()["version"] == 1


async def test_success_without_used_records_counts_against_none(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s", goal_id="g")

    assert await report_outcome(api, session_id="s", goal_id="g", used=[]) == {
        "results": [],
        "count": 0,
        "operation_id": None,
    }
    assert (await api.get(f"/api/knowledge/{record['id']}")).json()["version"] == 1


async def test_unknown_hidden_and_repeated_names_are_reported_not_counted(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a", scopes=["public"])
    hidden = await save_record("wait secret", user_id="chen")
    elsewhere = await save_record("zebra", scopes=["public"])
    goal = {"session_id": "s", "goal_id": "g", "user_id": "li"}
    await search_shown(api, **goal)
    names = ["a", record["id"], "a", "q", hidden["id"], "knowledge-0", elsewhere["id"]]

    answer = await report_outcome(api, **goal, used=names)

    assert statuses(answer) == {
        record["id"]: ("applied", "helpful"),
        "q": ("unknown", "none"),
        hidden["id"]: ("unknown", "none"),
        "knowledge-0": ("unknown", "none"),
        elsewhere["id"]: ("applied", "helpful"),
    }
    assert [await count_votes(api, item) for item in (record, hidden, elsewhere)] == [(2, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"is_helpful": None}, "outcome or is_helpful"),
        ({"outcome": "failure"}, "contradict"),
        ({"used": ["a"], "wrong": ["a"]}, "name it once"),
        ({"is_helpful": None, "outcome": "maybe"}, "external"),
    ],
)
async def test_an_outcome_that_contradicts_itself_is_refused(
    api: httpx.AsyncClient, fields: dict[str, Any], said: str
) -> None:
    answer = await api.post("/api/knowledge/outcome", json={"session_id": "s", "is_helpful": True} | fields)

    assert (answer.status_code, said in answer.text) == (422, True), answer.text


async def test_a_repeated_outcome_counts_once_and_a_correction_counts(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s", goal_id="g")
    goal = {"session_id": "s", "goal_id": "g"}

    await report_outcome(api, **goal, used=["a"])
    again = await report_outcome(api, **goal, used=["a"])
    corrected = await report_outcome(api, **goal, wrong=["a"])

    assert (again["operation_id"], statuses(again)) == (None, {record["id"]: ("counted_before", "helpful")})
    assert statuses(corrected) == {record["id"]: ("applied", "harmful")}
    assert await count_votes(api, record) == (2, 1)
    found = (await api.get("/api/knowledge/search", params={"q": "wait"})).json()["results"][0]
    assert found["eval"]["effective"] == {"helpful": 0.0, "harmful": 1.0}

    last = await report_outcome(api, **goal, used=["a"])
    found = (await api.get("/api/knowledge/search", params={"q": "wait"})).json()["results"][0]
    assert statuses(last) == {record["id"]: ("applied", "helpful")}
    assert found["eval"]["effective"] == {"helpful": 1.0, "harmful": 0.0}


@pytest.mark.parametrize(
    ("first", "last", "weights"),
    [
        ({"used": ["b"]}, {"used": []}, [0, 0, 0]),
        ({"used": ["b"]}, {"used": ["c"]}, [-1, -1, 1]),
        ({"used": ["c"]}, {"used": ["a"]}, [1, 0, 0]),
        ({"used": ["b"]}, {}, [-1, 1, 0]),
        ({"used": ["b"]}, {"wrong": ["c"]}, [-1, 1, -1]),
        ({"used": ["b"]}, {"wrong": ["b"]}, [0, -1, 0]),
        ({"used": ["b"]}, {"is_helpful": False}, [0, 0, 0]),
        ({"used": ["b"]}, {"is_helpful": None, "outcome": "external"}, [0, 0, 0]),
        ({"wrong": ["b"]}, {"wrong": []}, [0, 0, 0]),
        ({"not_helpful": ["b"]}, {"not_helpful": []}, [0, 0, 0]),
        ({"wrong": ["b"]}, {"wrong": ["a"]}, [-1, 0, 0]),
        ({"wrong": ["b"]}, {"used": ["a"]}, [1, -1, 0]),
        ({"wrong": ["b"]}, {"used": [], "wrong": []}, [0, 0, 0]),
        ({"wrong": ["b"]}, {"is_helpful": False}, [0, -1, 0]),
    ],
)
async def test_a_vote_that_the_last_word_does_not_repeat_is_taken_back(
    api: httpx.AsyncClient,
    save_record: SaveRecord,
    first: dict[str, Any],
    last: dict[str, Any],
    weights: list[float],
) -> None:
    for name in ("one", "two", "three"):
        await save_record(f"wait {name}")
    goal = {"session_id": "s", "goal_id": "g"}
    ids = list(await tags_of(api, **goal))

    async def read_weights() -> list[float]:
        votes = [sum_votes(weigh_votes(await read_eval(api, {"id": item})), 0) for item in ids]
        return [found.helpful - found.harmful - found.passed_over for found in votes]

    await report_outcome(api, **goal, **first)
    before = await read_weights()
    confidences = [(await read_eval(api, {"id": item}))["confidence"] for item in ids]
    corrected = await report_outcome(api, **goal, **last)
    again = await report_outcome(api, **goal, **last)

    assert await read_weights() == pytest.approx(weights)
    assert (again["operation_id"], "applied" in str(again)) == (None, False)
    if corrected["operation_id"] is not None:
        undone = await api.post(f"/api/operations/{corrected['operation_id']}/undo")
        assert (undone.status_code, await read_weights()) == (200, before), undone.text
        assert [(await read_eval(api, {"id": item}))["confidence"] for item in ids] == pytest.approx(confidences)


async def test_a_vote_on_a_merged_record_is_taken_back_from_its_survivor(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    texts = ("Wait for the element before you click it.", "Wait for the element before you click it!")
    records = [await save_record(text) for text in texts]
    for record in records:
        await report_outcome(api, session_id="s", goal_id=record["id"], used=[record["id"]])
    merged = (await api.post("/api/knowledge/slim", json={})).json()
    assert merged["operation_id"], merged
    answers = [(await api.get(f"/api/knowledge/{record['id']}")).json() for record in records]
    source, survivor = sorted(answers, key=lambda record: record.get("merged_into") is None)

    again = await report_outcome(api, session_id="s", goal_id=source["id"], used=[source["id"]])
    corrected = await report_outcome(api, session_id="s", goal_id=source["id"], used=[])

    assert statuses(again) == {survivor["id"]: ("counted_before", "helpful")}
    assert statuses(corrected) == {survivor["id"]: ("applied", "none")}
    assert sum_votes(weigh_votes(await read_eval(api, survivor)), 0).helpful == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("last", "result", "weak", "helpful"),
    [
        ({}, ("applied", "weak"), {"success": 1, "failure": 0}, 1),
        ({"is_helpful": False}, ("counted_before", "weak"), {"success": 0, "failure": 1}, 1),
        ({"outcome": "external", "is_helpful": None}, ("applied", "none"), {"success": 0, "failure": 0}, 1),
        ({"used": ["a"]}, ("applied", "helpful"), {"success": 0, "failure": 0}, 2),
        ({"used": []}, ("applied", "none"), {"success": 0, "failure": 0}, 1),
    ],
)
async def test_the_last_word_on_a_goal_takes_weak_evidence_back(
    api: httpx.AsyncClient,
    save_record: SaveRecord,
    last: dict[str, Any],
    result: tuple[str, str],
    weak: dict[str, int],
    helpful: int,
) -> None:
    record = await save_record("wait a")
    goal = {"session_id": "s", "goal_id": "g"}
    await search_shown(api, **goal)
    first = await report_outcome(api, **goal, is_helpful=False)

    answers = [await report_outcome(api, **goal, **last) for _ in range(2)]

    assert statuses(answers[0]) == {record["id"]: result}
    assert (answers[1]["operation_id"], "applied" in str(answers[1])) == (None, False)
    evaluation = await read_eval(api, record)
    assert (evaluation["weak"], evaluation["helpful"]) == (weak, helpful)
    assert (await api.get(f"/api/knowledge/{record['id']}")).json()["version"] == (3 if "applied" in result else 2)
    undo = await api.post(f"/api/operations/{first['operation_id']}/undo")
    # What came later stands on it.
    assert undo.status_code == (409 if "applied" in result else 200), undo.text


async def test_a_record_named_by_its_tag_and_its_id_cannot_have_helped_and_not(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s", goal_id="g")

    body = {"session_id": "s", "goal_id": "g", "outcome": "success", "used": ["a"], "wrong": [record["id"]]}
    answer = await api.post("/api/knowledge/outcome", json=body)

    assert answer.status_code == 422
    assert "name it once" in answer.text
    assert await count_votes(api, record) == (1, 0)


async def test_an_outcome_is_undone_as_one_and_can_be_reported_again(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s")
    told = await report_outcome(api, session_id="s", used=["a"])
    await report_outcome(api, session_id="other", used=[record["id"]])

    undone = await api.post(f"/api/operations/{told['operation_id']}/undo")

    assert undone.status_code == 200, undone.text
    assert await count_votes(api, record) == (2, 0)
    assert len((await read_eval(api, record))["votes"]) == 1
    assert (await report_outcome(api, session_id="s", used=["a"]))["operation_id"] is not None
    assert await count_votes(api, record) == (3, 0)


async def test_unshown_deleted_and_hidden_records_get_no_evidence(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    empty = await report_outcome(api, session_id="s", goal_id="g")
    gone, hidden = await save_record("wait a", scopes=["public"]), await save_record("wait b", scopes=["public"])
    await search_shown(api, session_id="s", user_id="li")
    await api.delete(f"/api/knowledge/{gone['id']}")
    await api.patch(f"/api/knowledge/{hidden['id']}", json={"scopes": ["user:chen"]})

    answer = await report_outcome(api, session_id="s", user_id="li", is_helpful=True)

    assert empty == {"results": [], "count": 0, "operation_id": None}
    assert answer == {"results": [], "count": 0, "operation_id": None}
    assert await count_votes(api, hidden) == (1, 0)


async def test_impressions_do_not_block_undoing_a_restore(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord
) -> None:
    await save_record("wait a")
    ts = (await api.post("/api/maintenance/snapshots")).json()["ts"]
    late = await save_record("wait b")
    await search_shown(api, session_id="s")
    await hub.knowledge.impressions.close()

    restored = await api.post(f"/api/maintenance/snapshots/{ts}/restore")
    await search_shown(api, session_id="other")
    await hub.knowledge.impressions.close()
    undone = await api.post(f"/api/operations/{restored.json()['operation_id']}/undo")

    assert (restored.status_code, undone.status_code) == (200, 200), undone.text
    assert (await api.get(f"/api/knowledge/{late['id']}")).status_code == 200
    assert await search_shown(api, session_id="s") == {"wait a": True, "wait b": True}


async def test_tags_are_those_of_the_goals_own_searches(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    wait, zebra = await save_record("wait a"), await save_record("zebra b")
    await search_shown(api, "wait", session_id="s", goal_id="first")
    await search_shown(api, "zebra", session_id="s", goal_id="second")

    answer = await report_outcome(api, session_id="s", goal_id="second", used=["a"])
    beyond = await report_outcome(api, session_id="s", goal_id="second", used=["b"])

    # The first goal's `a` is another record, and it has no `b`.
    assert statuses(answer) == {zebra["id"]: ("applied", "helpful")}
    assert statuses(beyond) == {"b": ("unknown", "none"), zebra["id"]: ("applied", "none")}
    assert await count_votes(api, wait) == (1, 0)


async def test_a_record_whose_save_was_undone_is_unknown_to_an_outcome(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a")
    await search_shown(api, session_id="s")
    await api.post(f"/api/operations/{record['operation_id']}/undo")

    answer = await report_outcome(api, session_id="s", used=["a"])

    assert statuses(answer) == {record["id"]: ("unknown", "none")}
    assert answer["operation_id"] is None


async def test_an_owner_who_votes_for_their_own_record_counts_as_one_voter(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait a", user_id="li")
    vote = {"user_id": "li", "add_helpful_case": {"outcome": "mine"}}

    answers = [await api.post(f"/api/knowledge/{record['id']}/feedback", json=vote) for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200] * 5
    assert await count_votes(api, record) == (6, 0)
    found = (await api.get("/api/knowledge/search", params={"q": "wait"})).json()["results"][0]
    assert 1 < found["eval"]["effective"]["helpful"] < 2


async def test_feedback_is_given_by_post_as_by_put(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("wait a")
    path = f"/api/knowledge/{record['id']}"

    posted = await api.post(f"{path}/feedback", json={"update_score": 5}, headers={"If-Match": '"1"'})
    stale = await api.post(f"{path}/feedback", json={"update_score": 4, "version": 1})
    put = await api.put(path, json={"update_score": 4, "version": 2})
    missing = await api.post("/api/knowledge/knowledge-0/feedback", json={"update_score": 4})

    assert (posted.status_code, posted.json()["eval"]["score"], posted.json()["version"]) == (200, 5, 2)
    assert (stale.status_code, stale.json()["current_version"]) == (409, 2)
    assert (put.status_code, missing.status_code) == (200, 404)
