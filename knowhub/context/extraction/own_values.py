"""What a person says of themselves of which they have but one: name, home, job; each with the words that say it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# Where one clause about the speaker ends and the next begins.
_BETWEEN: Final = re.compile(
    r"\s*(?:[,;]\s*)?\band (?=i\b|i'm|my\b|live\b|work\b|moved\b)|[，；;,]\s*",
    re.IGNORECASE,
)
_END: Final = (
    r"(?=\s+(?:and|but|in|at|for|on|with|from|since|because|now|last|this|a|two|three|after|when|where|near)\b"
    r"|[.,;!?，。；！？\n]|$)"
)
_SUBJECT: Final = r"(?:^|\bi (?:now |currently |just |recently |already )*|\bi(?:'m| am) (?:now |currently )*)"
_FORMS: Final = (
    ("name", re.compile(rf"\bmy (?:full )?name(?:'s| is) (?:now )?(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("name", re.compile(r"(?:^|[，,。；;\s])我(?:的名字)?(?:现在|就)*叫(?P<value>[^，,。；;！!\n什么]{1,12})")),
    ("name", re.compile(r"我的名字(?:现在|就)*[是叫](?P<value>[^，,。；;！!\n什么]{1,12})")),
    (
        "home",
        re.compile(
            rf"{_SUBJECT}(?:live|living|based) in (?!an? |my |the )(?P<value>[^,;!\n]+?){_END}",
            re.IGNORECASE,
        ),
    ),
    ("home", re.compile(r"(?:^|我)(?:现在|目前|就|一直|还)*住在(?P<value>[^，,。；;！!？?\n什哪]{1,12})")),
    ("job", re.compile(rf"{_SUBJECT}work as (?:an? |the )?(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("job", re.compile(r"(?:^|我)(?:现在|目前)*(?:是|当了?)一[名位](?P<value>[^，,。；;！!？?\n的]{2,10})")),
)
# What somebody says is not so, or not any more.
_NO_LONGER: Final = r"(?:no longer|don't|do not|dont) (?:currently |actually |really )?"
_NO_LONGER_ZH: Final = r"(?:^|我)(?:已经|早就|现在|目前|其实|并)*不(?:再)?"
_ENDED: Final = (
    ("name", re.compile(rf"\bmy (?:full )?name(?:'s| is) not (?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("name", re.compile(rf"{_NO_LONGER_ZH}叫(?P<value>[^，,。；;！!？?\n什么]{{1,12}})")),
    ("home", re.compile(rf"\bi {_NO_LONGER}live in (?!an? |my |the )(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    (
        "home",
        re.compile(
            r"\bi(?:'m| am) (?:no longer|not) (?:living|based) in (?!an? |my |the )"
            rf"(?P<value>[^,;!\n]+?){_END}",
            re.IGNORECASE,
        ),
    ),
    ("home", re.compile(rf"{_NO_LONGER_ZH}住在(?P<value>[^，,。；;！!？?\n什哪]{{1,12}})")),
    ("job", re.compile(rf"\bi {_NO_LONGER}work as (?:an? |the )?(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("job", re.compile(rf"{_NO_LONGER_ZH}是(?:一[名位]|个)?(?P<value>[^，,。；;！!？?\n的]{{2,10}})")),
)
_ANY_MORE: Final = re.compile(r"(?:\s*(?:anymore|any more|any longer|at all))+$", re.IGNORECASE)
# One moves to a tool and a version as well: a place is a word or two, each with a capital, and none of those.
_MOVED: Final = re.compile(
    r"\b[Ii](?:'ve| have)? (?:just |recently |finally |now )*(?:moved|relocated) (?:back )?to "
    rf"(?P<value>[A-ZÀ-Þ][^\W\d_]+(?:[ -][A-ZÀ-Þ][^\W\d_]+){{0,2}}){_END}(?!\s+(?:and|for|with) (?:it|our|my)\b)"
)
_MOVED_ZH: Final = re.compile(
    r"(?:^|我)(?:已经|刚刚?|上周|上个?月|去年|今年|最近|现在|前几天|昨天|\d{1,2}月\d{1,2}[日号])*"
    r"(?:从[^，,。；;！!？?\n搬]{1,8})?搬(?:到|去|来|回)了?"
    r"(?P<value>[^，,。；;！!？?\n一新个的]{2,8})"
)
_NO_PLACE: Final = re.compile(
    r"(?:vim|neovim|emacs|vs|vscode|visual|jetbrains|intellij|python|typescript|javascript|rust|go|golang|java|kotlin"
    r"|swift|ruby|php|kubernetes|docker|podman|linux|mac|macos|windows|ubuntu|debian|fedora|arch|postgres\w*|mysql"
    r"|sqlite|mongo\w*|redis|git\w*|bitbucket|aws|azure|gcp|google|amazon|react|vue|svelte|angular|next|node|deno|bun"
    r"|slack|teams|notion|obsidian|jira|linear|chrome|firefox|safari|zsh|fish|bash|terraform|ansible|jenkins|claude"
    r"|openai|gpt|chatgpt|cloud\w*|plan|phase|step|version|team|sales|engineering|marketing|product|management|monday"
    r"|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
    r"|.*(?:服务器|集群|容器|云|仓库|目录|分支|线上|项目|团队|部门|公司|工位|楼|房|框架|平台|系统|数据|屋|家)",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(r"(?:\s*(?:now|currently|these days|了|吧|啦|呢))+$")


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a statement, and what it says of which there is but one."""

    text: str
    values: frozenset[tuple[str, str]]


def clauses(statement: str) -> list[Clause]:
    """Return a statement in as many parts as it gives values of different kinds; at least one, the whole of it."""
    starts = [0, *(match.end() for match in _BETWEEN.finditer(statement))]
    ends = [*(match.start() for match in _BETWEEN.finditer(statement)), len(statement)]
    parted: list[tuple[int, int, frozenset[tuple[str, str]]]] = []
    for start, end in zip(starts, ends, strict=True):
        told = values(statement[start:end])
        kinds = {kind for kind, _ in told}
        before = {kind for kind, _ in parted[-1][2]} if parted else set()
        if parted and (kinds <= before or not before):
            # It goes on about the same, or is the first to say anything.
            parted[-1] = (parted[-1][0], end, parted[-1][2] | told)
        else:
            parted.append((start, end, told))
    if len(parted) == 1:
        return [Clause(statement, parted[0][2])]
    return [Clause(statement[start:end].strip(), told) for start, end, told in parted]


def values(text: str) -> frozenset[tuple[str, str]]:
    """Return what a text says of which there is but one: (name, li), (home, berlin)."""
    said = [(kind, match["value"]) for kind, form in _FORMS for match in form.finditer(text)]
    said += [("home", place) for place in _moves(text)]
    return frozenset((kind, value) for kind, one in said if (value := _plain(one)))


def ended(text: str) -> frozenset[tuple[str, str]]:
    """Return what a text says is not so, or not any more: (home, berlin)."""
    said = ((kind, _ANY_MORE.sub("", match["value"])) for kind, form in _ENDED for match in form.finditer(text))
    return frozenset((kind, value) for kind, one in said if (value := _plain(one)))


def moved_to(statement: str) -> bool:
    """Tell whether somebody says that they have moved, and where."""
    return any(True for _ in _moves(statement))


def _plain(value: str) -> str:
    return _TRAILING.sub("", value.strip(" .。")).casefold().strip()


def _moves(text: str) -> Iterable[str]:
    places = (match["value"] for form in (_MOVED, _MOVED_ZH) for match in form.finditer(text))
    return (place for place in places if not _NO_PLACE.match(place))
