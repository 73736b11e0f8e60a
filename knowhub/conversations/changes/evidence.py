"""Whether the clauses that a statement rests on say it, or deny it, suppose it, quote it, or tell it of somebody else.

The checks know closed classes of words only: negations, conditions, relatives and pronouns. Where a statement or its
evidence says anything else that may turn it round, the model is believed.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from knowhub.conversations.changes.flaws import ENDED, NEGATIVE, flag_clauses
from knowhub.conversations.language.doubt_words import FICTION, FICTION_ZH, IF_ZH, MAYBE, MAYBE_ZH
from knowhub.conversations.language.sentence_ends import find_clauses, iter_clauses
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import find_forget_request, mask_quoted, split_sentences
from knowhub.core.unicode_forms import normalize

_ACCENT: Final = re.compile(r"[\u0300-\u036f]")
_POSSESSIVE: Final = re.compile(r"['’]s?$")
_HAN: Final = re.compile(r"[\u3400-\u9fff]+")
_FIGURE: Final = re.compile(r"\d+(?:[.,:]\d+)*")
# Without Chinese characters, which part no words.
WORD: Final = re.compile(r"(?:(?![\u3400-\u9fff])[^\W\d_])(?:(?![\u3400-\u9fff])[\w'’-])*")
_FUNCTION_WORDS: Final = (
    "the this that these those a an all any each every no not never always user user's he she they it his her their its"
    " him them we our i i'm my you your mr mrs ms dr what when where who how why if on in at by from to with for of as"
    " and or but since until before after there here now first second last next new old"
)
_SLOT_WORDS: Final = (
    "name home work job employer age birthday partner wife husband family address language timezone pronouns favorite"
    " favourite preferred current"
)
_AUXILIARIES: Final = "is are was were be been has have had do does did will would can could"
GENERIC: Final = frozenset([*_FUNCTION_WORDS.split(), *_SLOT_WORDS.split()])
STOPS: Final = GENERIC | frozenset(_AUXILIARIES.split())
OF_THE_USER: Final = ("profile", "preferences")
# A case names both the failure and the fix.
_OF_CASES: Final = {"contradicted", "supposed", "of_somebody_else", "only_asked"}
_STEM_CHARS: Final = 5
_MIN_STEM: Final = 3

_LINE_QUOTED: Final = re.compile(r"^\s{0,9}>")
_FENCE: Final = re.compile(r"^\s{0,9}(?:```|~~~)")
_SAME_FOR_ME: Final = re.compile(
    r"\b(?:me too|same (?:here|for me)|(?:so|neither) (?:am|do|have|did|can) i|as (?:am|do) i|like me|we both"
    r"|both of us|i(?:'m| am| do)? (?:too|also|as well))\b|我也|都一样|我们都"
)
_ABOUT_USER: Final = re.compile(r"^(?:(?:the )?user\b(?!['’]s)|i\b|用户(?!的)|我(?!的|们))", re.IGNORECASE)
_WONDERS: Final = re.compile(
    r"\b(?:ask|wonder|consider|think|want|plan|look|need|interest|decid|question|know|seek|hop)\w{0,7}\b|[想问找]|考虑|打算|需要|计划|决定",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"\b(?:if|when|whenever|after|once|unless|in case|until|during|would|might|could|may|wish\w{0,3}|hypothe\w+"
    rf"|imagin\w+|dream\w{{0,3}}|suppos\w+|nearly|almost|jok\w+|pretend\w*|play\w+|possible|{FICTION}|{MAYBE})\b"
    rf"|{IF_ZH}|{MAYBE_ZH}|{FICTION_ZH}|剧|差点|玩笑|时|的话|若|一旦|除非|之后|以后|希望|可能"
)


_NEGATOR_WORDS: Final = (
    "not no nobody none nothing never hardly cannot without nor neither stop stopped quit dont cant wont"
    " doesnt didnt isnt wasnt arent havent hasnt wouldnt couldnt shouldnt"
)
_NEGATORS: Final = frozenset(_NEGATOR_WORDS.split())
# Behind a negation: a question («don't you»), an addition («not only»), or an answer («no i live in Porto»).
_NO_DENIAL_WORDS: Final = "i you we he she they it i'm we're only just merely simply necessarily sure one"
_NO_DENIAL: Final = frozenset(_NO_DENIAL_WORDS.split())
# These words limit a negation, so that it denies nothing: «doesn't start until Friday».
_LIMIT_WORDS: Final = "until till before unless except but besides than yet without only enough always all every too"
_LIMITS: Final = frozenset(_LIMIT_WORDS.split())
_BOUNDS: Final = frozenset(["because", "cos", "when", "if", "and", "since", "while", "as", "so", "that", "where"])
# «I don't mind cats» does not deny cats: these verbs take a negation, and what follows them stays true.
_TRANSPARENT_STEMS: Final = (
    "think believ know mind wait forget wory bother mater care help hesitat remember mean say miss doubt"
)
_TRANSPARENT: Final = frozenset(_TRANSPARENT_STEMS.split())
_PASSED_WORDS: Final = (
    "ever really much even actually usually want wanna very more longer anymore long be being been go going get got am"
    " so just still quite particularly please me us should must may might i'm im i've ive anyone anybody"
)
_PASSED: Final = STOPS - frozenset(_SLOT_WORDS.split()) | frozenset(_PASSED_WORDS.split())
_ENGLISH: Final = re.compile(r"[a-z][a-z'-]*|\d+|[^\s\w]")
# Two negations, a choice (吃不吃), and words in which the character denies nothing.
_NO_DENIAL_ZH: Final = re.compile(
    r"(?:不得|不能|不可|不会|没有|从没|无)不|(.)不\1|要不(?!要)|不[错但仅只光过管论然如久同少断止好]|[差对要了说得不]不|没[关问准事错]"
    r"|[特分区级性告离个类]别|别[人的墅处]|[离舍]不[开得]|无[论所]|未[来必]|非[常得]"
)
_DENIED_ZH: Final = re.compile(
    r"(?:从来|绝对|并|再也)?[不没别未勿](?:有|要|能|会|可以|可|许|准|让|想|再|用|是|应该)?(?:人|谁|一个人?|哪个)?(?P<what>[\u3400-\u9fff]{2,12})"
)
_SMALL_ZH: Final = re.compile(r"[我你您他她们的了过着在再太也都很还怎么大用户]")
_DENIED_CHARS: Final = 4
_BEFORE_CHARS: Final = 4
_DENIAL: Final = re.compile(r"\b(?:no|not|never|none|nobody|nor|without|cannot)\b|n't\b|[不没别未无勿]")
_SAYS_NO: Final = re.compile(
    r"^\W{0,3}(?:(?:no|nope|nah|never|not|hardly)\b(?! (?:problem|worries|doubt|only|just)\b)"
    r"|(?:我|早就?|从来?|现在|目前|还|已经|也|真|并|才){0,3}[不没未](?![错但仅只光管论问关必]))",
    re.IGNORECASE,
)
_AFTER_ALL: Final = re.compile(r"\byes\b|\b(?:i|we) (?:do|am|are|have|did|can|will)\b(?! not\b)", re.IGNORECASE)


_FIRST_VERB: Final = re.compile(
    r"\b(?:i|we|i'm|im|i've|we're)\b (?:(?:\w{1,8}ly|am|have|do|still|always|just|a|an) ){0,3}([a-z]{2,20})|我"
)
# «Here's my week: …»
_OWN_MATERIAL: Final = re.compile(r"\b(?:my|our)\b[^.!?\n:]{0,40}:|我们?的?[^。！？\n：:]{0,12}[：:]", re.IGNORECASE)


_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MOVED: Final = re.compile(r"\b(?:moved|relocated)\b|搬", re.IGNORECASE)
# «Sold it.», «Not any more.»: what goes on about what was named before.
_GOES_ON: Final = re.compile(
    r"\b(?:it|that|they|them|he|she|there)\b|^\W{0,3}[a-z']{1,20}(?: [a-z']{1,20}){0,2}\W{0,3}$"
    r"|^\W{0,3}[\u3400-\u9fff]{1,6}\W{0,3}$"
)
_SLOT: Final = re.compile(r"(?P<home>\blive\b|住)|(?P<employer>\bwork\b|上班|工作)|(?P<age>\bold\b|几岁|多大)")
_ALL: Final = re.compile(r"\b(?:everything|all)\b|一切|所有|全部")
# Words of a request to forget that do not name what to forget.
_NO_OBJECT: Final = re.compile(
    r"\b(?:forget|t[oe]ld|tell|sa(?:id|y)|mention\w*|know\w*|please|just|ever|earlier|about|everything|anything|me|us)\b"
    r"|关于|一切|所有|全部|之前|刚才|告诉|事情|[忘掉记请帮说事刚我你的了把吧都那这个些过]"
)


def find_forget_flaw(memory: str, slots: set[str], said: Sequence[Message], before: Sequence[Message]) -> str:
    """Return why users do not say that a memory ended, was wrong or is to be forgotten; empty where they do.

    `slots` name what the memory gives, such as `home`. `before` are the messages before theirs: «no, not any more»
    may be an answer.
    """
    wanted = _list_named(memory) | slots
    is_shared = False
    for message in said:
        plain, _ = _split_quoted(message)
        request = find_forget_request(plain)
        objects = _list_named(_NO_OBJECT.sub(" ", request)) | {match.lastgroup for match in _SLOT.finditer(request)}
        context = " ".join(item.content for item in before)
        if request and (objects & wanted or (not objects and (_ALL.search(request) or share_words(memory, context)))):
            return ""
        is_near = share_words(memory, context)
        for clause in () if request else flag_clauses(plain, message, memory):
            goes_on = is_near and _GOES_ON.search(clause.text) is not None
            is_near = goes_on or not wanted.isdisjoint(_list_named(clause.text))
            denied = "".join(_DENIAL.split(clause.text, 1)[1:])
            has_ended = is_near and (ENDED.search(clause.text) or clause.flaw == "contradicted")
            is_denied = denied and (goes_on or not wanted.isdisjoint(_list_named(denied)))
            if (has_ended or is_denied) and clause.flaw not in {"supposed", "only_asked"} and not clause.doubted:
                return ""
            is_shared |= is_near
    return "not_ended" if is_shared else "not_in_evidence"


def _list_named(text: str) -> set[str]:
    """Return the words of content of a text, and the names of single-valued facts: «address»."""
    return list_content_words(text) | ({fold_word(word) for word in WORD.findall(text)} & {*_SLOT_WORDS.split()})


def share_words(statement: str, text: str) -> bool:
    """Return whether two texts have a word of content in common: of Chinese two characters in a row."""
    return not list_content_words(statement).isdisjoint(list_content_words(text))


def list_content_words(text: str) -> set[str]:
    """Return the stems, figures and pairs of Chinese characters of a text, without words that say nothing alone."""
    text = text.replace("用户", " ")
    words = {fold_word(word) for word in WORD.findall(_HAN.sub(" ", text))} - STOPS
    found = {_stem(word)[:_STEM_CHARS] for word in words}
    found |= set(_FIGURE.findall(text))
    return found | {run[at : at + 2] for run in _HAN.findall(text) for at in range(max(1, len(run) - 1))}


def fold_word(word: str) -> str:
    """Return a word in lower case, without accents and the possessive."""
    plain = _ACCENT.sub("", normalize("NFD", word)) if not word.isascii() else word
    return _POSSESSIVE.sub("", plain.casefold().replace("’", "'")).strip("-'")


def is_earlier_move(statement: str, said_on: date | None) -> bool:
    """Return whether a statement tells of a move in a year before it was said: «in 1999 I moved to Prague»."""
    years = (int(year) for year in _YEAR.findall(statement))
    return _MOVED.search(statement) is not None and said_on is not None and any(y < said_on.year for y in years)


def is_about_user(statement: str) -> bool:
    """Return whether the user is the subject of a statement."""
    return _ABOUT_USER.match(statement) is not None


def find_flaw(statement: str, category: str, cited: Sequence[Message], before: Sequence[Message]) -> str:
    """Return why the cited messages do not say a statement; empty where they may.

    `before` are the messages before them, to which «no» is an answer. A case may quote commands, and name
    what failed and what works alike. So only the orders of tools are refused in it.
    """
    is_case, is_own = category == "cases", category in OF_THE_USER
    said = [(message, *_split_quoted(message)) for message in cited]
    own = "\n".join(plain for _, plain, _ in said)
    is_quoted = not is_case and share_words(statement, "\n".join(quotation for _, _, quotation in said))
    if is_quoted and not share_words(statement, own):
        return "quoted"
    if is_own and not any(_OWN_MATERIAL.search(message.content) for message in cited):
        spoken = " ".join(item.text for message in cited for item in split_sentences(message.content))
        if share_words(statement, own) and not share_words(statement, spoken):
            return "quoted"
    wanted = list_content_words(statement)
    clauses = [clause for message, plain, _ in said for clause in flag_clauses(plain, message, statement, category)]
    best = max((len(wanted & list_content_words(clause.text)) for clause in clauses), default=0)
    nearest = [clause for clause in clauses if best and len(wanted & list_content_words(clause.text)) == best]
    exempt = _OF_CASES if is_case else _list_exempt(statement, own, is_own=is_own)
    is_wish = _WONDERS.search(statement) is not None
    doubted = [clause.doubted and not is_wish and wanted & list_content_words(clause.doubted) for clause in nearest]
    flaws = [clause.flaw or ("supposed" if words else "") for clause, words in zip(nearest, doubted, strict=True)]
    if flaws and all(flaw and flaw not in exempt for flaw in flaws):
        return flaws[0]
    if not is_case and (_is_denied(statement, own) or _is_refused(statement, cited, before)):
        return "contradicted"
    return ""


def _split_quoted(message: Message) -> tuple[str, str]:
    """Return what a user says, and what they quote: between marks, behind `>` and in code."""
    if not message.is_user:
        return message.content, ""
    plain: list[str] = []
    quoted: list[str] = []
    is_code = False
    for line in message.content.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code or _LINE_QUOTED.match(line):
            quoted.append(line)
        else:
            masked = mask_quoted(line)
            plain.append(masked)
            if masked != line:
                quoted.append("".join(char if char != shown else " " for char, shown in zip(line, masked, strict=True)))
    return "\n".join(plain), "\n".join(quoted)


def _list_exempt(statement: str, own: str, *, is_own: bool) -> set[str]:
    """Return the flaws that do not count: the statement names the condition, or the user says it of themselves, too."""
    exempt = {"supposed"} if _CONDITION.search(statement.lower()) else set()
    if _WONDERS.search(statement):
        exempt.add("only_asked")
    if not is_own or not _ABOUT_USER.match(statement) or _SAME_FOR_ME.search(own.lower()):
        exempt.add("of_somebody_else")
    return exempt


def _is_denied(statement: str, own: str) -> bool:
    """Return whether a statement affirms what the evidence only denies, or denies what it only affirms."""
    said, stated = _list_parts(own), _list_parts(statement)
    if not NEGATIVE.search(statement.lower()):
        return _denies(said, " ".join(stated))
    if NEGATIVE.search(own.lower()):
        return False
    # «…, not Cargo» only says what else it is not.
    stated = [part for at, part in enumerate(stated) if at == 0 or not part.startswith("not ")]
    affirmed = (said_part for said_part in said if _FIRST_VERB.search(said_part))
    return any(_denies(stated, clause, _list_first_stems(clause)) for clause in affirmed)


def _list_parts(text: str) -> list[str]:
    """Return the clauses of a text in lower case, without questions: «isn't it on Monday?» denies nothing."""
    clauses = iter_clauses(text.lower().replace("’", "'"))
    return [clause for clause, is_question in clauses if clause.strip() and not is_question]


def _denies(clauses: Sequence[str], affirmed: str, verbs: set[str] | None = None) -> bool:
    """Return whether any of the clauses denies what is affirmed, by one of the `verbs`, and no other affirms it."""
    words, chars = _list_stems(affirmed), _SMALL_ZH.sub("", affirmed)
    verbs, predicates = words if verbs is None else verbs, _list_predicates(affirmed)
    denials = [list(_iter_denied(clause)) for clause in clauses]
    denied = {
        (verb, frozenset(objects & words if objects else {verb} & predicates))
        for found in denials
        for verb, objects in found
        if verb in verbs
    }
    stems = [(_list_stems(clause), {verb for verb, _ in found}) for clause, found in zip(clauses, denials, strict=True)]
    for verb, objects in denied:
        if objects and not any({verb, *objects} <= said and verb not in denying for said, denying in stems):
            return True
    denied_zh = {what for clause in clauses for what in _iter_denied_zh(clause) if what in chars}
    return any(not any(_affirms_zh(clause, what) for clause in clauses) for what in denied_zh)


def _iter_denied(clause: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the word that each negation of English denies, and the words that go with it: («eat», {«nuts»})."""
    words = _ENGLISH.findall(clause.replace("no one", "nobody"))
    for at, word in enumerate(words):
        rest = words[at + 1 : at + 9]
        if not _is_negator(word) or not rest or rest[0] in _NO_DENIAL:
            continue
        if not _LIMITS.isdisjoint(rest) or any(map(_is_negator, words[:at])):
            continue
        found: list[str] = []
        is_either = False
        for following in rest:
            if (
                (following in _BOUNDS and (found or following != "that"))
                or not following[0].isalnum()
                or (len(found) > 1 and not is_either)
            ):
                break
            if following not in _PASSED:
                found.append(_stem(following))
            is_either = following == "or"
        if found and found[0] not in _TRANSPARENT:
            yield found[0], set(found[1:])


def _is_negator(word: str) -> bool:
    return word in _NEGATORS or word.endswith("n't")


def _list_predicates(statement: str) -> set[str]:
    """Return what a statement says of its subject in one word: «has kids», «can swim», not «the user's kids are …»."""
    words = _ENGLISH.findall(statement)
    said = [stem for word in words for stem in [_stem(word)] if _PASSED.isdisjoint((word, stem)) and word.isalpha()]
    return set(said[:1]) if "user's" not in words[:2] else set()


def _iter_denied_zh(clause: str) -> Iterator[str]:
    for match in _DENIED_ZH.finditer(_NO_DENIAL_ZH.sub("，", clause)):
        what = _SMALL_ZH.sub("", match["what"])[:_DENIED_CHARS]
        if len(what) > 1:
            yield what


def _list_first_stems(clause: str) -> set[str]:
    """Return what the user does in a clause: the first word behind «I»."""
    return {_stem(word) for word in _FIRST_VERB.findall(clause)}


def _affirms_zh(clause: str, what: str) -> bool:
    plain = _SMALL_ZH.sub("", clause)
    at = plain.find(what)
    return at >= 0 and not _DENIAL.search(plain, max(0, at - _BEFORE_CHARS), at)


def _list_stems(text: str) -> set[str]:
    return {_stem(word) for word in _ENGLISH.findall(text)}


def _stem(word: str) -> str:
    """Return the beginning that the forms of an English word share: «flies» and «fly», «running» and «run»."""
    for ending, stem in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", "")):
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM - len(stem):
            word = word.removesuffix(ending) + stem
            break
    return word[:-1] if len(word) > _MIN_STEM and word[-1] == word[-2] else word


def _is_refused(statement: str, cited: Sequence[Message], before: Sequence[Message]) -> bool:
    """Return whether the evidence is only «no» or «not since May», to a question that says all of the statement."""
    answers = [message.content for message in cited if message.is_user]
    is_no = bool(answers) and all(_SAYS_NO.match(text) and not _AFTER_ALL.search(text) for text in answers)
    if not is_no or NEGATIVE.search(statement.lower()):
        return False
    wanted = list_content_words(statement)
    # «Not Monday, Tuesday» says itself what holds.
    added = list_content_words(" ".join(text[start:end] for text in answers for start, end in find_clauses(text)[1:]))
    asked = list_content_words(" ".join(message.content for message in before))
    return wanted <= asked and not (added and added <= wanted)
