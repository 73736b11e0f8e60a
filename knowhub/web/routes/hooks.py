"""The route that the hooks of coding agents call."""

from pathlib import PurePath

from starlette.responses import Response

from knowhub.core.errors import InvalidInput, NotFound
from knowhub.web.hooks.hosts import HOSTS, Action, Host
from knowhub.web.hooks.service import HookCall, HookService
from knowhub.web.hooks.transcripts import SentTranscript
from knowhub.web.middleware import is_loopback
from knowhub.web.responses import answer_json, name_operation
from knowhub.web.route import Call, Routes
from knowhub.web.schemas.hooks import HookPayload, HookReply
from knowhub.web.schemas.parts import AddressedCallerIds

routes = Routes("/api", "hooks", "Hooks of coding agents: recall when they start, capture when they stop.")

_NOT_LOCAL = "a file is read only for a caller on this machine; send the lines as `transcript`"


@routes.add(
    "POST",
    "/hooks/{host}/{event}",
    {200: (HookReply, "Done, in the form of the host.")},
    summary="Answer a hook",
    examples={
        "a session of Claude Code ends a turn": {
            "session_id": "067dcfe5-1587-46db-b19c-194c94dd072e",
            "hook_event_name": "Stop",
            "transcript": '{"type":"user","uuid":"521ab035","message":{"role":"user","content":"I prefer tabs."}}\n',
        },
    },
    is_large=True,
    headers={200: ("X-Operation-Id",)},
)
async def run_hook(call: Call, body: HookPayload, params: AddressedCallerIds, host: str, event: str) -> Response:
    """Recall for an agent when a session starts and when a prompt is sent; commit the transcript when it stops.

    The body is what the host sends; unknown fields are ignored. The address names the caller where no keys are used.
    """
    del params
    hooks: HookService = call.require_request().app.state.hooks
    done = await hooks.run(call.ctx, _read_call(call, body, *_find_event(host, event)))
    return answer_json(done.body, headers=name_operation(done.operation_id))


def _find_event(host: str, event: str) -> tuple[Host, str]:
    """Return the host and its event. Raises NotFound."""
    found = HOSTS.get(host)
    if found is None:
        raise NotFound(f"no host {host!r}; known are {', '.join(HOSTS)}")
    name = found.find_event(event)
    if name is None:
        raise NotFound(f"{host} has no event {event!r} that is known here; known are {', '.join(found.events)}")
    return found, name


def _read_call(call: Call, body: HookPayload, host: Host, event: str) -> HookCall:
    """Return what a payload asks for. Raises InvalidInput for the payload of another host or event."""
    session_id = getattr(body, host.session_field)
    if session_id is None:
        raise InvalidInput.of(host.session_field, f"is missing; this is not what {host.name} sends")
    if body.hook_event_name is not None and host.find_event(body.hook_event_name) != event:
        raise InvalidInput.of("hook_event_name", f"is {body.hook_event_name!r}, and the address says {event!r}")
    action = host.events[event]
    if action is Action.PROMPT and body.prompt is None:
        raise InvalidInput.of("prompt", "is missing")
    folder = PurePath(body.cwd or next(iter(body.workspace_roots or ()), "")).name
    return HookCall(
        host,
        event,
        session_id,
        (body.prompt or "") if action is Action.PROMPT else folder,
        body.source or "startup",
        _read_transcript(call, body) if action is Action.CAPTURE else SentTranscript(),
    )


def _read_transcript(call: Call, body: HookPayload) -> SentTranscript:
    """Return the transcript of a payload. Raises InvalidInput where there is none, or the file is elsewhere."""
    if body.transcript is not None:
        return SentTranscript(lines=body.transcript, offset=body.transcript_offset)
    if "transcript_path" not in body.model_fields_set:
        raise InvalidInput.of("transcript_path", "is missing; send it, or the lines as `transcript`")
    if body.transcript_path is None:
        # The host keeps no transcript of this session.
        return SentTranscript(lines="")
    client = call.require_request().client
    if client is None or not is_loopback(client.host):
        raise InvalidInput.of("transcript_path", _NOT_LOCAL)
    return SentTranscript(body.transcript_path)
