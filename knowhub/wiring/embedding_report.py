"""What the server says of its embedder: where it comes from, which scripts it reads, and what is wrong with it."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.core.language_models import EmbeddingFailed
from knowhub.providers.http import RequestTiming
from knowhub.search.scripts import PROBES, ScriptSkills
from knowhub.settings import Settings
from knowhub.wiring.models import EmbedderChoice, open_embedder

_CHECK_S: Final = 60.0
# Models that expect a prefix before queries, texts or both, by a part of their names. Longer names come first.
_PREFIXES: Final = {
    "nomic-embed": ("search_query: ", "search_document: "),
    "snowflake-arctic-embed": ("query: ", ""),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
    "multilingual-e5": ("query: ", "passage: "),
    "e5-": ("query: ", "passage: "),
}


async def check_embedder(settings: Settings) -> dict[str, Any]:
    """Open the embedder of the settings, measure every script, and return its description. Raises InvalidInput."""
    async with AsyncExitStack() as stack:
        choice = await open_embedder(settings, RequestTiming(SystemClock(), RandomIds()), stack)
        skills = None if choice.embedder is None else ScriptSkills(choice.embedder, settings.embedding_scripts or None)
        report = EmbeddingReport(choice, skills, settings)
        problems: list[str] = []
        if skills is not None:
            stack.push_async_callback(skills.close)
            try:
                await asyncio.wait_for(skills.measure(), _CHECK_S)
            except TimeoutError:
                problems.append(f"the embedder did not answer within {_CHECK_S:g} s")
            except EmbeddingFailed as error:
                problems.append(f"the embedder gives no vectors: {error}")
        answer = report.describe()
        return answer | {"problems": [*answer["problems"], *problems]}


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """The embedder in use. `skills` is None where there is no embedder."""

    choice: EmbedderChoice
    skills: ScriptSkills | None
    settings: Settings

    async def measure(self) -> None:
        """Measure the skill of a local embedder in the most frequent scripts. A server is asked when it is needed."""
        if self.skills is not None and self.choice.source != "server":
            # A failure is found again, and named, by the first search.
            with suppress(EmbeddingFailed):
                await self.skills.measure(("latin", "han"))

    def find_problems(self) -> Sequence[str]:
        """Return what is wrong: the packaged model cannot be used, no script is read, a prefix is missing."""
        problems = [] if self.choice.problem is None else [self.choice.problem]
        measured = {} if self.skills is None or self.skills.overruling is not None else self.skills.measured
        if measured and not any(skill.skill for skill in measured.values()):
            problems.append(
                f"the embedder reads none of the scripts tried ({', '.join(measured)}), so searches use words only. "
                "KNOWHUB_EMBEDDING_SCRIPTS overrules this"
            )
        missing = self._find_missing_prefixes()
        if missing:
            problems.append(f"models of this name expect prefixes: set {' and '.join(missing)}")
        return problems

    def describe(self) -> dict[str, Any]:
        """Return source, model, the scripts that are read and those that are not, what decided that, and problems."""
        embedder, skills = self.choice.embedder, self.skills
        answer: dict[str, Any] = {
            "source": self.choice.source,
            "model": None if embedder is None else embedder.model,
            "problems": list(self.find_problems()),
        }
        if skills is None or skills.overruling is not None:
            # Nothing is measured, or the measurement decides nothing.
            read = () if skills is None else skills.overruling or ()
            left = () if skills is None else [name for name in PROBES if name not in read]
            return answer | {
                "reads": [name for name in PROBES if name in read],
                "left_to_words": dict.fromkeys(left, "KNOWHUB_EMBEDDING_SCRIPTS leaves it out"),
                "not_measured": [],
                "decided_by": None if skills is None else "KNOWHUB_EMBEDDING_SCRIPTS",
            }
        measured = skills.measured
        return answer | {
            "reads": [name for name, skill in measured.items() if skill.skill],
            "left_to_words": {
                name: f"too few answers lay closer to their questions than unrelated texts: {skill.closer:.0%}, not 90%"
                for name, skill in measured.items()
                if not skill.skill
            },
            "not_measured": [name for name in PROBES if name not in measured],
            "decided_by": "measurement",
        }

    def _find_missing_prefixes(self) -> Sequence[str]:
        embedder, settings = self.choice.embedder, self.settings
        if embedder is None or "instruct" in embedder.model.lower():
            return []
        name = embedder.model.lower()
        query, text = next((prefixes for part, prefixes in _PREFIXES.items() if part in name), ("", ""))
        expected = [
            ("KNOWHUB_EMBEDDING_QUERY_PREFIX", query, settings.embedding_query_prefix),
            ("KNOWHUB_EMBEDDING_TEXT_PREFIX", text, settings.embedding_text_prefix),
        ]
        return [f"{variable} to {prefix!r}" for variable, prefix, given in expected if prefix and not given]
