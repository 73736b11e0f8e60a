"""Answers of embedding and rerank servers for respx, and clients whose waiting takes no time."""

import json
from dataclasses import replace
from typing import Any

import httpx

from knowhub.providers.embeddings import EmbeddingClient, EmbeddingOptions
from knowhub.providers.rerank import RerankClient, RerankOptions
from tests.e2e import scripted_vectors
from tests.fakes.model_server import BASE_URL, KEY, FakeTime

EMBEDDINGS_URL = f"{BASE_URL}/embeddings"
RERANK_URL = f"{BASE_URL}/rerank"


def embedding_client(http: httpx.AsyncClient, time: FakeTime | None = None, **options: Any) -> EmbeddingClient:  # noqa: ANN401 -- any option
    given = replace(EmbeddingOptions(BASE_URL, KEY), **options)
    return EmbeddingClient(given, http, (time or FakeTime()).timing())


def rerank_client(http: httpx.AsyncClient, time: FakeTime | None = None, **options: Any) -> RerankClient:  # noqa: ANN401 -- any option
    given = replace(RerankOptions(BASE_URL, KEY), **options)
    return RerankClient(given, http, (time or FakeTime()).timing())


def answer_hashed(request: httpx.Request) -> httpx.Response:
    """Answer as the scripted server does that has no script."""
    return httpx.Response(200, json=scripted_vectors.embeddings(json.loads(request.content)))


def answer_reranked(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json=scripted_vectors.rerank(json.loads(request.content)))


def answer_embedded(*vectors: object, **more: object) -> httpx.Response:
    """Answer with these embeddings, valid or not."""
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return httpx.Response(200, json={"data": data, **more})
