"""Taking turns: long work stops for the others of its event loop every few milliseconds."""

import asyncio
import time

TURN_S = 0.003


class Pace:
    """Call `pause` between small pieces of work; it hands over as soon as a turn has lasted `turn_s` seconds."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._since = time.monotonic()

    async def pause(self) -> None:
        """Let others have their turn, when this one was long enough."""
        if time.monotonic() - self._since >= self._turn_s:
            await asyncio.sleep(0)
            self._since = time.monotonic()
