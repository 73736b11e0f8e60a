"""No credential is sent to a chat model, an embedder or a reranker, wherever it is in a text."""

import pytest
import respx

from knowhub.bootstrap import open_hub
from knowhub.settings import Settings
from knowhub.web.app import create_app
from tests.fakes.model_server import BASE_URL, URL, completion
from tests.fakes.vector_server import EMBEDDINGS_URL, RERANK_URL, answer_hashed, answer_reranked
from tests.web.conftest import client_of

pytestmark = pytest.mark.anyio

SECRETS = [f"Zx{number}k!Qw8rTt{number * 7}" for number in range(10)]
FORMS = [
    "My password is {}.",
    "the admin password: {}",
    "密码是 {} 请不要告诉别人",
    "数据库密码：{}",
    "DATABASE_URL=postgres://bob:{}@db.internal:5432/shop",
    "export API_TOKEN={}",
    'config = {{"password": "{}"}}',
    "curl -u bob:{} https://intranet.example/api",
    "login failed for user bob, password={}",
    "mysql -u root -p{} shop",
]
HARMLESS = "Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b of version 1.24.3 closed ticket AB-4711."


def texts() -> list[str]:
    return [f"Note {number}. {form.format(SECRETS[number])} The tide is high." for number, form in enumerate(FORMS)]


async def test_no_request_to_a_model_holds_a_credential(settings: Settings) -> None:
    urls = {"llm_base_url": BASE_URL, "embedding_base_url": BASE_URL, "rerank_base_url": BASE_URL}
    configured = settings.model_copy(update={**urls, "embedding": "server", "llm_breaker_failures": 0})
    with respx.mock(assert_all_called=False) as router:
        chats = router.post(URL).mock(side_effect=lambda _request: completion({"changes": []}))
        vectors = router.post(EMBEDDINGS_URL).mock(side_effect=answer_hashed)
        orders = router.post(RERANK_URL).mock(side_effect=answer_reranked)
        async with open_hub(configured) as hub, client_of(create_app(configured, hub)) as api:
            messages = [{"role": "user", "content": text} for text in [*texts(), HARMLESS]]
            for number, text in enumerate(texts()):
                role = {"role": "tool", "name": "shell", "content": text}
                body = {"session_id": f"s{number}", "messages": [*messages, role], "wait": True, "user_id": "li"}
                await api.post("/api/context/sessions/commit", json=body)
                await api.post("/api/knowledge", json={"task": f"Task {number}", "content": text})
                await api.get("/api/knowledge/search", params={"q": text})
                await api.get("/api/context/search", params={"q": text, "user_id": "li"})
                await api.get("/api/keywords/search", params={"q": text})
            await api.post("/api/knowledge/extract", json={"messages": messages})
            await hub.maintenance.tick()

    sent = [call.request.content.decode() for route in (chats, vectors, orders) for call in route.calls]
    assert min(len(route.calls) for route in (chats, vectors, orders)) > 0
    assert any("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" in body and "1.24.3" in body for body in sent)
    assert [
        body[max(0, body.find(secret) - 200) : body.find(secret) + 40]
        for secret in SECRETS
        for body in sent
        if secret in body
    ] == []
