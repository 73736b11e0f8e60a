"""GET /api/maintenance/audit: the junk-rate report, for the local principal alone."""

from typing import Any

import httpx
import pytest

from knowhub.audit.model import FindingKind
from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

PATH = "/api/maintenance/audit"
ADVICE = "Wait for the element to be clickable before you click it, and never sleep for a fixed time."
PASSWORD = "Tr0ub4dor&3xyz"


async def audit(api: httpx.AsyncClient, **params: object) -> dict[str, Any]:
    answer = await api.get(PATH, params={name: str(value) for name, value in params.items()})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_saved_search_result_a_copy_and_a_password_are_reported(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first = await save_record(ADVICE, user_id="li")
    copy = await save_record(ADVICE, user_id="wang")
    found = (await api.get("/api/knowledge/search", params={"q": "clickable element"})).text
    looped = await save_record(f"Searched the hub: {found}")
    secret = await save_record(f"密码：{PASSWORD}")

    report = await audit(api)

    answer = {(finding["kind"], finding["id"]): finding for finding in report["findings"]}
    assert answer.keys() == {("secret", secret["id"]), ("duplicate", first["id"]), ("feedback_loop", looped["id"])}
    assert answer["duplicate", first["id"]]["related"] == [copy["id"]]
    loop = answer["feedback_loop", looped["id"]]
    assert loop["evidence"]["how"] == ["api_answer", "quotes_a_row"]
    assert set(loop["related"]) <= {first["id"], copy["id"]}
    assert (report["account"], report["records"], report["infos"], report["junk"]) == ("default", 4, 0, 2)
    assert report["junk_rate"] == 0.5
    assert report["summary"] == {kind.value: 0 for kind in FindingKind} | {
        "secret": 1,
        "duplicate": 1,
        "feedback_loop": 1,
    }
    assert (report["count"], report["truncated"]) == (3, False)
    assert all(finding["suggestion"] for finding in report["findings"])


async def test_the_secret_itself_is_never_answered(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    for user in ("li", "wang"):
        await save_record(f"{ADVICE} 密码：{PASSWORD}", user_id=user)

    answer = await api.get(PATH)

    assert answer.json()["summary"]["secret"] == 2
    assert answer.json()["summary"]["duplicate"] == 1
    assert PASSWORD[2:-2] not in answer.text


async def test_kinds_limit_and_stale_days_filter_the_findings(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("密码：abc12X!")
    await save_record("口令：abc12Y!", valid_to="2020-01-01")

    secrets = await audit(api, kinds="secret,duplicate", limit=1)
    stale = await audit(api, kinds="stale", stale_days=36_500)

    assert (secrets["summary"], secrets["count"], secrets["truncated"]) == ({"secret": 2, "duplicate": 0}, 1, True)
    assert [list(finding["evidence"]["reasons"]) for finding in stale["findings"]] == [["expired"]]
    assert (secrets["junk_rate"], stale["junk_rate"]) == (0.5, 0.5)


async def test_an_audit_stays_within_its_account_and_sees_deleted_rows_nowhere(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("密码：abc12X!", account="elsewhere")
    gone = await save_record("密码：abc12Y!")
    await api.request("DELETE", f"/api/knowledge/{gone['id']}")

    here, there = await audit(api), await audit(api, account="elsewhere")

    assert (here["records"], here["findings"]) == (0, [])
    assert [finding["id"] for finding in there["findings"]] == [record["id"]]
