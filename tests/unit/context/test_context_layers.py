"""Layers by rules: the abstract and overview of a commit and of a correction."""

import pytest

from knowhub.context.commit import memory_page
from knowhub.context.model import MemoryCategory
from tests.context_commits import CommitBench, tool_message, tool_use, user_message

pytestmark = pytest.mark.anyio

OVER = ("abstract", "overview")


async def test_layers_recomputed_from_content_equal_the_committed_layers() -> None:
    bench = CommitBench()
    await bench.commit(
        user_message("My sister Maria lives in Porto. I love oolong tea. I'm a nurse.", "m1", "2026-05-08T10:00:00Z"),
        user_message("On 12 June I see the dentist with Maria.", "m2", "2026-05-08T10:01:00Z"),
        tool_message("18 degrees", "weather", "t1"),
        used_tools=[
            tool_use("grep", ok=False, note="no such file"),
            tool_use("grep", note="fast"),
            tool_use("deploy", kind="skill"),
        ],
    )

    made = {name: row for name, row in bench.nodes().items() if row["category"] != MemoryCategory.SESSIONS}

    assert {
        MemoryCategory.PROFILE,
        MemoryCategory.PREFERENCES,
        MemoryCategory.EVENTS,
        MemoryCategory.TOOLS,
        MemoryCategory.SKILLS,
    } <= {row["category"] for row in made.values()}
    for name, row in made.items():
        layers = memory_page.complete_layers(
            MemoryCategory(row["category"]), {"content": ""}, {"content": row["content"]}
        )
        assert all(layers[layer] == row[layer] for layer in OVER), name


@pytest.mark.parametrize("category", [item for item in MemoryCategory if item is not MemoryCategory.SESSIONS])
def test_edited_text_is_in_every_layer(category: MemoryCategory) -> None:
    content = "She moved to Lima.\n\nSince May."
    layers = memory_page.complete_layers(category, {"content": ""}, {"content": content})

    assert layers["abstract"].startswith("She moved to Lima.")
    assert layers["overview"].split() == ["She", "moved", "to", "Lima.", "Since", "May."]


@pytest.mark.parametrize(
    ("category", "patch"),
    [
        (MemoryCategory.PROFILE, {"content": "Rome"}),
        (MemoryCategory.PROFILE, {"abstract": "Lima"}),
        (MemoryCategory.SESSIONS, {"overview": "Lima"}),
    ],
)
def test_layers_change_only_with_the_content(category: MemoryCategory, patch: dict[str, str]) -> None:
    assert memory_page.complete_layers(category, {"content": "Rome"}, patch) == patch
