"""A person has one name, one home and one job: in the profile the newer statement replaces the older."""

import re

import pytest

from knowhub.context.model import MemoryCategory
from knowhub.core.operation import Row
from tests.context_commits import CommitBench, user_message

pytestmark = pytest.mark.anyio


def values_of(profile: Row) -> dict[str, str]:
    return {
        name: value for statement in profile["metadata"]["statements"] for name, value in statement["values"].items()
    }


@pytest.mark.parametrize(
    ("first", "then", "stays", "goes"),
    [
        ("My name is Anna Rossi and I live in Rome.", "I live in Paris.", ["Anna Rossi", "Paris"], "Rome"),
        ("我叫陈晨，住在上海。", "我住在北京。", ["陈晨", "北京"], "上海"),
        ("I live in Berlin.", "I moved to Munich last week, to a bigger flat.", ["Munich"], "Berlin"),
        ("I live in Berlin and work at Bosch.", "I live in Munich now.", ["Munich", "Bosch"], "Berlin"),
        ("我住厦门，在美团上班，女儿五岁。", "我搬到福州了。", ["福州", "美团", "女儿五岁"], "厦门"),
        ("I live in Berlin.", "I used to live in Berlin but I live in Jena now.", ["Jena"], "I live in Berlin."),
        ("I'm 40 years old.", "I turned 41 today.", ["41"], "40"),
        ("i live in porto", "i live in lisbon now", ["lisbon"], "porto"),
        ("我住在上海。", "我搬到深圳了，现在住在深圳。", ["深圳"], "上海"),
        ("我住在上海。", "我上周搬到了深圳。", ["深圳"], "上海"),
        ("我住在广州。", "我刚从广州搬到了深圳。", ["搬到了深圳"], "住在广州"),
        ("I work as a nurse and live in Oslo.", "I work as a teacher.", ["teacher", "Oslo"], "nurse"),
        ("My name is Bo, I work as a nurse and I live in Rome.", "I live in Bonn.", ["Bo", "nurse", "Bonn"], "Rome"),
        ("我叫李雷，是一名医生，住在上海。", "我搬到北京了。", ["李雷", "医生", "北京"], "上海"),
        ("我住在西安。", "搬到宝鸡了", ["宝鸡"], "西安"),
        ("我住在西安。", "现在住咸阳", ["咸阳"], "西安"),
        ("我住在西安。", "我搬到宿舍了。", ["西安", "宿舍"], "宝鸡"),
        ("I work at the Charité.", "I quit the Charité, I'm with Helios now.", ["Helios"], "work at the Charité"),
        ("I work for Monzo.", "I've started a new job at Tesco.", ["Tesco"], "Monzo"),
        ("I work for Monzo.", "I'm with Anna now and I live in Bonn.", ["Monzo", "Bonn"], "Tesco"),
        ("我在小米上班。", "我跳槽到比亚迪了", ["比亚迪"], "小米"),
        ("我在小米上班。", "我去比亚迪上班了，挺远的", ["比亚迪"], "小米"),
        ("我在华为上班。", "我从华为离职了，现在在大疆", ["大疆"], "在华为上班"),
    ],
)
async def test_a_newer_home_or_job_replaces_only_its_part_of_the_sentence(
    first: str, then: str, stays: list[str], goes: str
) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1"))

    await bench.commit(user_message(then, "m2"), session_id="s2")

    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert all(stay in profile["content"] for stay in stays)
    assert goes not in profile["content"]


@pytest.mark.parametrize(
    "said", ["I moved to Rust.", "We moved to Bazel last month.", "I moved to Jena.", "I live in Jena this week."]
)
async def test_a_move_that_may_be_none_stays_beside_the_home(said: str) -> None:
    bench = CommitBench()
    await bench.commit(user_message("I live in Berlin.", "m1"))

    await bench.commit(user_message(said, "m2"), session_id="s2")

    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert profile["content"].split("\n") == ["I live in Berlin.", said]
    assert profile["abstract"].startswith(said)


async def test_who_leaves_an_employer_has_none() -> None:
    bench = CommitBench()
    await bench.commit(user_message("I work at Nokia. I live in Oulu.", "m1"))

    await bench.commit(user_message("I quit my job at Nokia. Then I slept.", "m2"), session_id="s2")

    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert profile["content"].split("\n") == ["I quit my job at Nokia.", "I live in Oulu."]


@pytest.mark.parametrize(
    ("first", "then", "current"),
    [
        ("Always reply in French.", "Reply to the landlord in Korean.", ["Always reply in French."]),
        ("Always reply in French.", "Don't reply in French.", ["Don't reply in French."]),
        ("Always reply in French.", "Never reply in Hindi.", ["Always reply in French.", "Never reply in Hindi."]),
        ("以后都用法语回答。", "别再用法语了。", ["别再用法语了。"]),
        ("Call me Max.", "Stop calling me Max.", ["Stop calling me Max."]),
        ("以后叫我小陈。", "别叫我小陈，叫陈工。", ["别叫我小陈，叫陈工。"]),
        ("I love opera.", "I don't love opera any more.", ["I don't love opera any more."]),
        ("I love opera.", "I no longer love opera.", ["I no longer love opera."]),
        ("I love opera.", "I don't love ballet.", ["I love opera.", "I don't love ballet."]),
        ("我喜欢爬山。", "我不再喜欢爬山了。", ["我不再喜欢爬山了。"]),
        ("我喜欢爬山。", "我不喜欢钓鱼。", ["我喜欢爬山。", "我不喜欢钓鱼。"]),
    ],
)
async def test_a_preference_that_is_taken_back_is_history(first: str, then: str, current: list[str]) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1"))

    await bench.commit(user_message(then, "m2"), session_id="s2")

    assert sorted(row["content"] for row in bench.of(MemoryCategory.PREFERENCES)) == sorted(current)


async def test_a_preference_that_comes_back_takes_the_place_of_its_denial() -> None:
    bench = CommitBench()
    for number, said in enumerate(["I love opera.", "I don't love opera any more.", "I love opera."]):
        await bench.commit(user_message(said, f"m{number}"), session_id=f"s{number}")

    assert [row["content"] for row in bench.of(MemoryCategory.PREFERENCES)] == ["I love opera."]


@pytest.mark.parametrize("said", ["In 1999 I moved to Prague", "I moved to Prague in 2004.", "2015年我搬到了成都"])
async def test_a_move_of_an_earlier_year_replaces_no_home(said: str) -> None:
    bench = CommitBench()
    await bench.commit(user_message("I live in Rome.", "m1", "2026-05-11T10:00:00Z"))

    await bench.commit(user_message(said, "m2", "2026-05-12T10:00:00Z"), session_id="s2")

    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert "I live in Rome" in profile["content"]


@pytest.mark.parametrize(
    ("first", "then", "stays", "category"),
    [
        ("I live in Bonn and I'm allergic to figs.", "I live in Rome now.", "I'm allergic to figs.", "preferences"),
        ("My name is Bo Hall and my son is Al.", "My name is Bo Berg now.", "my son is Al.", "profile"),
        ("我住在长沙，对芒果过敏。", "我现在住在苏州。", "对芒果过敏。", "profile"),
    ],
)
async def test_what_was_said_beside_a_replaced_value_stays(first: str, then: str, stays: str, category: str) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1"))

    await bench.commit(user_message(then, "m2"), session_id="s2")

    assert any(stays in row["content"].splitlines() for row in bench.of(MemoryCategory(category)))
    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert then in profile["content"]
    assert re.split(r" and |，", first)[0] not in profile["content"]


@pytest.mark.parametrize(
    ("first", "then", "left"),
    [
        ("My dentist visit is on 5 December.", "The dentist visit on 5 December is cancelled.", []),
        ("我12月5号看牙医。", "12月5号不去了。", []),
        ("I have a dentist appointment on 5 December.", "The dentist is cancelled.", []),
        ("Our team offsite is on 5 December.", "They called off the offsite.", []),
        ("I have a vet appointment on 5 December.", "I had to cancel the vet appointment.", []),
        ("我12月5号看牙医。", "看牙医取消了", []),
        ("我12月5号体检。", "体检我取消了，最近太忙", []),
        ("12月5号去苏州出差。", "上海出差取消了", ["苏州"]),
        ("12月5号我有钢琴课。", "钢琴课没取消", ["钢琴课"]),
        ("The offsite is on 5 December.", "The offsite was not cancelled.", ["offsite"]),
        ("My flight to Riga is on 5 December.", "My flight to Oslo is cancelled.", ["Riga"]),
        ("I run a marathon on 5 December.", "Last year's marathon was cancelled.", ["marathon"]),
        ("I run a marathon on 5 December.", "He said the marathon is cancelled.", ["marathon"]),
        ("We leave for Lyon on 5 December.", "The dentist visit on 5 December is cancelled.", ["leave for Lyon"]),
        ("My exam is on 5 December and the choir sings on 9 December.", "The choir is cancelled.", ["My exam"]),
        ("My exam is on Dec 5. Choir rehearsal is on Dec 9.", "Choir rehearsal is cancelled.", ["My exam"]),
        ("12月5号体检，12月9号去杭州开会。", "杭州开会取消了", ["体检"]),
        ("The ferry leaves on 5 December and returns on 9 December.", "The ferry is cancelled.", ["returns"]),
    ],
)
async def test_a_cancelled_plan_is_ended_and_no_other(first: str, then: str, left: list[str]) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1", "2026-11-02T10:00:00Z"))

    await bench.commit(user_message(then, "m2", "2026-11-03T10:00:00Z"), session_id="s2")

    rows = bench.of(MemoryCategory.EVENTS)
    assert len(rows) == len(left)
    assert all(text in row["content"] for text, row in zip(left, rows, strict=True))


@pytest.mark.parametrize(
    ("first", "then", "left"),
    [
        (
            "The call with Ida is on 5 December at 3pm.",
            "The call with Ida is at 6pm, not 3pm.",
            "at 6pm, not 3pm. (planned: 2026-12-05)",
        ),
        (
            "The release is on 5 December.",
            "The release slipped by two weeks.",
            "slipped by two weeks. (planned: 2026-12-05)",
        ),
        ("The choir sings on 5 December.", "The choir is postponed.", "The choir is postponed. (planned: 2026-12-05)"),
        ("12月5号晚上跟同事唱歌。", "唱歌改到周日晚上。", "唱歌改到周日晚上。（原计划：2026-12-05）"),
        ("网站12月5号改版", "原定12月5号改版，推迟了。", "原定12月5号改版，推迟了。（原计划：2026-12-05）"),
        (
            "The release is on 5 December.",
            "The release is deferred to the 9th of January 2027.",
            "The release is deferred to the 9th of January 2027. (2027-01-09)",
        ),
        ("画展定于12月5号开幕。", "画展开幕顺延至12月9号。", "画展开幕顺延至12月9号。 (2026-12-09)"),
        ("12月5号要去复查", "复查提前到下周一了", "复查提前到下周一了 (2026-11-09)"),
        ("The release is on 5 December.", "I moved the sofa.", "The release is on 5 December. (2026-12-05)"),
        (
            "The release is on 5 December.",
            "The call with Ida is postponed.",
            "The release is on 5 December. (2026-12-05)",
        ),
        (
            "The release is on 5 December.",
            "He said the release is postponed.",
            "The release is on 5 December. (2026-12-05)",
        ),
    ],
)
async def test_a_change_without_a_day_takes_the_place_of_the_plan_it_names(first: str, then: str, left: str) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1", "2026-11-02T10:00:00Z"))

    await bench.commit(user_message(then, "m2", "2026-11-03T10:00:00Z"), session_id="s2")

    (row,) = bench.of(MemoryCategory.EVENTS)
    assert left in row["content"]
    assert len(row["content"].splitlines()) == 1


async def test_a_plan_that_was_changed_without_a_day_can_be_cancelled() -> None:
    bench = CommitBench()
    for number, said in enumerate(
        ["The release is on 5 December.", "The release slipped.", "The release is cancelled."]
    ):
        text = user_message(said, f"m{number}", f"2026-11-0{number + 2}T10:00:00Z")
        await bench.commit(text, session_id=f"s{number}")

    assert bench.of(MemoryCategory.EVENTS) == []


@pytest.mark.parametrize(
    ("first", "then", "name"),
    [
        ("I live in Berlin.", "I don't live in Berlin anymore.", "home"),
        ("I live in New York.", "I no longer live in New York.", "home"),
        ("I live in Berlin.", "I'm not living in Berlin any longer.", "home"),
        ("My name is Bob.", "My name is not Bob.", "name"),
        ("I work as a nurse.", "I no longer work as a nurse.", "job"),
        ("我住在北京。", "我不住在北京了。", "home"),
        ("我住在上海。", "我已经不住在上海了。", "home"),
        ("我叫小明。", "我不叫小明。", "name"),
        ("我是一名医生。", "我不再是医生了。", "job"),
    ],
)
async def test_a_negation_replaces_the_statement_that_it_ends(first: str, then: str, name: str) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1"))
    (before,) = bench.of(MemoryCategory.PROFILE)

    await bench.commit(user_message(then, "m2"), session_id="s2")
    await bench.commit(user_message(then, "m3"), session_id="s3")

    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert (name in values_of(before), name in values_of(profile)) == (True, False)
    assert profile["content"].count(then) == 1
    assert first not in profile["content"].splitlines()


async def test_a_statement_can_end_begin_and_end_again() -> None:
    bench = CommitBench()
    for number, said in enumerate(("I live in Rome.", "I no longer live in Rome.") * 2):
        await bench.commit(user_message(said, f"m{number}"), session_id=f"s{number}")

    (profile,) = bench.of(MemoryCategory.PROFILE)

    assert profile["content"] == "I no longer live in Rome."
    assert [item["text"] for item in profile["metadata"]["history"]] == [
        "I live in Rome.",
        "I no longer live in Rome.",
        "I live in Rome.",
    ]


@pytest.mark.parametrize(
    ("stands", "said"),
    [
        (("I live in Berlin.", "2026-05-08T10:00:00Z"), ("I don't live in Berlin anymore.", "2025-01-01T10:00:00Z")),
        (("I live in Berlin.", None), ("I don't live in Rome.", None)),
        (("I live in Berlin.", None), ("Maybe I don't live in Berlin anymore.", None)),
        (("I live in Berlin.", None), ("My sister says that I don't live in Berlin.", None)),
        (("我住在北京。", None), ("我不住在上海。", None)),
    ],
)
async def test_earlier_or_unrelated_statements_end_nothing(
    stands: tuple[str, str | None], said: tuple[str, str | None]
) -> None:
    bench = CommitBench()
    await bench.commit(user_message(stands[0], "m1", stands[1]))
    (before,) = bench.of(MemoryCategory.PROFILE)

    await bench.commit(user_message(said[0], "m2", said[1]), session_id="s2")

    assert bench.of(MemoryCategory.PROFILE) == [before]


@pytest.mark.parametrize(
    ("first", "then", "left"),
    [
        ("my favorite color is green", "my favorite color is blue now", ["my favorite color is blue now"]),
        ("My favourite color is green.", "My favorite color is blue.", ["My favorite color is blue."]),
        ("我最喜欢的颜色是绿色", "我最喜欢的颜色现在是蓝色", ["我最喜欢的颜色现在是蓝色"]),
        ("I prefer tea over coffee", "i prefer tea over coffee!", ["I prefer tea over coffee"]),
        ("My favorite color is green.", "My favorite band is Elbow.", None),
        ("我最喜欢的颜色是绿色", "我女儿最喜欢的颜色是蓝色", None),
    ],
)
async def test_a_favorite_is_replaced_by_a_newer_of_the_same_kind(
    first: str, then: str, left: list[str] | None
) -> None:
    bench = CommitBench()
    await bench.commit(user_message(first, "m1", "2026-11-02T10:00:00Z"))

    await bench.commit(user_message(then, "m2", "2026-11-03T10:00:00Z"), session_id="s2")

    stated = [row["content"] for row in bench.of(MemoryCategory.PREFERENCES)]
    assert stated == left if left is not None else first in stated


async def test_a_time_far_ahead_does_not_outlast_what_is_said_later() -> None:
    bench = CommitBench()
    await bench.commit(user_message("I live in Rome.", "m1", "3026-05-11T09:00:00Z"))

    await bench.commit(user_message("I live in Bonn."), session_id="s2")

    (profile,) = bench.of(MemoryCategory.PROFILE)
    assert profile["content"] == "I live in Bonn."


@pytest.mark.parametrize("asked", ["Please don't save this.", "off the record", "这个别记"])
async def test_a_request_alone_means_the_message_before(asked: str) -> None:
    bench = CommitBench()

    await bench.commit(user_message("I live in Oslo."), user_message("I'm allergic to figs."), user_message(asked))

    assert [row["content"] for row in bench.of(MemoryCategory.PROFILE)] == ["I live in Oslo."]
    assert bench.of(MemoryCategory.PREFERENCES) == []
