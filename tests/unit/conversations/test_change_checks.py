"""Which changes of a model are believed, and why the others are refused."""

from typing import Any

import pytest

from knowhub.conversations.changes.checks import check_changes
from knowhub.conversations.changes.prompt import ChangePrompt, KnownMemory, RefusedChange
from knowhub.conversations.messages import Message

TALK = (
    Message(
        "user", "I moved to Ghent on 5 March and pay 1,250 euros; mail me at https://a.example/x.", "", "m-1", None
    ),
    Message("assistant", "Noted. The flat has twelve windows.", "", "m-2", None),
    Message("user", "我家有二十三盆花。", "", "m-3", None),
)
KNOWN = (KnownMemory("profile", "Lives in Bruges.", "2025-01-02"), KnownMemory("profile", "用户住在青岛。"))


def check_change(statement: str, **fields: Any) -> str:  # noqa: ANN401 -- any JSON value
    """Return why the change is refused; empty where it is believed."""
    change = {"action": "add", "category": "events", "evidence": ["m1"], "memory": None, "date": None}
    prompt = ChangePrompt(TALK, KNOWN)
    kept, refused = check_changes(
        prompt, prompt.read_answer({"changes": [{**change, "statement": statement, **fields}]}) or []
    )
    assert len(kept) + len(refused) == 1
    return refused[0].reason if refused else ""


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("The user has three flats in Ghent.", "number_not_said"),
        ("The user pays 25 euros in Ghent.", "number_not_said"),
        ("The user pays 1250 euros in Ghent.", ""),
        ("The flat in Ghent has twelve windows, one of them round.", ""),
        ("The mail of Ghent goes to ann@a.example.", "url_not_said"),
    ],
)
def test_spelt_numbers_and_mail_addresses_must_be_said(statement: str, reason: str) -> None:
    assert check_change(statement, evidence=["m1", "m2"]) == reason


@pytest.mark.parametrize(
    ("statement", "fields"),
    [
        ("The user pays 1250 euros.", {}),
        ("The user's flat has 12 windows.", {"evidence": ["m2"]}),
        ("用户家里有23盆花。", {"evidence": ["m3"]}),
        ("The user lives in Ghent.", {"category": "profile", "action": "replace", "memory": "k1"}),
        ("Ghent is where the mail of https://a.example/x goes.", {}),
    ],
)
def test_a_paraphrase_of_the_conversation_is_accepted(statement: str, fields: dict[str, Any]) -> None:
    assert check_change(statement, **fields) == ""


@pytest.mark.parametrize(
    ("statement", "fields", "reason"),
    [
        ("The user pays 1350 euros.", {}, "number_not_said"),
        (f"The user pays {'9' * 30} euros.", {}, "number_not_said"),
        ("The user moved to Antwerp.", {}, "name_not_said"),
        ("The user's mail is at https://b.example/x.", {}, "url_not_said"),
        ("The user moved to Ghent.", {"date": "1999-07-09"}, "date_not_said"),
        ("The flat has twelve windows.", {"category": "profile", "evidence": ["m2"]}, "not_the_users_words"),
        ("Penguins are birds.", {}, "not_in_evidence"),
        # It gives another fact than where the user lives, or none.
        ("The user pays 1250 euros.", {"action": "replace", "memory": "k1"}, "other_subject"),
        ("The user works at Ghent.", {"action": "update", "memory": "k1"}, "other_subject"),
        ("用户家里有23盆花。", {"action": "replace", "memory": "k2", "evidence": ["m3"]}, "other_subject"),
        ("The user moved.", {"evidence": ["m9"]}, "unknown_evidence"),
        ("The user moved.", {"action": "replace", "memory": "k7"}, "unknown_memory"),
        ("The user moved.", {"category": "secrets"}, "other_schema"),
        (" ", {}, "empty"),
    ],
)
def test_an_unsupported_change_is_refused_with_a_reason(statement: str, fields: dict[str, Any], reason: str) -> None:
    assert check_change(statement, **fields) == reason


SHOP = (
    Message(
        "user", "prices incl. vat. re-check is on 17 september, my mother bríd comes along", "", "m-1", "2026-05-19"
    ),
    Message("assistant", "URL-encoding fails. Open Tue–Sun.", "", "m-2", "2026-05-19"),
)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("Prices are VAT-inclusive.", ""),
        ("Prices are Galaxy-inclusive.", "name_not_said"),
        ("Encoding a URL fails.", ""),
        ("The shop is open from Tuesday to Sunday.", ""),
        ("Open on Saturdays.", "name_not_said"),
        ("The re-check is on Thursday, Sep 17, 2026.", ""),
        ("The re-check is on Monday, 17 September 2026.", "name_not_said"),
        ("The re-check is with the user's mother Brid.", ""),
        ("The re-check is with the user's mother Birgit.", "name_not_said"),
    ],
)
def test_other_spellings_of_names_and_days_are_known(statement: str, reason: str) -> None:
    prompt = ChangePrompt(SHOP)
    change = {"action": "add", "category": "events", "statement": statement, "evidence": ["m1", "m2"], "memory": None}
    kept, refused = check_changes(prompt, prompt.read_answer({"changes": [{**change, "date": None}]}) or [])

    assert [change.reason for change in refused] == ([reason] if reason else [])
    assert len(kept) == (not reason)


@pytest.mark.parametrize(
    ("said", "statement", "day"),
    [
        ("the dentist is next Monday at nine", "The dentist is on 11 May 2026 at 9:00.", "2026-05-11"),
        ("I'm off to Kyoto in two weeks", "The user travels to Kyoto around 18 May 2026.", "2026-05-18"),
        ("the wedding is on the seventh of March", "The wedding is on 7 March 2027.", "2027-03-07"),
        ("rent is due at the end of the month", "The rent is due on 31 May 2026.", "2026-05-31"),
        ("the movers come on the 2nd", "The movers come on Tuesday, 2 June 2026.", "2026-06-02"),
        ("the movers come on the 2nd", "The movers come on Friday, 2 June 2026.", "name_not_said"),
        ("the dentist is next Monday", "The dentist is on 14 May 2026.", "number_not_said"),
        ("dentist tmrw 2pm", "The dentist is on 5 May 2026 at 14:00.", "2026-05-05"),
        ("the dentist is next Monday", "The dentist is then.", "2026-05-14 date_not_said"),
        ("rent is due at the end of the month", "Rent is due on 15 July 2026.", "number_not_said"),
        ("the party starts at half past six", "The party starts at 18:30.", ""),
        ("the train leaves at a quarter to seven", "The train leaves at 6:45.", ""),
        ("the party starts at half past six", "The party starts at 17:45.", "number_not_said"),
        ("the salary went up to thirty-five thousand", "The salary is 35,000.", ""),
        ("we sold two hundred and fifty tickets", "250 tickets were sold.", ""),
        ("we sold two hundred and fifty tickets", "350 tickets were sold.", "number_not_said"),
        ("the loan is 85k", "The loan is 85000.", ""),
        ("i'm in NYC since last year", "The user lives in New York City.", ""),
        ("grew up in new york city", "The user grew up in NYC.", ""),
        ("grew up in new york city", "The user grew up in NYU.", "name_not_said"),
        ("房租月底交", "房租5月31日交。", "2026-05-31"),
        ("下周一去看牙，上午九点半", "5月11日上午9:30看牙。", "2026-05-11"),
        ("两周后去京都", "用户5月18日左右去京都。", "2026-05-18"),
        ("工资涨到三万五了", "工资涨到35000元。", ""),
        ("工资涨到三万五了", "工资涨到3.5万元。", ""),
        ("工资涨到三万五了", "工资涨到53000元。", "number_not_said"),
        ("首付一百五十万", "首付150万。", ""),
    ],
)
def test_days_and_numbers_in_other_words_are_known(said: str, statement: str, day: str) -> None:
    prompt = ChangePrompt((Message("user", said, "", "m-1", "2026-05-04T09:00:00Z"),))
    named, _, reason = day.partition(" ") if day[:1] == "2" else ("", "", day)
    change = {"action": "add", "category": "events", "statement": statement, "evidence": ["m1"], "memory": None}
    _, refused = check_changes(prompt, prompt.read_answer({"changes": [{**change, "date": named or None}]}) or [])

    assert [change.reason for change in refused] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("said", "memory", "reason"),
    [
        ("forget the old address, please", "Has a cat called Pixel.", "not_in_evidence"),
        ("forget the old address, please", "The user's address is 12 Mill Lane.", ""),
        ("please forget my name", "The user is allergic to penicillin.", "not_in_evidence"),
        ("please forget everything about me", "The user is allergic to penicillin.", ""),
        ("forget where I live", "The user's home is Riga.", ""),
        ("忘了我住哪里", "用户住在青岛。", ""),
        ("forget that", "The user likes jazz.", ""),
        ("forget that", "The user lives in Rome.", "not_in_evidence"),
        ("> please forget everything about me\nwhat does that mean?", "The user lives in Rome.", "not_in_evidence"),
        ("I ran along the river this morning", "The user runs along the river with Tom.", "not_ended"),
        ("my sister Ana did not come for dinner", "The user's sister Ana lives in Cork.", "not_ended"),
        ("if I sold the caravan, what would I get?", "The user has a caravan.", "not_ended"),
        ("we sold the caravan in May", "The user has a caravan.", ""),
        ("I had the caravan until May. Sold it.", "The user has a caravan.", ""),
        ("it's not true that I live in Rome", "The user lives in Rome.", ""),
        ("not any more", "The user likes jazz.", ""),
        ("把我的旧地址忘掉吧", "用户有一只叫皮皮的猫。", "not_in_evidence"),
        ("把我的旧地址忘掉吧", "用户的地址是延安路。", ""),
        ("把关于我的一切都忘掉", "用户对青霉素过敏。", ""),
        ("健身房新装了空调", "用户办了健身房的卡。", "not_ended"),
        ("我不再去健身房", "用户办了健身房的卡。", ""),
        ("去三亚的行程取消了", "用户六月去三亚旅行。", ""),
    ],
)
def test_a_memory_is_forgotten_if_users_ask_for_it_or_say_that_it_ended(said: str, memory: str, reason: str) -> None:
    messages = (Message("assistant", "Do you still like jazz?"), Message("user", said))
    prompt = ChangePrompt(messages, [KnownMemory("entities", memory)])
    change = {"action": "forget", "category": "entities", "statement": memory, "memory": "k1", "date": None}
    _, refused = check_changes(prompt, prompt.read_answer({"changes": [{**change, "evidence": ["m2"]}]}) or [])

    assert [change.reason for change in refused] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("said", "statement", "is_known"),
    [
        ("I take 3 pills a day", "The user takes 3 pills a week.", False),
        ("I take 3 pills a day for 2 weeks", "The user takes 3 pills daily.", True),
        ("I take 3 pills a day, three", "The user takes 3 pills a week.", True),
        ("I work 4 days a week, 8 hours a day", "The user works 8 hours a day.", True),
        ("I work 4 days a week, 8 hours a day", "The user works 4 hours a week.", False),
        ("the rent is 900 euros", "The rent is €900.", True),
        ("the rent is 900 euros", "The rent is $900.", False),
        ("the rent is 1,900 euros", "The rent is 1900 dollars.", False),
        ("the rent is 900", "The rent is 900 euros a month.", True),
        ("the parcel weighs 12 pounds", "The parcel weighs 12 lb.", True),
        ("the parcel weighs 12 pounds", "The parcel weighs 12 kg.", False),
        ("the discount is 20%", "The discount is 20 euros.", False),
        ("我每天吃3片药", "用户一天吃3片药。", True),
        ("我每天吃3片药", "用户每周吃3片药。", False),
        ("路上要5个小时", "路上要5小时。", True),
        ("路上要5个小时", "路上要5天。", False),
        ("体重70公斤", "体重70斤。", False),
    ],
)
def test_a_number_keeps_its_unit(said: str, statement: str, is_known: bool) -> None:
    prompt = ChangePrompt([Message("user", said)])
    change = {"action": "add", "category": "entities", "statement": statement, "evidence": ["m1"], "memory": None}
    _, refused = check_changes(prompt, prompt.read_answer({"changes": [{**change, "date": None}]}) or [])

    assert [change.reason for change in refused] == ([] if is_known else ["number_not_said"])


@pytest.mark.parametrize(
    ("speaker", "said", "statement", "category", "is_named"),
    [
        ("Ana Boris", "I live in Split", "Ana Boris lives in Split.", "profile", True),
        ("Ana Boris", "I live in Split", "Ana lives in Split.", "profile", True),
        ("Ana Boris", "I live in Split", "Boris lives in Split, not Ana.", "profile", False),
        ("Boris", "I live in Split", "Ana Boris lives in Split.", "profile", False),
        ("Boris", "I live in Split", "Ana and Boris live in Split.", "profile", True),
        ("Boris", "my brother is a baker", "The user's brother is a baker.", "entities", False),
        ("Boris", "my brother is a baker", "Boris's brother is a baker.", "entities", True),
        ("Boris", "my phone does not charge", "The user's phone does not charge.", "cases", False),
        ("Boris", "I broke my arm", "Broke an arm.", "events", False),
        ("Boris", "the printer is on the third floor", "The printer is on the third floor.", "entities", True),
        ("小王", "我养了一只猫", "用户养了一只猫。", "entities", False),
        ("小王", "我养了一只猫", "养了一只猫。", "entities", False),
        ("小王", "我养了一只猫", "小王养了一只猫。", "entities", True),
        ("小王", "打印机在三楼", "打印机在三楼。", "entities", True),
    ],
)
def test_what_one_of_several_users_says_of_themselves_has_them_as_its_subject(
    speaker: str, said: str, statement: str, category: str, is_named: bool
) -> None:
    others = [Message("user", "hello", name) for name in ("Ana Boris", "Boris", "小王") if name != speaker]
    prompt = ChangePrompt([Message("user", said, speaker), *others])
    change = {"action": "add", "category": category, "statement": statement, "evidence": ["m1"], "memory": None}
    _, refused = check_changes(prompt, prompt.read_answer({"changes": [{**change, "date": None}]}) or [])

    assert [change.reason for change in refused] == ([] if is_named else ["speaker_not_named"])


@pytest.mark.parametrize(
    "unit", ["7", "五个", "half past ", "3 a day ", "two hundred and ", "Ab ", "一", "百", "1,234,", "< ", "'"]
)
def test_long_digit_runs_are_checked_in_linear_time(unit: str) -> None:
    prompt = ChangePrompt((Message("user", f"I moved to Ghent. {unit * 6_000}", "", "m-1", None),))
    change = {
        "action": "add",
        "category": "events",
        "statement": "The user moved to Ghent with 42 boxes.",
        "evidence": ["m1"],
        "memory": None,
        "date": None,
    }

    assert check_changes(prompt, prompt.read_answer({"changes": [change]}) or []) == (
        [],
        [RefusedChange(0, "number_not_said")],
    )


def test_the_prompt_names_each_day_once_before_what_was_said_on_it() -> None:
    known = [KnownMemory("profile", text, day) for text, day in (("a", ""), ("b", "2026-03-02"), ("c", "2026-03-02"))]

    (_, question) = (
        ChangePrompt((Message("user", "hi", "", "m-1", "2026-03-03T09:00:00Z"),), known).make_request().messages
    )

    shown = [line for line in question["content"].splitlines() if line[:1] in {"[", "O"}]
    assert shown == [
        "[k1] (profile) a",
        "On Monday, 2026-03-02:",
        "[k2] (profile) b",
        "[k3] (profile) c",
        "On Tuesday, 2026-03-03:",
        "[m1] user: hi",
    ]


HARP = "I practise the harp every morning."


@pytest.mark.parametrize(
    ("before", "new", "reason"),
    [
        # One message is new, and it is about something else.
        ("Nice.", "What is the weather like?", "said_before"),
        ("Do you still practise the harp?", "Thanks, bye.", "said_before"),
        ("Do you still practise the harp?", "Please write to Bob.", "said_before"),
        ("Shall I book the table?", "Yes.", "said_before"),
        ("Do you still practise the harp?", "Yes, since I was a child.", ""),
        ("Do you still practise the harp?", "I do!", ""),
        ("Nice.", "My harp lesson is at nine.", ""),
    ],
)
def test_of_a_statement_with_old_evidence_a_new_message_says_or_confirms_something(
    before: str, new: str, reason: str
) -> None:
    talk = (HARP, before, new)
    messages = [Message(("user", "assistant")[at % 2], text, "", f"m-{at}", None) for at, text in enumerate(talk)]
    prompt = ChangePrompt(messages, first_new=2)
    change = {"action": "add", "category": "preferences", "memory": None, "date": None}
    answer = {**change, "statement": "The user practises the harp.", "evidence": ["m1", "m3"]}

    _, refused = check_changes(prompt, prompt.read_answer({"changes": [answer]}) or [])

    assert [item.reason for item in refused] == ([reason] if reason else [])


def test_what_an_assistant_repeats_of_old_messages_is_not_said_anew_by_the_user() -> None:
    said = [("user", HARP), ("user", "What is the weather like?"), ("assistant", "Sunny: practise the harp outside.")]
    prompt = ChangePrompt(
        [Message(role, text, "", f"m-{at}", None) for at, (role, text) in enumerate(said)], first_new=1
    )
    change = {"action": "add", "category": "preferences", "memory": None, "date": None}
    answer = {**change, "statement": "The user practises the harp.", "evidence": ["m1", "m2", "m3"]}

    _, refused = check_changes(prompt, prompt.read_answer({"changes": [answer]}) or [])

    assert [item.reason for item in refused] == ["said_before"]
