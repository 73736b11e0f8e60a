"""The route class of every route: it hands the request to the function that answers it, and nothing else."""

from typing import Any
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Receive, Scope, Send


class EdgeRoute(APIRoute):
    """A route whose function takes the request and its path's ids, parses by `dependencies`, and returns a Response.

    FastAPI describes it in the OpenAPI document. Its own resolving of dependencies would find none here, and
    cost as much as the answer (measured, see docs/decisions.md). What the function raises is answered by
    `error_responses`, which stand around all routes.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 -- whatever FastAPI passes
        super().__init__(*arguments, **options)
        self.app = self._answer
        self._beginning = self.path.partition("{")[0]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as Starlette does, but keep a slash that an id holds apart from those that part the path."""
        # Most requests are another route's, and a regular expression costs ten times this to say so.
        if not scope["path"].startswith(self._beginning) and not scope.get("root_path"):
            return Match.NONE, {}
        raw = scope.get("raw_path") or b""
        # The first look is at every request and every route.
        if b"%2" not in raw or b"%2f" not in raw.lower():
            return super().matches(scope)
        match, child = super().matches({**scope, "path": raw.decode("latin-1")})
        if match is not Match.NONE:
            child["path_params"] = {name: unquote(value) for name, value in child["path_params"].items()}
        return match, child

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response = await self.endpoint(Request(scope, receive), **scope["path_params"])
        await response(scope, receive, send)
