"""The limit that a server is measured beside: a bare FastAPI app that does nothing but answer."""

import os

from fastapi import FastAPI, Response

from knowhub.web.schemas.knowledge import SaveBody

app = FastAPI(openapi_url=None)
_FIXED = os.environ.get("BENCH_BODY", "{}").encode()


@app.get("/api/keywords/search")
@app.get("/api/knowledge/search")
async def search() -> Response:
    """Answer a search with fixed bytes."""
    return Response(_FIXED, media_type="application/json")


@app.get("/api/knowledge/{knowledge_id}")
async def get(knowledge_id: str) -> Response:
    """Answer a read with fixed bytes."""
    del knowledge_id
    return Response(_FIXED, media_type="application/json")


@app.post("/api/knowledge", status_code=201)
async def post(body: SaveBody) -> SaveBody:
    """Validate the model that KnowHub validates, and echo it."""
    return body
