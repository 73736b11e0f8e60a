"""The declaration of a route: its signature says what it takes, its decorator what it answers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, ClassVar, Final, NamedTuple, NewType, Self, TypedDict, TypeVar, Unpack, get_args
from urllib.parse import unquote

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from knowhub.bootstrap import Hub
from knowhub.core.errors import Forbidden, InvalidInput, Unavailable
from knowhub.core.job_board import JobStatus
from knowhub.core.operation import IdempotencyKey
from knowhub.core.owned_rows import RowTextPage
from knowhub.core.permissions import check_can_maintain
from knowhub.core.request_context import RequestContext
from knowhub.operations.jobs import Work
from knowhub.web.auth import make_local_context, make_request_context
from knowhub.web.request_guard import BODY, BODY_HASH
from knowhub.web.request_parsing import PARSED_AT_ONCE, parse_body, parse_query
from knowhub.web.responses import answer_json, answer_text_list, answer_write
from knowhub.web.schemas.maintenance import JobStarted
from knowhub.web.schemas.parts import Body, CallerIds, DeletionAnswer, VersionedBody

_MAX_KEY_CHARS: Final = 200
# Clients send an empty object where a route reads no body.
_NO_FIELDS: Final = (b"", b"{}")
_ENTITY_TAG: Final = re.compile(r'^(?:W/)?"(\d{1,15})"$')
_CALLER_DIGITS: Final = 32
# No scope has this name: a scope is `public`, or has a colon.
_EVERY_SCOPE: Final = "*"
_DEFAULT_IDS: Final = CallerIds()


class Call:
    """A request at its route: the hub, the ids of the caller that it names, and the caller.

    Without a `request` it comes from a program on the same machine, such as the command line, which needs no key.
    """

    # What a route takes whose function has neither `body` nor `params`: the model of a body, and of a query instead.
    models: ClassVar[tuple[type[BaseModel] | None, type[BaseModel]]] = (None, CallerIds)

    def __init__(self, hub: Hub, ids: CallerIds, request: Request | None = None) -> None:
        self.request = request
        self.hub = hub
        self.ids = ids
        self.ctx = make_local_context(hub, ids) if request is None else make_request_context(request, ids)

    def with_ids(self, ids: CallerIds) -> Self:
        """Return the same request with other ids of a caller. Raises Forbidden."""
        return type(self)(self.hub, ids, self.request)

    def require_request(self) -> Request:
        """Return the request. Raises Forbidden where there is none."""
        if self.request is None:
            raise Forbidden("this route answers requests over HTTP only")
        return self.request

    async def find_keyword(self, given: str) -> str:
        """Return the id of a keyword that is named by its id, its path or its name. Raises Conflict."""
        return await self.hub.keywords.tree.find_id(self.ctx, given)

    def read_cursor(self, collection: str, cursor: str | None) -> int | None:
        """Return the position at which a page of a list begins. Raises InvalidInput."""
        return self.hub.cursors.decode(self.ctx.account, collection, cursor)

    def answer_page(self, collection: str, page: RowTextPage) -> Response:
        """Answer with a page of a list, and the cursor of the next one."""
        return answer_text_list(page.records, self.hub.cursors.encode(self.ctx.account, collection, page.next_position))

    def get_header(self, name: bytes) -> str | None:
        """Return the first header of this name, which is in lower case; None without one."""
        if self.request is not None:
            for key, value in self.request.scope["headers"]:
                if key == name:
                    text: str = value.decode("latin-1")
                    return text
        return None


class MaintenanceCall(Call):
    """A request of someone who may maintain the server; everybody else gets 403."""

    def __init__(self, hub: Hub, ids: CallerIds, request: Request | None = None) -> None:
        super().__init__(hub, ids, request)
        check_can_maintain(self.ctx)


class WriteCall(Call):
    """A request that writes; a retry of it gets the first answer again."""

    models = (Body, CallerIds)

    @property
    def key(self) -> IdempotencyKey | None:
        """The `Idempotency-Key` with the hash of body and query. Raises InvalidInput."""
        key = self.get_header(b"idempotency-key")
        if key is None or self.request is None:
            return None
        if not 0 < len(key) <= _MAX_KEY_CHARS:
            raise InvalidInput.of("Idempotency-Key", f"must have 1 to {_MAX_KEY_CHARS} characters")
        # Body and query together; the same key with another body is an error. `wait` is left out: after a lost answer
        # a caller may send the same request again as a job.
        scope = self.request.scope
        pairs = scope["query_string"].split(b"&")
        query = b"&".join(pair for pair in pairs if not pair.startswith(b"wait="))
        # Of a large body the guard has made the hash already, in a thread.
        hashed = scope[BODY_HASH].copy() if BODY_HASH in scope else sha256(scope.get(BODY, b""))
        hashed.update(b"\0" + query)
        request_hash = hashed.hexdigest()
        # Not request.url, which is built from headers, quoted again and without the line breaks of a path.
        return IdempotencyKey(_make_caller_key(self.ctx), scope["method"], scope["path"], key, request_hash)


class EditCall(WriteCall):
    """A request that changes or deletes a row; it may name the version that the caller has read."""

    models = (VersionedBody, CallerIds)

    @property
    def version(self) -> int | None:
        """The version in `If-Match` or in the body; None accepts any version. Raises InvalidInput."""
        in_body: int | None = getattr(self.ids, "version", None)
        header = self.get_header(b"if-match")
        if header is None or header.strip() == "*":
            return in_body
        match = _ENTITY_TAG.match(header.strip())
        if match is None:
            raise InvalidInput.of("If-Match", 'must be a version in quotes, such as "3", or *')
        version = int(match[1])
        if in_body is not None and in_body != version:
            raise InvalidInput.of("version", "differs from If-Match; send one of them")
        return version

    async def erase(self, collection: str, row_id: str) -> Response:
        """Erase a row: delete it, and remove its content for good. It is a job for who does not `wait`."""
        erasure, version, key = self.hub.operations.erasure, self.version, self.key

        async def work(_progress: object) -> dict[str, Any]:
            done = asdict(await erasure.erase(self.ctx, collection, row_id, version, key))
            return {"erased": True, **done}

        if getattr(self.ids, "wait", True):
            answer = await work(None)
            return answer_write(answer, answer.pop("operation_id"))
        check_can_maintain(self.ctx)
        return await answer_job(self, "erase", work, key, wait=False)


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """An answer that is not JSON: a text, or a file that is stored as it is."""

    description: str
    media_types: tuple[str, ...]
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """An answer that is JSON."""

    model: type[BaseModel]
    description: str = "Done."


KeywordId = NewType("KeywordId", str)
"""The id of a keyword, which a path may also name by a path of the tree or by a name."""


class ParsedRequest(NamedTuple):
    """What a request holds, by the names under which a route's function takes it (see `Route`)."""

    body: BaseModel | None = None
    params: BaseModel | None = None
    lines: bytes = b""


Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[Response]])
# A model, with a description where "Done." does not say enough, or a text.
DeclaredAnswer = type[BaseModel] | tuple[type[BaseModel], str] | TextAnswer
Answers = Mapping[int, DeclaredAnswer]
STARTED: Final[dict[int, DeclaredAnswer]] = {202: (JobStarted, "Started; see /api/jobs.")}
DELETED: Final[dict[int, DeclaredAnswer]] = {200: DeletionAnswer, **STARTED}


class RouteOptions(TypedDict, total=False):
    """What a route may declare beside its answers."""

    tag: str
    summary: str
    # Statuses beside those of every route of its kind, see `openapi.py`.
    errors: Sequence[int]
    # Examples of the body by name; a test executes each of them.
    examples: Mapping[str, Any]
    is_body_optional: bool
    # The content types of `lines`, if they are not JSON lines alone. The document names the first.
    media_types: tuple[str, ...]
    # Whether the body may have KNOWHUB_MAX_BATCH_BODY_BYTES.
    is_large: bool
    # Whether it writes nothing, although it is no GET.
    is_read_only: bool
    # The headers of an answer by its status, where its model does not tell them (`openapi.py:list_headers`).
    headers: Mapping[int, Sequence[str]]


class Route(StarletteRoute):
    """A route, whose function says by its parameters what the route takes.

    - `call`: a Call, a WriteCall if `Idempotency-Key` is read, an EditCall if `If-Match` is read too; or `request`
    - `body`: the model of the JSON body; `Body | Params` takes the query where no body is sent, as a DELETE does
    - `params`: the model of the query
    - `lines`: the body as it was sent, JSON lines
    - every other parameter: an id from the path; a keyword's id or path is looked up

    From this follow the parsing here and the OpenAPI document (`openapi.py`). FastAPI's own resolving of parameters
    costs as much as the rest of a request (measured, see docs/decisions.md). Errors are answered by `error_responses`.
    """

    def __init__(self, method: str, path: str, endpoint: Endpoint, answers: Answers, options: RouteOptions) -> None:
        super().__init__(path, endpoint, methods=[method])
        self.method = method
        self.answers = {status: _normalize_answer(answer) for status, answer in answers.items()}
        self.options = options
        parameters = endpoint.__annotations__
        self.call: type[Call] | None = parameters.get("call")
        self.takes_lines = "lines" in parameters
        self.keywords_in_path = [name for name, kind in parameters.items() if kind is KeywordId]
        self._takes = tuple(name for name in ParsedRequest._fields if name in parameters)
        body_or_query = get_args(parameters.get("body"))
        if self.call is not None and not {"body", "params"} & parameters.keys():
            body_or_query = self.call.models
        self.body: type[BaseModel] | None
        # The model of the query where no body is sent.
        self.query: type[BaseModel] | None
        self.body, self.query = body_or_query or (parameters.get("body"), parameters.get("params"))
        self.query_beside_body: type[BaseModel] | None = parameters.get("params") if self.body is not None else None
        self.takes_body_or_query = bool(body_or_query) and self.body is not None
        self._fixed_prefix = path.partition("{")[0]
        self._is_fixed = "{" not in path
        self.app = self._handle

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as Starlette does, but keep a slash in an id apart from the slashes of the path."""
        # Most requests are for another route, and a regular expression costs ten times as much.
        is_at_root = not scope.get("root_path")
        if is_at_root and not scope["path"].startswith(self._fixed_prefix):
            return Match.NONE, {}
        raw = scope.get("raw_path") or b""
        # Compared in lower case only if needed: this runs for every request and every route.
        is_encoded = b"%2" in raw and b"%2f" in raw.lower()
        if self._is_fixed and is_at_root and not is_encoded and scope["type"] == "http":
            if scope["path"] != self.path:
                return Match.NONE, {}
            match = Match.FULL if scope["method"] in (self.methods or ()) else Match.PARTIAL
            return match, {"endpoint": self.endpoint, "path_params": {}, "route": self}
        match, child = super().matches({**scope, "path": raw.decode("latin-1")} if is_encoded else scope)
        if match is not Match.NONE:
            child["route"] = self
            if is_encoded:
                child["path_params"] = {name: unquote(value) for name, value in child["path_params"].items()}
        return match, child

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if self.call is None:
            response = await self.endpoint(request)
        else:
            parsed = await self._parse(request)
            response = await self.run(scope["app"].state.hub, parsed, scope["path_params"], request)
        await response(scope, receive, send)

    async def run(
        self, hub: Hub, parsed: ParsedRequest, in_path: Mapping[str, str], request: Request | None = None
    ) -> Response:
        """Call the function of the route, and return its answer; without a `request` for a program on this machine.

        Raises KnowHubError.
        """
        if self.call is None:
            raise TypeError(f"{self.path} takes a request, not a call")
        # The body names the caller, or the query does.
        models = (parsed.body, parsed.params)
        ids = next((model for model in models if isinstance(model, CallerIds)), _DEFAULT_IDS)
        call = self.call(hub, ids, request)
        arguments: dict[str, Any] = dict(in_path)
        for name in self.keywords_in_path:
            arguments[name] = await call.find_keyword(in_path[name])
        for name in self._takes:
            arguments[name] = getattr(parsed, name)
        answer: Response = await self.endpoint(call, **arguments)
        return answer

    async def _parse(self, request: Request) -> ParsedRequest:
        """Parse the body and the query. Raises MalformedJson and InvalidInput."""
        raw, query = request.scope.get(BODY, b""), request.scope["query_string"]
        if self.body is None:
            if not self.takes_lines and raw.strip() not in _NO_FIELDS:
                # A caller named in the body would be ignored, and another one would act.
                raise InvalidInput.of("body", "is not read here; send its fields as query parameters")
            return ParsedRequest(None, parse_query(query, self.query) if self.query else None, raw)
        beside = self.query_beside_body
        if self.takes_body_or_query and not raw and self.query:
            return ParsedRequest(parse_query(query, self.query), beside() if beside else None)
        if query and beside is None:
            raise InvalidInput.of("query", "takes no parameters here; send them as fields of the body")
        if len(raw) <= PARSED_AT_ONCE:
            body = parse_body(raw, self.body)
        else:
            # Other requests are answered meanwhile.
            body = await asyncio.to_thread(parse_body, raw, self.body)
        return ParsedRequest(body, parse_query(query, beside) if beside else None)


def _normalize_answer(answer: DeclaredAnswer) -> JsonAnswer | TextAnswer:
    if isinstance(answer, TextAnswer):
        return answer
    return JsonAnswer(*answer) if isinstance(answer, tuple) else JsonAnswer(answer)


class Routes(list[Route]):
    """The routes below one path, under one tag of the document; the first group of a tag describes it."""

    def __init__(self, prefix: str, tag: str, description: str = "") -> None:
        super().__init__()
        self._prefix = prefix
        self.tag = tag
        self.description = description

    def add(
        self, method: str, path: str, answers: Answers, **options: Unpack[RouteOptions]
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare the route of a function, with its successful answers."""

        def add(endpoint: Endpoint) -> Endpoint:
            self.append(Route(method, self._prefix + path, endpoint, answers, {"tag": self.tag, **options}))
            return endpoint

        return add


async def answer_job(
    call: Call,
    kind: str,
    work: Work,
    key: IdempotencyKey | None = None,
    *,
    wait: bool,
    make_response: Callable[[dict[str, Any]], Response] = answer_json,
) -> Response:
    """Start a job; answer with what it did if the caller waits for it, else with its id.

    Raises Conflict while one of its kind is running, what it failed with, and Unavailable if that was no error of
    KnowHub.
    """
    jobs = call.hub.operations.jobs
    job = await jobs.start(kind, call.ctx.account, work, key)
    if not wait:
        return answer_json({"job_id": job.job_id}, 202)
    done = await jobs.finish(job)
    if done.status is JobStatus.DONE and done.result is not None:
        return make_response(done.result)
    if done.problem is not None:
        raise done.problem
    reason = done.error or "another request ended it"
    raise Unavailable(f"{done.kind} {done.status.value}: {reason}", {"job_id": done.job_id})


def _make_caller_key(ctx: RequestContext) -> str:
    """Return a name for the caller and the scopes that the caller may see: two users may call as the same agent."""
    seen = [_EVERY_SCOPE] if ctx.visible is None else sorted(ctx.visible)
    text = "\x1f".join([*sorted(ctx.own), "", *seen])
    return f"{ctx.actor}#{sha256(text.encode()).hexdigest()[:_CALLER_DIGITS]}"
