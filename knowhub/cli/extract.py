"""Finding what is worth keeping in a conversation that lies in a file, for a person at a terminal."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, use_hub
from knowhub.cli.message_file import check_not_empty, read_messages
from knowhub.cli.options import Caller, Place, spread
from knowhub.knowledge.extraction_model import Extracted, Trigger

_FILE_HELP = "Messages: a JSON array, an object with `messages`, or a JSON object a line; - reads stdin."


@spread
def extract(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE_HELP, show_default=False)],
    caller: Caller,
    place: Place,
    trigger: Annotated[Trigger, typer.Option(help="Why now; decides what is looked for.")] = Trigger.COMPACTION,
    trace_id: Annotated[str | None, typer.Option(help="The trace that the conversation belongs to.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be saved, and write nothing.")] = False,
) -> None:
    """Find what is worth keeping in a conversation, and save it: preferences, constraints, pitfalls, outcomes."""
    # Imported here, as they bring the web framework along: no other command waits for that.
    from knowhub.web.routes.extraction import shown
    from knowhub.web.schemas.extraction import ExtractBody

    sent = read_messages(file)
    check_not_empty(sent)
    asked = {"messages": sent["messages"], "trigger": trigger.value, "trace_id": trace_id, "dry_run": dry_run}
    body = checked(ExtractBody, {**asked, **asdict(caller)}, {"messages": "FILE"})

    async def work(hub: Hub) -> Extracted:
        return await hub.extraction.extract(body.context(hub.default_owner), body.to_extraction())

    extracted = use_hub(place, work, make=not dry_run)
    if place.as_json:
        output.print_json({**shown(extracted), "operation_id": extracted.operation_id})
    else:
        _print_extracted(extracted)


def _print_extracted(extracted: Extracted) -> None:
    if not extracted.results:
        output.say("nothing worth keeping was found")
    for one in extracted.results:
        output.say(f"{one['status']:>12}  {one['category']}  {one['knowledge_id'] or ''}")
        output.say(f"              {output.one_line(one['content'])}")
        if one["reason"]:
            output.say(f"              {one['reason']}")
    for offer in extracted.resources:
        output.say(f"    resource  {offer.content_type}  {offer.shown}  (message {offer.message})")
    for part in extracted.degraded:
        output.say(f"did without: {part}")
    if extracted.operation_id:
        output.say(f"undo it with: knowhub undo {extracted.operation_id}")
