"""What the rules hear and leave alone, beyond the corpus: looks, scripts, words of others, plain statements."""

import pytest

from knowhub.conversations.messages import Message
from knowhub.knowledge.extract.model import Trigger
from knowhub.knowledge.extract.rules import by_rules
from knowhub.search.analysis import simplify

ANSWER = Message("assistant", "The service listens on port 80, as the documentation says.")


def heard(text: str, *before: Message) -> list[tuple[str, str]]:
    found = by_rules([*before, Message("user", text)], Trigger.USER_EXPRESSION, simplify)
    return [
        (one.category.value, one.content.partition("：" if "用户说：" in one.content else ": ")[2]) for one in found
    ]


@pytest.mark.parametrize(
    "text",
    [
        "I didn’t say I always use vim.",
        "I didn\u02bct say I always use vim.",
        "It’s not that I prefer tabs.",
        "He told me „please always use tabs“.",
        "He said: ”I always use vim”",
        "My boss\u00a0always\u00a0says I prefer tabs.",
        "I don’t\u200b have to always use tabs, and I never said I prefer tabs.",
    ],
)
def test_a_denial_counts_whatever_its_apostrophes_and_spaces_look_like(text: str) -> None:
    assert heard(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I\u00a0prefer tabs over spaces.",
        "Ｉ　ｐｒｅｆｅｒ　ｔａｂｓ.",
        "I pre\u200bfer tabs over spaces.",
        "我喜\u200b欢简短的回答。",
        "I’d prefer tabs over spaces.",
    ],
)
def test_what_is_stored_is_word_for_word_what_was_said_however_it_looks(text: str) -> None:
    assert heard(text) == [("preference", text)]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("我喜歡簡短的回答。", "preference"),
        ("以後請用繁體中文回答。", "preference"),
        ("我們一律用 TypeScript。", "preference"),
        ("我討厭冗長的解釋。", "preference"),
        ("項目必須在三月前上線。", "constraint"),
        ("預算不能超過 5000 元。", "constraint"),
        ("請不要使用表情符號。", "preference"),
        ("請把這段話翻譯成英文：我喜歡貓。", None),
    ],
)
def test_traditional_characters_are_understood_as_simplified_ones(text: str, category: str | None) -> None:
    assert heard(text) == ([(category, text)] if category else [])


@pytest.mark.parametrize(
    "text",
    [
        "Alice: I prefer tabs\nBob: I prefer spaces",
        "Alice: I prefer tabs\nand I always use vim",
        "小明：我喜欢猫\n小红：我喜欢狗",
        "小明：我喜欢猫",
        "Assistant: I always use vim.\nUser: no, I always use nano.",
        "From: boss@corp.com\nSubject: rule\n\nPlease always CC me.",
        "Dear team,\nI always work from home on Fridays.\nBest, Karen",
        "Hi all,\nI always work from home on Fridays.\n\nBest regards,\nKaren",
        "Here is an email I got:\nDear Bob, I live in Berlin and I am a nurse.",
        "这是客户的邮件：\n我住在上海，我喜欢红色。",
        "请帮我回复这封邮件：\n我住在上海，我对花生过敏。",
        "Roleplay: I am a doctor from Mars.",
        "你扮演医生，我是一名病人。",
        "my character in the story says: I always drink blood",
        "Act as a pirate who says I always drink rum",
        "I don't think I prefer tabs.",
        "I wouldn't say I prefer tabs.",
        "I doubt that I prefer tabs.",
        "I thought I prefer tabs.",
        "Nobody says I prefer tabs",
        "我不认为我喜欢猫。",
        "我以为我喜欢猫。",
        "难道我喜欢猫",
        "小说里写道：我喜欢下雨。",
        "张三说，我喜欢猫",
        "I'd rather not say.",
        "I prefer not to say.",
    ],
)
def test_the_words_of_others_and_what_is_denied_are_nobodys_profile(text: str) -> None:
    assert heard(text) == []


@pytest.mark.parametrize(
    ("text", "category", "stored"),
    [
        ("Note: I prefer tabs.", "preference", "Note: I prefer tabs."),
        ("Backend: we always use Go for services.", "habit", "Backend: we always use Go for services."),
        ("Python: I always use ruff.", "habit", "Python: I always use ruff."),
        ("规则：不要用表情符号。", "preference", "规则：不要用表情符号。"),
        ("Me: I prefer tabs.", "preference", "Me: I prefer tabs."),
        ("Hi Claude,\nI prefer tabs over spaces.", "preference", "I prefer tabs over spaces."),
        ("Here is my profile: I am a nurse in Porto.", "background", "Here is my profile: I am a nurse in Porto."),
        ("When you reply to my messages: always use Chinese.", "preference", None),
        ("一般来说，我喜欢简短的回答。", "preference", "一般来说，我喜欢简短的回答。"),
        ("补充：我喜欢简短的回答。", "preference", "补充：我喜欢简短的回答。"),
        ("我说过，我喜欢简短的回答。", "preference", "我说过，我喜欢简短的回答。"),
        ("**I prefer tabs.**", "preference", "I prefer tabs."),
        ("* I prefer tabs.", "preference", "I prefer tabs."),
        ("***I prefer tabs.*** And *that* is it.", "preference", "I prefer tabs."),
    ],
)
def test_a_heading_a_greeting_and_emphasis_are_no_other_speaker(text: str, category: str, stored: str | None) -> None:
    assert heard(text) == [(category, stored or text)]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("I'd like you to answer in French from now on.", "preference"),
        ("以后能用中文回答吗？", "preference"),
        ("回答我时请用中文。", "preference"),
        ("Don't use emojis.", "preference"),
        ("不要用表情符号。", "preference"),
        ("I no longer prefer tabs.", "preference"),
        ("我是素食主义者。", "background"),
        ("I'm not vegetarian.", "background"),
        ("I'm no longer vegetarian.", "background"),
        ("I am not allergic to peanuts.", "background"),
        ("我不吃素。", "background"),
        ("We deploy only on Tuesdays.", "habit"),
        ("We can't spend more than $500.", "constraint"),
    ],
)
def test_a_plain_statement_is_heard(text: str, category: str) -> None:
    assert heard(text) == [(category, text)]


@pytest.mark.parametrize("text", ["以后能用这个接口吗？", "Don't use emojis here.", "Please don't use that file."])
def test_a_question_and_an_order_for_now_are_not(text: str) -> None:
    assert heard(text) == []


def test_a_term_may_stand_apart_from_what_it_means() -> None:
    found = by_rules([Message("user", "MVP 指的是最小可行产品。")], Trigger.USER_EXPRESSION)

    assert [one.category.value for one in found] == ["definition"]


@pytest.mark.parametrize(
    "text", ["不，端口是 8080。", "你搞错了，端口是 8080。", "Actually, it's 8080.", "No, the port is 8080."]
)
def test_a_value_in_the_place_of_a_wrong_one_is_a_correction(text: str) -> None:
    assert heard(text, ANSWER) == [("correction", text)]


@pytest.mark.parametrize(
    "text",
    [
        "Task completed: the site is deployed at 8081 because 8080 was taken by nginx.",
        "**Task completed**: the site is deployed at 8081 because 8080 was taken by nginx.",
        "## Outcome\nThe site is deployed at 8081 because 8080 was taken by nginx.",
        "## 结论\n网站部署在 8081，因为 8080 已经被 nginx 占用，需要改端口。",
    ],
)
def test_an_end_is_found_under_emphasis_and_below_a_heading(text: str) -> None:
    found = by_rules([Message("user", "Deploy the site."), Message("assistant", text)], Trigger.TASK_COMPLETION)

    assert [one.category.value for one in found] == ["outcome"]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ('I prefer "double quotes" in Python.', "preference"),
        ("I prefer “double quotes”.", "preference"),
        ("I prefer 'single quotes' over \"double quotes\".", "preference"),
        ('I no longer use "yarn".', "preference"),
        ('I hate "clever" code.', "preference"),
        ('Call me "Bo".', "preference"),
        ('He said "I prefer tabs".', None),
        ('Is it right to say "I prefer tabs"?', None),
        ('Translate: I prefer "tabs".', None),
        ('I like "never put off until tomorrow what you can do today".', None),
        ('I would like "X" now.', None),
    ],
)
def test_what_is_wished_for_may_stand_in_quotation_marks(text: str, category: str | None) -> None:
    assert heard(text) == ([] if category is None else [(category, text)])


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        *((one, "success") for one in ("很好，就是我想要的", "不错！", "挺好的", "答得真好", "赞", "👍", "Great job")),
        *((one, "success") for one in ("It worked, thanks!", "Thanks, that is exactly what I needed.", "perfect")),
        *(
            (one, "failure")
            for one in ("这样不行，日期格式错了", "不是我要的", "这不太管用", "没有成功", "太差了", "👎")
        ),
        *((one, "failure") for one in ("This is wrong.", "it still fails", "nothing works", "not what I asked for")),
        *(
            (one, None)
            for one in ("好的", "谢谢", "好，接下来删除旧文件", "这不完美吗？", "如果成功了告诉我", "没那么好用")
        ),
        *(
            (one, None)
            for one in ("我说错了，是 CSV 转 XML", "不行就换一个方案吧", "it is not perfect", "If it works, stop")
        ),
        *((one, None) for one in ("My wife works as a nurse", "Could you make it perfect", "Show me how it works")),
    ],
)
def test_a_verdict_is_told_from_what_only_sounds_like_one(said: str, outcome: str | None) -> None:
    asked = Message("user", "写个脚本把 CSV 转成 JSON")
    answer = Message("assistant", "脚本读取 CSV 的每一行，转成 JSON 对象，写入 out.json 文件，日期统一为 ISO 格式。")

    found = by_rules([asked, answer, Message("user", said)], Trigger.USER_FEEDBACK)

    assert [one.tags["outcome"] for one in found if one.category == "outcome"] == ([] if outcome is None else [outcome])
