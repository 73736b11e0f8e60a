"""`knowhub feedback --evolve` and `knowhub replay` as a person uses them: real processes, a scripted model."""

import pytest

from tests.e2e.command_line import Cli
from tests.e2e.scripted_llm import running_llm

pytestmark = pytest.mark.anyio

BEFORE = "Call driver.get.\nThen click at once."
AFTER = "Call driver.get.\nThen wait for the element, and click."
FEEDBACK = "the click came too early"
REWRITE = {"content": AFTER, "summary_of_change": "waits before the click"}


def save_record(cli: Cli) -> str:
    return str(cli.json("save", "--task", "登录", "--content", BEFORE)["id"])


async def test_feedback_in_words_rewrites_the_content_and_one_undo_brings_it_back(cli: Cli) -> None:
    row_id = save_record(cli)
    async with running_llm({"answer": REWRITE}) as llm:
        done = cli("feedback", row_id, "--evolve", FEEDBACK, "--helpful", "--json", KNOWHUB_LLM_BASE_URL=llm.url).json

    stands = cli.json("get", row_id)
    assert (done["evolved"], done["degraded"], done["detail"]) == (True, [], "waits before the click")
    assert "+Then wait for the element, and click." in done["diff"]
    assert (stands["content"], stands["eval"]["helpful"]) == (AFTER, 2)
    assert cli("undo", done["operation_id"]).code == 0
    stands = cli.json("get", row_id)
    assert (stands["content"], stands["eval"]["helpful"]) == (BEFORE, 1)


async def test_a_person_is_shown_what_changed_and_replay_shows_the_decision(cli: Cli) -> None:
    row_id = save_record(cli)
    async with running_llm({"answer": REWRITE}) as llm:
        result = cli("feedback", row_id, "--evolve", FEEDBACK, KNOWHUB_LLM_BASE_URL=llm.url).out
    replayed = cli("replay", "--function", "evolve_knowledge").out

    assert "-Then click at once.\n+Then wait for the element, and click.\n" in result
    assert "waits before the click" in result
    assert f"changed  {row_id}  (version 2)" in result
    assert "undo it with: knowhub undo " in result
    assert f"evolve_knowledge  {FEEDBACK}" in replayed
    assert "summary_of_change waits before the click" in replayed


async def test_without_a_model_the_content_stays_and_the_rest_counts(cli: Cli) -> None:
    row_id = save_record(cli)

    result = cli("feedback", row_id, "--evolve", FEEDBACK, "--score", "5")
    again = cli("feedback", row_id, "--evolve", FEEDBACK)

    assert (result.code, "there is no language model; the words are kept" in result.out) == (0, True)
    assert f"unchanged  {row_id}" in again.out
    stands = cli.json("get", row_id)
    assert (stands["content"], stands["eval"]["score"]) == (BEFORE, 5)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--evolve", " "], "--evolve"),
        (["--evolve", "x" * 20_000], "--evolve"),
        (["--evolve", "x", "--task", "y"], "--task"),
        (["--helpful", "--outcome", "x" * 60_000], "--outcome"),
    ],
)
def test_invalid_texts_end_with_2_and_name_the_option(cli: Cli, words: list[str], named: str) -> None:
    row_id = save_record(cli)

    ended = cli("feedback", row_id, *words)

    assert (ended.code, ended.out) == (2, "")
    assert named in ended.err
