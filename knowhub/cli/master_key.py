"""`knowhub keys rotate-master`: another key for what is sealed, with servers running or none."""

from dataclasses import asdict

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import use_hub
from knowhub.cli.options import Place, spread
from knowhub.resources.model import Rotated


@spread
def rotate_master(place: Place) -> None:
    """Wrap the keys of everything that is sealed with a new master key; run it again where it was broken off.

    Where KNOWHUB_SECRET_KEY is set that is the new one, and KNOWHUB_SECRET_KEY_OLD, or the key file, still opens what
    was sealed before. Else a new key file takes the place of the old one.
    """

    async def work(hub: Hub) -> Rotated:
        return await hub.vault.rotate()

    done = use_hub(place, work)
    if place.as_json:
        output.print_json(asdict(done))
        return
    output.say(f"rotated  {done.rewrapped} of {done.keys} keys are wrapped anew, all by {done.master}")
