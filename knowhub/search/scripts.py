"""The script of a text, and how well an embedder reads it. The skill is measured, so no model need be known."""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from knowhub.core.language_models import Embedder, EmbeddingFailed, FailureReason, Vector
from knowhub.search.script_probes import PROBES

_CHARACTERS: Final = {
    "latin": "A-Za-zªº\u00c0-\u024f\u1e00-\u1eff",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "cyrillic": "\u0400-\u052f",
    "hebrew": "\u05d0-\u05ea",
    "arabic": "\u0620-\u06ff\u0750-\u077f",
    "devanagari": "\u0900-\u097f",
    "thai": "\u0e00-\u0e7f",
    "kana": "\u3041-\u30ff",
    "hangul": "\u1100-\u11ff\uac00-\ud7af",
    "han": "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
}
_SCRIPTS: Final = {name: re.compile(f"[{characters}]") for name, characters in _CHARACTERS.items()}
_OTHER: Final = re.compile(rf"[^\W\d_{''.join(_CHARACTERS.values())}]")
# Scripts with a smaller share of a query are ignored.
_WORTH_READING: Final = 0.1
_MOST: Final = 0.5
# How often an answer must lie closer to its question than strangers lie to each other: where an embedder does not
# know a script it is 0.1 to 0.9, by the characters that it happens to know, and 1.0 where it does.
_STRANGE: Final = 0.9
_FAMILIAR: Final = 0.98
_PROBE_TIMEOUT_S: Final = 30.0
HARMLESS: Final = "hello"


@dataclass(frozen=True, slots=True)
class ScriptSkill:
    """The skill of an embedder in a script, 0 to 1, and the similarity that it gives to unrelated texts.

    That similarity is the zero of its scale: 0.05 for some embedders, 0.75 for others. `spread` is its standard
    deviation. `closer` is how often an answer lay closer to its question than unrelated texts lie to each other.
    """

    skill: float
    strangers: float
    spread: float = 0.0
    closer: float = 0.0


UNREAD: Final = ScriptSkill(0.0, 0.0)


class ScriptSkills:
    """Measures the skill of an embedder in each script on first use.

    With `read`, these scripts are read and no others, whatever was measured. Raises ValueError for an unknown script.
    """

    def __init__(self, embedder: Embedder, read: Collection[str] | None = None) -> None:
        unknown = sorted(set(read or ()) - PROBES.keys())
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: no known script. Known are {', '.join(PROBES)}")
        self._embedder = embedder
        self._read = read
        self._probing: dict[str, asyncio.Task[ScriptSkill]] = {}

    @property
    def overruling(self) -> Collection[str] | None:
        """The scripts that a setting says are read, whatever is measured; None if it says nothing."""
        return self._read

    @property
    def measured(self) -> Mapping[str, ScriptSkill]:
        """The scripts that were measured so far."""
        done = {name: task for name, task in self._probing.items() if task.done() and not task.cancelled()}
        return {name: task.result() for name, task in done.items() if task.exception() is None}

    async def measure(self, scripts: Iterable[str] = PROBES) -> None:
        """Measure scripts that were not used yet. Raises EmbeddingFailed."""
        for name in scripts:
            await self._get_script_skill(name)

    async def get_skill(self, text: str) -> ScriptSkill:
        """Return the embedder's skill in `text`: that of its worst script.

        Raises EmbeddingFailed if it is unknown and the embedder does not answer.
        """
        shares = get_script_shares(text)
        readings = [await self._get_script_skill(name) for name, share in shares.items() if share >= _WORTH_READING]
        return min(readings, key=lambda reading: reading.skill, default=UNREAD)

    async def can_read(self, text: str) -> bool:
        """Return whether the embedder reads at least half of the letters of a text. Raises EmbeddingFailed."""
        read = [share for name, share in get_script_shares(text).items() if (await self._get_script_skill(name)).skill]
        return sum(read) >= _MOST

    async def _get_script_skill(self, name: str) -> ScriptSkill:
        if name not in PROBES:
            return UNREAD
        task = self._probing.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._probing[name] = asyncio.create_task(self._probe(name), name=f"probe {name}")
        # Whoever gives up waiting leaves the answer to those that come after.
        return await asyncio.shield(task)

    async def _probe(self, name: str) -> ScriptSkill:
        asked, answered = await self._embed_pairs(name)
        if not (asked.any(axis=1).all() and answered.any(axis=1).all()):
            # It cannot read them, or it is not awake yet: what it says once it is awake holds.
            if is_zero((await self._embedder.embed([HARMLESS], _PROBE_TIMEOUT_S))[0]):
                raise EmbeddingFailed(FailureReason.FAILURE, "it answers zeros to every text")
            asked, answered = await self._embed_pairs(name)
        skill = _score_pairs(asked, answered)
        return skill if self._read is None else replace(skill, skill=float(name in self._read))

    async def _embed_pairs(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        questions, answers = zip(*PROBES[name], strict=True)
        asked = await self._embedder.embed(questions, _PROBE_TIMEOUT_S, query=True)
        return _to_matrix(asked), _to_matrix(await self._embedder.embed(answers, _PROBE_TIMEOUT_S))

    async def close(self) -> None:
        """Give up what is being found out."""
        for task in self._probing.values():
            task.cancel()
        outcomes = await asyncio.gather(*self._probing.values(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, EmbeddingFailed):
                raise outcome


def is_zero(vector: Vector) -> bool:
    """Return whether a vector is all zeros: like nothing, not even itself, it is no answer."""
    return not any(vector)


def get_script_shares(text: str) -> Mapping[str, float]:
    """Return the share of each script in the letters of a text."""
    if text.isascii():
        return {"latin": 1.0} if _SCRIPTS["latin"].search(text) else {}
    counts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()}
    counts["other"] = len(_OTHER.findall(text))
    letters = sum(counts.values())
    return {name: count / letters for name, count in counts.items() if count}


def _score_pairs(questions: NDArray[np.float32], answers: NDArray[np.float32]) -> ScriptSkill:
    likeness = questions @ answers.T
    own = np.eye(len(likeness), dtype=bool)
    strangers = likeness[~own]
    closer = float((likeness[own][:, None] > strangers).mean())
    skill = min(1.0, max(0.0, (closer - _STRANGE) / (_FAMILIAR - _STRANGE)))
    return ScriptSkill(skill, float(strangers.mean()), float(strangers.std()), closer)


def _to_matrix(vectors: Sequence[Vector]) -> NDArray[np.float32]:
    return np.array(vectors, dtype=np.float32)
