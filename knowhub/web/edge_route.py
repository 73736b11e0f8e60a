"""The route class of every route: it hands the request to the function that answers it, and nothing else."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute


class EdgeRoute(APIRoute):
    """A route whose function takes the request and its path's ids, parses by `dependencies`, and returns a Response.

    FastAPI describes it in the OpenAPI document. Its own resolving of dependencies would find none here, and
    cost as much as the answer (measured, see docs/decisions.md).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that Starlette calls."""
        endpoint = self.endpoint

        async def handle(request: Request) -> Response:
            response: Response = await endpoint(request, **request.path_params)
            return response

        return handle
