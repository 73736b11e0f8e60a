"""What a route declares of its answers, held against every answer that a test gets."""

from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match

from knowhub.web.schemas.parts import Problem


def checked(app: FastAPI, response: httpx.Response) -> None:
    """Fail unless `response` has a declared status, the type and the shape that were declared for it."""
    route = _route(app, response.request)
    if response.status_code >= 400 and response.headers["content-type"] == "application/problem+json":
        problem = Problem.model_validate_json(response.content, strict=True)
        assert problem.status == response.status_code
        assert problem.instance == httpx.URL(response.request.url).path
        assert route is None or response.status_code in route.responses, (route.path, response.text)
        return
    if route is None:
        return
    declared = route.responses.get(response.status_code)
    assert declared is not None, (route.path, response.status_code, response.text)
    model = declared.get("model")
    if model is not None:
        assert response.headers["content-type"] == "application/json"
        _fits(model, response.content)


def _fits(model: type[BaseModel], content: bytes) -> None:
    model.model_validate_json(content, strict=True)


def _route(app: FastAPI, request: httpx.Request) -> APIRoute | None:
    scope: dict[str, Any] = {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
    }
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema and route.matches(scope)[0] is Match.FULL:
            return route
    return None
