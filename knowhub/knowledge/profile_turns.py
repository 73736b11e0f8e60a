"""What turns a statement into another one though its words are the same: its sides, its order, the values it gives."""

import re
from collections.abc import Callable
from typing import Final

# Of each of these a statement has one side: before or after, more or fewer, mornings or evenings.
_SIDES: Final = (
    ("order:before", r"\bbefore\b|之前|(?<=[交线布并试码改])前(?!端)"),
    ("order:after", r"\bafter\b|之后|(?<=[交线布并试码改])后(?!端)"),
    ("amount:more", r"\bmore\b(?! than)|更多|多一?些|多一?点"),
    ("amount:less", r"\b(?:fewer|less)\b(?! than)|更少|少一?些|少一?点"),
    ("day:morning", r"\bmornings?\b|早上|早晨|上午"),
    ("day:afternoon", r"\bafternoons?\b|下午"),
    ("day:evening", r"\bevenings?\b|晚上|傍晚"),
    ("day:night", r"\bnights?\b|夜里|深夜|半夜"),
)
_ANY_SIDE: Final = re.compile("|".join(f"({form})" for _, form in _SIDES))
# What stands in front of these is not what stands behind them.
_BETWEEN: Final = re.compile(
    r"\b(?:first|then|before|after|must|shall)\b|然后|(?<!不)再(?!也|次)|之前|之后|必须|(?<=[交线布并试])[前后](?!端)"
)
_ATTRIBUTES: Final = (
    r"(?:full )?name|time ?zone|native language|first language|mother tongue|e-?mail(?: address)?|job(?: title)?|role"
    r"|title|birthday|company|employer|laptop|os|operating system|shell|locale|editor|ide|location|city|hometown|major"
    r"|profession|username|handle|pronouns|age|favou?rite [a-z]+(?: [a-z]+)?"
)
# What a person has but one of, and its value: who says it anew has changed it.
_SLOTS: Final = re.compile(
    rf"\bmy (?P<attribute>{_ATTRIBUTES})(?:'s| is| are) (?:now |currently )?(?P<attributed>[^,;!\n]+)"
    r"|\bi (?:now |currently )?(?P<work>work) as (?:an? |the )?"
    r"(?P<worked>[^,;!\n]+?)(?= (?:in|at|for|on|with)\b|[.,;!\n]|$)"
    r"|\bi(?:'m| am)? (?:now |currently )?(?P<home>live|living|based) in (?!an? |my |the )(?P<lived>[^,;!\n]+)"
    r"|\bcall me (?P<called>[^,;!\n]+)"
    r"|我的(?P<attribute_zh>名字|时区|母语|邮箱|生日|公司|职业|专业|职位|职务|操作系统|电脑|编辑器|城市|家乡|岗位)"
    r"(?:现在|就)*(?:是|叫|在)(?P<attributed_zh>[^，,。；;！!\n]+)"
    r"|(?<!叫)我(?:的名字)?叫(?!我)(?P<named_zh>[^，,。；;！!\n]+)|叫我(?P<called_zh>[^，,。；;！!\n]+)"
    r"|我(?:现在|目前)*(?:住在|搬到了?)(?P<lived_zh>[^，,。；;！!\n]+)"
)
_SLOT_NAMES: Final = {
    "worked": "work",
    "lived": "home",
    "lived_zh": "home",
    "called": "called",
    "called_zh": "called",
    "named_zh": "名字",
}
_NOT_VALUE: Final = re.compile(r"(?:\b(?:now|currently|any ?more|these days|not|no longer)\b|现在|了|吧|[\s.。])+")


def sides(said: str) -> tuple[frozenset[str], str]:
    """Return the sides that a text in lower case names, and the text without them."""
    found: set[str] = set()

    def noted(match: re.Match[str]) -> str:
        found.add(_SIDES[(match.lastindex or 1) - 1][0])
        return " "

    rest = _ANY_SIDE.sub(noted, said)
    return frozenset(found), rest


def halves(said: str, words: Callable[[str], frozenset[str]]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the words in front of and behind what puts a text in order (then, before, must); None where nothing does.

    The first such word counts that has others on both sides.
    """
    for match in _BETWEEN.finditer(said):
        front, back = words(said[: match.start()]), words(said[match.end() :])
        if front and back:
            return front, back - front
    return None


def values(said: str) -> frozenset[tuple[str, str]]:
    """Return what a text in lower case says of which there is but one: (name, ana costa), (home, berlin)."""
    found: set[tuple[str, str]] = set()
    for match in _SLOTS.finditer(said):
        named = {name: value for name, value in match.groupdict().items() if value}
        slot = named.pop("attribute", "") or named.pop("attribute_zh", "")
        named.pop("work", None)
        named.pop("home", None)
        name, value = next(iter(named.items()))
        plain = _NOT_VALUE.sub(" ", value).strip()
        if plain:
            found.add((slot or _SLOT_NAMES[name], plain))
    return frozenset(found)


def differ_in_value(new: frozenset[tuple[str, str]], old: frozenset[tuple[str, str]]) -> bool:
    """Tell whether two texts name different values for one thing; a fuller value is the same."""
    earlier = dict(old)
    return any(slot in earlier and not (earlier[slot] in value or value in earlier[slot]) for slot, value in new)


def differ_in_side(new: frozenset[str], old: frozenset[str], *, of_order: bool) -> bool:
    """Tell whether two texts take different sides in what both take one; before and after are a matter of their own."""
    for kind in {one.partition(":")[0] for one in new} & {one.partition(":")[0] for one in old}:
        if (kind == "order") is of_order:
            ours, theirs = ({one for one in found if one.startswith(f"{kind}:")} for found in (new, old))
            if ours.isdisjoint(theirs):
                return True
    return False
