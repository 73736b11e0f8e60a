"""Correcting, forgetting and erasing memories over HTTP: one by one, as operations that can be undone."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub, check_directory, open_hub, repair_directory
from knowhub.settings import Settings
from knowhub.stores.files.doctor.findings import Severity
from knowhub.web.app import create_app
from tests.erasing import find_files_with
from tests.web.conftest import client_of, open_server
from tests.web.sessions import COMMIT, NODES, commit_session, get_node, search_memories

pytestmark = pytest.mark.anyio

SESSION = "ctx://default/users/li/sessions/s-1"
LI: dict[str, Any] = {"user_id": "li"}
SECRET = "the heron stands in the third pond"


@pytest.fixture
async def preference(api: httpx.AsyncClient) -> str:
    """Return the URI of a memory that was extracted from a session of li."""
    answer = await commit_session(api, "s-1", "请以后都用中文回答我。", SECRET, **LI)
    return next(str(result["uri"]) for result in answer["write_results"] if "/preferences/" in result["uri"])


async def test_a_correction_is_a_new_version_and_searchable_at_once(api: httpx.AsyncClient, preference: str) -> None:
    response = await api.patch(NODES, params={"uri": preference}, json={"abstract": "用粤语回答", **LI})

    answer = response.json()
    assert (response.status_code, answer["abstract"], answer["version"]) == (200, "用粤语回答", 2)
    assert response.headers["ETag"] == '"2"'
    assert answer["operation_id"] == response.headers["X-Operation-Id"]
    assert preference in [item["uri"] for item in await search_memories(api, "粤语", **LI)]
    for method in ("PATCH", "DELETE"):
        body = {"abstract": "x", **LI} if method == "PATCH" else None
        ids = {} if body else LI
        stale = await api.request(
            method, NODES, params={"uri": preference, **ids}, json=body, headers={"If-Match": '"1"'}
        )
        assert (stale.status_code, stale.json()["current_version"]) == (409, 2)


async def test_corrected_text_leaves_every_layer_and_the_distilled_records(
    api: httpx.AsyncClient,
) -> None:
    await commit_session(api, "s-1", "我叫李雷，住在上海。", **LI)
    profile = "ctx://default/users/li/memories/profile"
    content = (await get_node(api, profile, **LI))["content"]

    answer = await api.patch(NODES, params={"uri": profile}, json={"content": content.replace("上海", "北京"), **LI})

    assert (answer.status_code, "上海" in content) == (200, True)
    stands = await get_node(api, profile, **LI)
    assert all("北京" in stands[layer] and "上海" not in stands[layer] for layer in ("abstract", "overview", "content"))
    assert [item["uri"] for item in await search_memories(api, "北京", categories="profile", **LI)] == [profile]
    assert await search_memories(api, "上海", categories="profile", **LI) == []
    overview = (await api.get("/api/context/read", params={"uri": profile, "level": "L1", **LI})).json()["overview"]
    assert ("北京" in overview, "上海" in overview) == (True, False)
    (record,) = (await api.post("/api/context/sessions/s-1/distill", json=LI)).json()["saved"]
    assert ("北京" in record["task"], "上海" in f"{record['task']}{record['content']}") == (True, False)


@pytest.mark.parametrize("said_at", [None, "2100-01-01T10:00:00Z"])
@pytest.mark.parametrize(
    ("said", "corrected", "newer"),
    [
        ("My name is Li. I live in Bonn.", ("in Bonn", "in Ulm"), "I live in Jena."),
        ("我叫李雷，住在上海。", ("上海", "北京"), "我住在深圳。"),
    ],
)
async def test_no_later_message_replaces_a_profile_line_that_a_person_wrote(
    api: httpx.AsyncClient, said: str, corrected: tuple[str, str], newer: str, said_at: str | None
) -> None:
    await commit_session(api, "s-1", said, **LI)
    profile = "ctx://default/users/li/memories/profile"
    before = await get_node(api, profile, **LI)
    patch = {"content": before["content"].replace(*corrected), **LI}

    answer = (await api.patch(NODES, params={"uri": profile}, json=patch)).json()
    later = {"role": "user", "content": newer, **({"timestamp": said_at} if said_at else {})}
    body = {"session_id": "s-2", "messages": [later], **LI}
    committed = (await api.post(COMMIT, json=body)).json()
    after = await get_node(api, profile, **LI)

    assert answer["metadata"]["statements"][0] == before["metadata"]["statements"][0]
    home = answer["metadata"]["statements"][1]
    assert (corrected[1] in home["text"], home["by"], home["said_at"]) == (True, "person", answer["updated_at"])
    assert corrected[0] in answer["metadata"]["history"][0]["text"]
    # It changed nothing and says why; the message itself is kept.
    reasons = [result["reason"] for result in committed["write_results"] if result["uri"] == profile]
    assert reasons == ["a person wrote what it would replace"]
    assert (after["content"], after["version"]) == (answer["content"], answer["version"])
    assert await search_memories(api, newer, **LI)


async def test_a_patch_keeps_a_sent_abstract_and_an_unsent_content(api: httpx.AsyncClient, preference: str) -> None:
    content = (await get_node(api, preference, **LI))["content"]

    alone = (await api.patch(NODES, params={"uri": preference}, json={"abstract": "my words", **LI})).json()
    both = {"abstract": "mine", "content": "Answer in Cantonese.", **LI}
    answer = (await api.patch(NODES, params={"uri": preference}, json=both)).json()

    assert (alone["abstract"], alone["content"]) == ("my words", content)
    assert (answer["abstract"], answer["overview"]) == ("mine", "Answer in Cantonese.")


async def test_an_emptied_memory_is_not_found_and_does_not_block_distilling(
    api: httpx.AsyncClient, preference: str
) -> None:
    emptied = (await api.patch(NODES, params={"uri": preference}, json={"content": "", **LI})).json()

    answer = await api.post("/api/context/sessions/s-1/distill", json=LI)

    assert (emptied["abstract"], emptied["overview"]) == ("", "")
    assert await search_memories(api, "中文", categories="preferences", **LI) == []
    assert (answer.status_code, preference in [result["uri"] for result in answer.json()["results"]]) == (200, False)


async def test_a_correction_that_changes_nothing_makes_no_operation(api: httpx.AsyncClient, preference: str) -> None:
    stands = await get_node(api, preference, **LI)

    response = await api.patch(NODES, params={"uri": preference}, json={"abstract": stands["abstract"], **LI})

    assert (response.status_code, response.json()["operation_id"], response.json()["version"]) == (200, None, 1)


async def test_the_uri_may_be_in_the_body_but_must_be_given(api: httpx.AsyncClient, preference: str) -> None:
    in_body = await api.patch(NODES, json={"uri": preference, "abstract": "x", **LI})
    nowhere = await api.patch(NODES, json={"abstract": "x", **LI})
    two = await api.patch(NODES, params={"uri": SESSION}, json={"uri": preference, "abstract": "x", **LI})

    assert in_body.status_code == 200
    assert (nowhere.status_code, nowhere.json()["errors"][0]["field"]) == (422, "uri")
    assert (two.status_code, two.json()["errors"][0]["field"]) == (422, "uri")


async def test_messages_cannot_be_corrected_but_a_session_summary_can(api: httpx.AsyncClient, preference: str) -> None:
    message = await api.patch(NODES, params={"uri": f"{SESSION}/m-1"}, json={"content": "x", **LI})
    transcript = await api.patch(NODES, params={"uri": SESSION}, json={"content": "x", **LI})
    summary = await api.patch(NODES, params={"uri": SESSION}, json={"abstract": "a summary of my own", **LI})

    assert preference
    assert (message.status_code, transcript.status_code, summary.status_code) == (422, 422, 200)
    assert [item.json()["errors"][0]["field"] for item in (message, transcript)] == ["uri", "content"]


async def test_a_forgotten_memory_is_gone_until_an_undo(api: httpx.AsyncClient, preference: str) -> None:
    deleted = await api.delete(NODES, params={"uri": preference, **LI})
    gone = await api.get(NODES, params={"uri": preference, **LI})
    unseen = await search_memories(api, "中文", categories="preferences", **LI)
    undone = await api.post(f"/api/operations/{deleted.json()['operation_id']}/undo", json=LI)

    assert (deleted.status_code, gone.status_code, unseen) == (200, 404, [])
    assert undone.status_code == 200
    assert (await get_node(api, preference, **LI))["version"] == 3
    assert preference in [item["uri"] for item in await search_memories(api, "中文", categories="preferences", **LI)]


@pytest.mark.parametrize("how", [{}, {"erase": "true"}], ids=["deleted", "erased"])
async def test_a_forgotten_memory_stays_gone_after_another_commit(
    api: httpx.AsyncClient, preference: str, how: dict[str, str]
) -> None:
    for uri in (preference, f"{SESSION}/m-2"):
        assert (await api.delete(NODES, params={"uri": uri, **how, **LI})).status_code == 200

    again = await commit_session(api, "s-1", "请以后都用中文回答我。", SECRET, status=200, **LI)

    assert again["status"] == "unchanged"
    for uri in (preference, f"{SESSION}/m-2"):
        assert (await api.get(NODES, params={"uri": uri, **LI})).status_code == 404
    assert SECRET not in (await get_node(api, SESSION, **LI))["content"]
    assert await search_memories(api, "heron", **LI) == []


async def test_forgetting_a_session_forgets_its_messages(api: httpx.AsyncClient, preference: str) -> None:
    deleted = await api.delete(NODES, params={"uri": SESSION, **LI})

    for uri in (SESSION, f"{SESSION}/m-1", f"{SESSION}/m-2"):
        assert (await api.get(NODES, params={"uri": uri, **LI})).status_code == 404
    assert preference
    assert await search_memories(api, "heron", **LI) == []
    await api.post(f"/api/operations/{deleted.json()['operation_id']}/undo", json=LI)
    assert (await search_memories(api, "heron", **LI))[0]["message_ids"] == ["m-2"]


@pytest.mark.parametrize("erased", [f"{SESSION}/m-2", SESSION])
async def test_erased_text_is_in_no_file_and_no_answer(
    api: httpx.AsyncClient, hub: Hub, preference: str, tmp_path: Path, erased: str
) -> None:
    response = await api.delete(NODES, params={"uri": erased, "erase": "true", **LI})
    await hub.maintenance.tick()

    answer = response.json()
    assert (response.status_code, answer["erased"]) == (200, True), response.text
    holding = [
        str(path.relative_to(tmp_path))
        for path in (tmp_path / "data").rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert preference
    assert holding == []
    assert await search_memories(api, "heron", **LI) == []
    assert (await api.get(NODES, params={"uri": f"{SESSION}/m-2", **LI})).status_code == 404


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("I like tea. The heron is blue.", "heron"),
        ("Hello there!\nHeron 7 it is.\nI like tea.", "Heron 7"),
        ("我喜欢喝茶。苍鹭是蓝色的。", "苍鹭"),
    ],
)
async def test_short_sentences_of_an_erased_message_leave_the_session_summary(
    api: httpx.AsyncClient, tmp_path: Path, said: str, word: str
) -> None:
    texts = ("I like apples. The garden is green.", said)
    messages = [{"role": "user", "content": text, "message_id": f"m{at}"} for at, text in enumerate(texts)]
    body = {"session_id": "s-1", "messages": messages, **LI}
    await api.post("/api/context/sessions/commit", json=body)
    others = [item for item in await search_memories(api, word, **LI) if "/memories/" in item["uri"]]

    await api.delete(NODES, params={"uri": f"{SESSION}/m1", "erase": "true", **LI})
    for other in others:
        await api.delete(NODES, params={"uri": other["uri"], "erase": "true", **LI})

    session = await get_node(api, SESSION, **LI)
    assert word not in f"{session['abstract']}{session['overview']}"
    assert find_files_with(tmp_path / "data", word) == []


@pytest.mark.parametrize("is_deleted_before", [False, True])
async def test_an_erased_message_is_counted_no_more(api: httpx.AsyncClient, *, is_deleted_before: bool) -> None:
    await commit_session(api, "s-1", "The garden is green.", "The pond is frozen.", **LI)
    message = {"uri": f"{SESSION}/m-1", **LI}
    if is_deleted_before:
        await api.delete(NODES, params=message)

    erased = await api.delete(NODES, params={**message, "erase": "true"})

    assert erased.status_code == 200, erased.text
    assert (await get_node(api, SESSION, **LI))["metadata"]["message_count"] == 1
    (listed,) = (await api.get("/api/context/sessions", params=LI)).json()["results"]
    assert listed["message_count"] == 1


@pytest.mark.parametrize("what", ["message", "session", "memory", "all"])
async def test_a_directory_in_which_a_memory_was_erased_is_examined_reindexed_and_repaired(
    tmp_path: Path, what: str
) -> None:
    settings = Settings(data_dir=tmp_path / "data", owner="user:local")
    async with open_hub(settings) as hub, client_of(create_app(settings, hub)) as api:
        answer = await commit_session(api, "s-1", "请以后都用中文回答我。", SECRET, **LI)
        memory = next(str(result["uri"]) for result in answer["write_results"] if "/preferences/" in result["uri"])
        # Corrected before: the log then tells of several versions, each of them a stub from now on.
        await api.patch(NODES, params={"uri": memory}, json={"abstract": "用粤语回答", **LI})
        await commit_session(api, "s-2", "the ibis too", **LI)
        uris = {"message": [f"{SESSION}/m-2"], "session": [SESSION], "memory": [memory]}
        for uri in uris.get(what, [f"{SESSION}/m-2", memory, SESSION]):
            erased = await api.delete(NODES, params={"uri": uri, "erase": "true", **LI})
            assert erased.status_code == 200, erased.text
        await hub.maintenance.tick()
        await hub.reindex(lambda _done, _total: None)

    examined = check_directory(settings)
    repair_directory(settings)
    repaired = check_directory(settings)
    async with open_server(settings) as api:
        still = [bool(await search_memories(api, text, **LI)) for text in ("heron", "ibis")]

    for findings in (examined, repaired):
        assert [finding for finding in findings if finding.severity is Severity.PROBLEM] == []
    assert still == [what == "memory", True]


@pytest.mark.parametrize("erased", [f"{SESSION}/m-2", SESSION])
@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("is_edited", [False, True])
async def test_a_restore_does_not_bring_back_quotes_of_erased_text(
    api: httpx.AsyncClient, hub: Hub, preference: str, erased: str, *, goes_on: bool, is_edited: bool
) -> None:
    if is_edited:
        for message in ("m-1", "m-2"):
            assert (await api.delete(NODES, params={"uri": f"{SESSION}/{message}", **LI})).status_code == 200
        quote = {"overview": f"It was said that {SECRET}.", **LI}
        assert (await api.patch(NODES, params={"uri": SESSION}, json=quote)).status_code == 200
    quoted = await get_node(api, SESSION, **LI)
    snapshot = (await api.post("/api/maintenance/snapshots")).json()["ts"]
    assert (await api.delete(NODES, params={"uri": erased, "erase": "true", **LI})).status_code == 200
    if goes_on:
        more = {"session_id": "s-1", "messages": [{"role": "user", "content": "the ibis came", "message_id": "m-3"}]}
        assert (await api.post(COMMIT, json=more | LI)).status_code == 201

    restored = await api.post(f"/api/maintenance/snapshots/{snapshot}/restore")
    await api.delete(f"/api/maintenance/snapshots/{snapshot}")
    await hub.maintenance.tick()

    assert SECRET in quoted["overview"], "nothing is tested where the session does not quote it"
    assert restored.status_code == 200, restored.text
    assert find_files_with(hub.settings.data_dir, SECRET) == []
    assert (await api.get(NODES, params={"uri": preference, **LI})).status_code == 200
    assert (await api.get(NODES, params={"uri": f"{SESSION}/m-2", **LI})).status_code == 404


@pytest.mark.parametrize(
    ("said", "word"),
    [("I like qqzzuniqueword soup.", "qqzzuniqueword"), ("I live in Qqzzuniqueword.", "zzuniqueword")],
)
async def test_the_words_of_a_memory_name_are_in_no_file_once_it_is_erased(
    api: httpx.AsyncClient, hub: Hub, tmp_path: Path, said: str, word: str
) -> None:
    answer = await commit_session(api, "s-9", said, **LI)
    written = [result["uri"] for result in answer["write_results"]]
    before = find_files_with(tmp_path / "data", word)

    erased = [await api.delete(NODES, params={"uri": uri, "erase": "true", **LI}) for uri in written]
    await hub.maintenance.tick()

    assert before != []
    assert len(written) > 1
    assert [item.status_code for item in erased] == [200] * len(written)
    assert find_files_with(tmp_path / "data", word) == []


async def test_a_list_names_memories_by_words_that_are_not_in_the_uri(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-9", "I like elderflower soup.", "I prefer green tea.", **LI)

    listed = await api.get("/api/context/children", params={"uri": "ctx://default/users/li/memories/preferences", **LI})

    names = {result["name"]: result["uri"] for result in listed.json()["results"]}
    assert names.keys() == {"i-like-elderflower-soup", "i-prefer-green-tea"}
    assert "elderflower" not in names["i-like-elderflower-soup"]


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("I like hunter2pass77 as my password.", "hunter2pass77"),
        ("I like the word correcthorsebatterystaple as passphrase.", "correcthorsebatterystaple"),
        ("I prefer AKIA" + "IOSFODNN7EXAMPLE as key.", "IOSFODNN7EXAMPLE"),
    ],
)
async def test_a_credential_is_only_in_the_message_that_contains_it(
    api: httpx.AsyncClient, said: str, secret: str
) -> None:
    answer = await commit_session(api, "s-9", said, "I prefer green tea.", **LI)

    others = [result["uri"] for result in answer["write_results"]]
    nodes = [await get_node(api, uri, **LI) for uri in others]
    session = next(item for item in nodes if item["category"] == "sessions")
    assert secret in session["content"]
    assert secret not in f"{session['abstract']}{session['overview']}"
    assert [item["category"] for item in nodes if item is not session] == ["preferences"]
    assert secret not in str([others, [item for item in nodes if item is not session], answer["archive"]["summary"]])
