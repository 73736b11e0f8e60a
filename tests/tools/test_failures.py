"""What an agent sees when the server refuses, fails, or is not KnowHub."""

import httpx
import pytest
import respx

from agent_tools import knowledge, memory, resources  # noqa: F401 -- registers their tools
from agent_tools.client import request
from agent_tools.registry import call_tool
from tests.tools.routes import PATH, get_failure

pytestmark = pytest.mark.anyio


def problem(status: int, detail: str, headers: dict[str, str] | None = None, **extra: object) -> httpx.Response:
    body = {"type": "about:blank", "title": "", "status": status, "detail": detail, "instance": PATH, **extra}
    sent = {"content-type": "application/problem+json", **(headers or {})}
    return httpx.Response(status, json=body, headers=sent)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "Correct the arguments"),
        (401, "Set KNOWHUB_API_KEY"),
        (403, "Ask the owner or an admin"),
        (404, "Set KNOWHUB_API_URL to a KnowHub server that does"),
        (405, "This version of the server has no GET /api/knowledge"),
        (409, "Read it again"),
        (413, "Shorten the text"),
        (418, "Correct the call"),
        (422, "Correct the arguments"),
        (429, "Wait a minute"),
        (500, "Try once more, later"),
        (502, "Try once more, later"),
        (503, "cannot do this now"),
        (507, "disk of the server is full"),
    ],
)
async def test_each_status_has_a_detail_and_an_advice(hub: respx.MockRouter, status: int, advice: str) -> None:
    hub.get(PATH).mock(return_value=problem(status, "so it is."))

    failure = await get_failure()

    assert failure.advice.startswith(f"KnowHub answered {status}: so it is. ")
    assert advice in failure.advice
    assert failure.metadata["status"] == status


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "advice"),
    [
        (
            "knowledge_update",
            {"knowledge_id": "x"},
            404,
            "KnowHub answered 404: so it is. Use an id from knowledge_search or knowledge_list.",
        ),
        ("knowledge_slim", {}, 404, "This version of the server has no slim."),
        ("knowledge_slim", {}, 405, "This version of the server has no POST /api/knowledge/slim"),
        ("read_memory", {"uri": "ctx://a"}, 404, "Use a uri from search_memory"),
        (
            "commit_session",
            {"session_id": "s-1", "messages": [{"role": "user", "content": "Hi"}]},
            409,
            "KnowHub answered 409: so it is. Use another message id, or none. A committed message cannot be changed.",
        ),
        ("resource_save", {"resource_id": "a"}, 409, "upsert=true"),
    ],
)
async def test_a_tool_has_advice_of_its_own(
    hub: respx.MockRouter, tool: str, arguments: dict[str, object], status: int, advice: str
) -> None:
    hub.route().mock(return_value=problem(status, "so it is"))

    result = await call_tool(tool, arguments)

    assert result.error is not None
    assert advice in result.error
    assert result.metadata["status"] == status


async def test_a_conflict_on_a_keyword_names_its_search_and_the_paths(hub: respx.MockRouter) -> None:
    named = [{"id": f"k-{number}", "path": f"目的地{number}/Java"} for number in range(12)]
    hub.post("/api/infos").mock(return_value=problem(409, "12 keywords are called 'Java'", keyword=named))
    hub.post("/api/keywords").mock(return_value=problem(409, "'Java' is there already", ids=["k-1"]))

    ambiguous = await get_failure(request("POST", "/api/infos", body={}))
    taken = await get_failure(request("POST", "/api/keywords", body={}))

    assert "目的地0/Java (id k-0); 目的地1/Java (id k-1)" in ambiguous.advice
    assert ambiguous.advice.endswith(" and 2 more.")
    assert ambiguous.metadata["keyword"] == named
    for failure in (ambiguous, taken):
        assert "keyword_search" in failure.advice
        assert "knowledge_search" not in failure.advice


ERRORS = [{"field": "score", "message": "must be 1 to 5"}, {"field": "source.urls", "message": "too many."}]


@pytest.mark.parametrize(
    ("answer", "advice", "told"),
    [
        (problem(409, "changed", current_version=7), "its version is now 7", {"current_version": 7}),
        (problem(422, "two", errors=ERRORS), "score: must be 1 to 5; source.urls: too many.", {"errors": ERRORS}),
        (problem(429, "too fast", {"Retry-After": "12"}), "Wait 12 s, then call again.", {}),
        (problem(429, "too fast", {"Retry-After": "Wed, 21 Oct 2026"}), "Wait until Wed, 21 Oct 2026, then call", {}),
        (problem(500, "oh", {"X-Request-ID": "req-1"}), "Its request id is req-1.", {}),
        # Errors of another form are ignored.
        *(
            (
                problem(422, "wrong", errors=errors),
                "422: wrong. Correct the arguments and call again.",
                {"errors": errors},
            )
            for errors in ("text", [1, None], [], {"field": "x"})
        ),
    ],
)
async def test_the_advice_says_what_the_answer_names(
    hub: respx.MockRouter, answer: httpx.Response, advice: str, told: dict[str, object]
) -> None:
    hub.get(PATH).mock(return_value=answer)

    failure = await get_failure()

    assert advice in failure.advice
    assert failure.metadata == {"status": answer.status_code, **told}


async def test_a_redirect_is_not_followed_with_the_key(hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWHUB_API_KEY", "secret-key")
    hub.get(PATH).respond(307, headers={"Location": "https://elsewhere.test/"})

    failure = await get_failure()

    assert "to https://elsewhere.test/. Set KNOWHUB_API_URL" in failure.advice
    assert len(hub.calls) == 1


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"[1]", b'"text"', b"", b"[" * 100_000, b"\xff\xfe\xfa"])
async def test_an_error_page_shows_only_its_status(hub: respx.MockRouter, body: bytes) -> None:
    hub.get(PATH).respond(502, content=body)

    failure = await get_failure()

    assert failure.advice.startswith("KnowHub answered 502. ")


async def test_a_long_detail_is_cut_and_stays_on_one_line(hub: respx.MockRouter) -> None:
    hub.get(PATH).mock(return_value=problem(400, "line\nafter line " * 1000))

    failure = await get_failure()

    assert "\n" not in failure.advice
    assert len(failure.advice) < 500
