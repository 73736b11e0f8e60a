"""Check answers against the declarations of their routes."""

from typing import Any

import httpx
from fastapi import FastAPI
from starlette.routing import Match

from knowhub.web.openapi import list_errors, list_headers
from knowhub.web.route import Route, TextAnswer
from knowhub.web.schemas.parts import Problem


def check_response(app: FastAPI, response: httpx.Response) -> None:
    """Fail unless the route declares the status, content type and shape of `response`."""
    route = _route(app, response.request)
    if response.status_code >= 400 and response.headers["content-type"] == "application/problem+json":
        problem = Problem.model_validate_json(response.content, strict=True)
        assert problem.status == response.status_code
        assert problem.instance == httpx.URL(response.request.url).path
        assert route is None or response.status_code in list_errors(route), (route.path, response.text)
        return
    if route is None:
        return
    assert response.status_code in route.answers, (route.path, response.status_code, response.text)
    _check_headers(route, response)
    answer = route.answers[response.status_code]
    if not isinstance(answer, TextAnswer):
        assert response.headers["content-type"] == "application/json"
        if response.request.method != "HEAD":
            answer.model.model_validate_json(response.content, strict=True)


def _check_headers(route: Route, response: httpx.Response) -> None:
    """Fail unless an answer has the headers that its route declares. A write that changed nothing has no operation."""
    declared = set(list_headers(route, response.status_code))
    answered = {name for name in ("ETag", "Location", "X-Operation-Id") if name in response.headers}
    assert declared - {"X-Operation-Id"} <= answered <= declared, (route.path, response.status_code, answered)


def _route(app: FastAPI, request: httpx.Request) -> Route | None:
    scope: dict[str, Any] = {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
    }
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
            return route
    return None
