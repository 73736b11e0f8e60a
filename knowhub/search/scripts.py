"""The script of a text, and how well an embedder reads it. The skill is measured, so no model need be known."""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from knowhub.core.language_models import Embedder, EmbeddingFailed, FailureReason, Vector
from knowhub.search.analysis import HAN

_CHARACTERS: Final = {
    "latin": "A-Za-zªº\u00c0-\u024f\u1e00-\u1eff",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "cyrillic": "\u0400-\u052f",
    "hebrew": "\u05d0-\u05ea",
    "arabic": "\u0620-\u06ff\u0750-\u077f",
    "devanagari": "\u0900-\u097f",
    "thai": "\u0e00-\u0e7f",
    "kana": "\u3041-\u30ff",
    "hangul": "\u1100-\u11ff\uac00-\ud7af",
    "han": HAN,
}
_SCRIPTS: Final = {name: re.compile(f"[{characters}]") for name, characters in _CHARACTERS.items()}
_OTHER: Final = re.compile(rf"[^\W\d_{''.join(_CHARACTERS.values())}]")
# Scripts with a smaller share of a query are ignored.
_WORTH_READING: Final = 0.1
_MIN_READABLE_SHARE: Final = 0.5
# How often an answer must lie closer to its question than unrelated texts lie to each other: where an embedder does not
# know a script it is 0.1 to 0.9, by the characters that it happens to know, and 1.0 where it does.
_STRANGE: Final = 0.9
_FAMILIAR: Final = 0.98
# Texts whose vectors are more similar than this are one text to an embedder. If more than this share of different texts
# are, it does not read their script: a tokenizer turns words that it does not know into the same token, for example.
_EQUAL: Final = 0.99
_MAX_EQUAL: Final = 0.125
_PROBE_TIMEOUT_S: Final = 30.0
HARMLESS: Final = "hello"
# Eight questions with their answers, the same in every script: by them an embedder shows which it can read. Each answer
# shares a word or two with its question, and with no other.
PROBES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "latin": (
        ("Forgot my password, how can I reset it?", "Click the link sent by e-mail, then choose another password."),
        ("Why does bread rise?", "Yeast lets bread dough swell with gas."),
        ("What delayed this train?", "Snow covered every rail, so our train lost an hour."),
        ("Which medicine helps against headache?", "Aspirin eases headache quickly; some medicine acts slowly."),
        ("Where do penguins live?", "Penguins breed along icy southern coasts."),
        ("Making database queries faster", "An index speeds up database queries over its column."),
        ("When should roses be watered?", "Give roses water early, before sunshine gets hot."),
        ("Contract terms about rent?", "Tenants pay rent on each month's first day."),
    ),
    "han": (
        ("忘记密码怎么重置？", "点击邮件里的链接，设置一个新的密码。"),
        ("面包为什么会发起来？", "酵母放出气体，面包的面团就膨胀了。"),
        ("火车为什么晚点？", "铁轨上有积雪，火车耽误了一个小时。"),
        ("头痛吃什么药？", "阿司匹林这种药可以缓解头痛。"),
        ("企鹅住在哪里？", "企鹅在南方大陆冰冷的海岸上繁殖。"),
        ("怎样让数据库回答得更快？", "在列上建立索引，数据库的查询就会加速。"),
        ("玫瑰应该什么时候浇水？", "玫瑰要在早晨太阳变热之前浇水。"),
        ("合同里关于房租是怎么写的？", "房客每月第一天交房租。"),
    ),
    "kana": (
        ("忘れたパスワードはどうやってリセットしますか？", "メールのリンクをクリックして新しいパスワードを選びます。"),
        ("パンはなぜふくらむのですか？", "イーストがガスを出し、パンの生地がふくらみます。"),
        ("電車はなぜ遅れましたか？", "線路に雪が積もり、電車は一時間遅れました。"),
        ("頭痛にはどの薬が効きますか？", "アスピリンの錠剤が頭の痛みを和らげます。"),
        ("ペンギンはどこに住んでいますか？", "ペンギンは南の大陸の氷の海岸で繁殖します。"),
        ("データベースの応答を速くするには？", "列にインデックスを付けるとデータベースの検索が速くなります。"),
        ("バラにはいつ水をやるべきですか？", "バラには日が暑くなる前の朝に水が必要です。"),
        ("契約書には家賃について何と書いてありますか？", "借り主は毎月の最初の日に家賃を払います。"),
    ),
    "hangul": (
        ("잊어버린 비밀번호는 어떻게 재설정하나요?", "이메일의 링크를 눌러 새 비밀번호를 정하세요."),
        ("빵은 왜 부풀어 오르나요?", "효모가 가스를 내보내 빵의 반죽이 부풉니다."),
        ("기차가 왜 늦게 도착했나요?", "선로에 눈이 쌓여 기차가 한 시간 늦어졌습니다."),
        ("두통에는 어떤 약이 좋은가요?", "아스피린 한 알이 머리의 통증을 덜어 줍니다."),
        ("펭귄은 어디에 사나요?", "펭귄은 남쪽 대륙의 얼음 해안에서 번식합니다."),
        ("데이터베이스가 더 빨리 응답하게 하려면?", "열에 색인을 만들면 데이터베이스의 조회가 빨라집니다."),
        ("장미에는 언제 물을 주어야 하나요?", "장미는 해가 뜨거워지기 전 아침에 물이 필요합니다."),
        ("계약서에는 집세에 대해 뭐라고 쓰여 있나요?", "세입자는 매달 첫날에 집세를 냅니다."),
    ),
    "cyrillic": (
        ("Как сбросить забытый пароль?", "Нажмите на ссылку в письме, чтобы выбрать новый пароль."),
        ("Почему хлеб поднимается?", "Дрожжи выделяют газ, и тесто для хлеба разбухает."),
        ("Почему поезд опоздал?", "На рельсах лежал снег и задержал поезд на час."),
        ("Какое лекарство помогает от головной боли?", "Таблетка аспирина облегчает боль в голове."),
        ("Где живут пингвины?", "Пингвины размножаются на ледяных берегах южного материка."),
        ("Как ускорить ответ базы данных?", "Индекс по столбцу ускоряет запросы к базе данных."),
        ("Когда следует поливать розы?", "Розам нужна вода утром, пока солнце не жаркое."),
        ("Что говорится в договоре об аренде?", "Жилец платит аренду в первый день месяца."),
    ),
    "arabic": (
        ("كيف أعيد تعيين كلمة المرور المنسية؟", "اضغط على الرابط في البريد لاختيار كلمة المرور الجديدة."),
        ("لماذا ينتفخ الخبز؟", "تطلق الخميرة غازا فينتفخ عجين الخبز."),
        ("لماذا تأخر القطار؟", "كان الثلج على القضبان فأخر القطار ساعة."),
        ("أي دواء ينفع ضد الصداع؟", "قرص من الأسبرين يخفف ألم الصداع في الرأس."),
        ("أين تعيش البطاريق؟", "تتكاثر البطاريق على السواحل الجليدية للقارة الجنوبية."),
        ("كيف أجعل قاعدة البيانات تجيب أسرع؟", "الفهرس على العمود يسرع استعلامات قاعدة البيانات."),
        ("متى يجب سقي الورود؟", "تحتاج الورود إلى الماء في الصباح قبل أن تشتد الشمس."),
        ("ماذا يقول العقد عن الإيجار؟", "يدفع المستأجر الإيجار في أول يوم من الشهر."),
    ),
    "devanagari": (
        ("भूला हुआ पासवर्ड कैसे बदलें?", "नया पासवर्ड चुनने के लिए ईमेल में दिए लिंक पर क्लिक करें।"),
        ("रोटी क्यों फूलती है?", "खमीर गैस छोड़ता है और रोटी का आटा फूल जाता है।"),
        ("रेलगाड़ी देर से क्यों पहुँची?", "पटरियों पर बर्फ थी, इसलिए रेलगाड़ी एक घंटा रुकी रही।"),
        ("सिरदर्द में कौन सी दवा काम आती है?", "एस्पिरिन की गोली सिर का दर्द कम करती है।"),
        ("पेंगुइन कहाँ रहते हैं?", "पेंगुइन दक्षिणी महाद्वीप के बर्फीले तटों पर अंडे देते हैं।"),
        ("डेटाबेस तेज़ी से उत्तर कैसे दे?", "कॉलम पर सूचकांक डेटाबेस की खोज को तेज़ करता है।"),
        ("गुलाब को पानी कब देना चाहिए?", "गुलाब को धूप तेज़ होने से पहले सुबह पानी चाहिए।"),
        ("अनुबंध में किराए के बारे में क्या लिखा है?", "किराएदार महीने के पहले दिन किराया देता है।"),
    ),
    "greek": (
        ("Πώς αλλάζω έναν κωδικό που ξέχασα;", "Πατήστε τον σύνδεσμο στο μήνυμα για να διαλέξετε νέο κωδικό."),
        ("Γιατί φουσκώνει το ψωμί;", "Η μαγιά βγάζει αέριο και το ζυμάρι για το ψωμί φουσκώνει."),
        ("Γιατί άργησε το τρένο;", "Το χιόνι στις ράγες καθυστέρησε το τρένο μία ώρα."),
        ("Ποιο φάρμακο βοηθά στον πονοκέφαλο;", "Ένα χάπι ασπιρίνης μαλακώνει τον πόνο στο κεφάλι."),
        ("Πού ζουν οι πιγκουίνοι;", "Οι πιγκουίνοι γεννούν στις παγωμένες ακτές της νότιας ηπείρου."),
        ("Πώς απαντά πιο γρήγορα η βάση δεδομένων;", "Ένα ευρετήριο στη στήλη επιταχύνει τη βάση δεδομένων."),
        ("Πότε πρέπει να ποτίζονται τα τριαντάφυλλα;", "Τα τριαντάφυλλα θέλουν νερό το πρωί, πριν κάψει ο ήλιος."),
        ("Τι λέει το συμβόλαιο για το ενοίκιο;", "Ο ενοικιαστής πληρώνει το ενοίκιο την πρώτη του μήνα."),
    ),
    "hebrew": (
        ("איך מאפסים סיסמה ששכחתי?", "לחצו על הקישור בדואר כדי לבחור סיסמה חדשה."),
        ("למה הלחם תופח?", "השמרים פולטים גז והבצק של הלחם תופח."),
        ("למה הרכבת איחרה?", "שלג היה על הפסים ועיכב את הרכבת בשעה."),
        ("איזו תרופה עוזרת נגד כאב ראש?", "כדור אספירין מקל על הכאב בראש."),
        ("איפה חיים פינגווינים?", "פינגווינים מתרבים בחופים הקפואים של היבשת הדרומית."),
        ("איך מסד הנתונים יענה מהר יותר?", "אינדקס על העמודה מאיץ שאילתות של מסד הנתונים."),
        ("מתי צריך להשקות ורדים?", "ורדים צריכים מים בבוקר, לפני שהשמש חמה."),
        ("מה אומר החוזה על שכר הדירה?", "הדייר משלם שכר דירה ביום הראשון בחודש."),
    ),
    "thai": (
        ("ลืมรหัสผ่านแล้วจะตั้งใหม่อย่างไร", "กดลิงก์ในอีเมลเพื่อเลือกรหัสผ่านใหม่"),
        ("ทำไมขนมปังจึงฟู", "ยีสต์ปล่อยก๊าซออกมา แป้งขนมปังจึงพองตัว"),
        ("ทำไมรถไฟมาสาย", "หิมะบนรางทำให้รถไฟช้าไปหนึ่งชั่วโมง"),
        ("ยาอะไรช่วยแก้ปวดหัว", "แอสไพรินหนึ่งเม็ดบรรเทาอาการปวดที่ศีรษะ"),
        ("เพนกวินอาศัยอยู่ที่ไหน", "เพนกวินผสมพันธุ์บนชายฝั่งน้ำแข็งของทวีปทางใต้"),
        ("ทำอย่างไรให้ฐานข้อมูลตอบเร็วขึ้น", "ดัชนีบนคอลัมน์ทำให้การค้นฐานข้อมูลเร็วขึ้น"),
        ("ควรรดน้ำกุหลาบเมื่อไร", "กุหลาบต้องการน้ำตอนเช้าก่อนแดดร้อน"),
        ("สัญญาเขียนเรื่องค่าเช่าว่าอย่างไร", "ผู้เช่าจ่ายค่าเช่าในวันแรกของเดือน"),
    ),
}
# More different texts, in a script that PROBES mix with another: these are in that script alone.
_UNMIXED: Final[Mapping[str, Sequence[str]]] = {
    "kana": (
        "わたしはねこがすきです",
        "きょうはあめがふるでしょう",
        "あかちゃんはよくねむります",
        "うみのみずはしょっぱいです",
        "りょうりにしおをいれました",
        "くるまのタイヤをかえました",
        "ヨーロッパへりょこうにいきます",
        "でんしゃがしゅっぱつします",
    ),
}


@dataclass(frozen=True, slots=True)
class ScriptSkill:
    """The skill of an embedder in a script, 0 to 1, and the similarity that it gives to unrelated texts.

    That similarity is the zero of its scale: 0.05 for some embedders, 0.75 for others. `spread` is its standard
    deviation. `closer` is how often an answer lay closer to its question than unrelated texts lie to each other.
    `equal` is the share of texts with the same vector as a text that says something else.
    """

    skill: float
    unrelated_similarity: float
    spread: float = 0.0
    closer: float = 0.0
    equal: float = 0.0

    @property
    def reason(self) -> str:
        """Why the script is not read."""
        if self.equal > _MAX_EQUAL:
            return f"too many texts have the same vector as a text that says something else: {self.equal:.0%}"
        return (
            f"too few answers lay closer to their questions than unrelated texts: {self.closer:.0%}, not {_STRANGE:.0%}"
        )


UNREAD: Final = ScriptSkill(0.0, 0.0)


class ScriptSkills:
    """Measures the skill of an embedder in each script on first use.

    With `read`, these scripts are read and no others, whatever was measured. Raises ValueError for an unknown script.
    """

    def __init__(self, embedder: Embedder, read: Collection[str] | None = None) -> None:
        unknown = sorted(set(read or ()) - PROBES.keys())
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: no known script. Known are {', '.join(PROBES)}")
        self._embedder = embedder
        # The scripts that a setting says are read, whatever is measured; None if it says nothing.
        self.configured = read
        self._probing: dict[str, asyncio.Task[ScriptSkill]] = {}

    @property
    def measured(self) -> Mapping[str, ScriptSkill]:
        """The scripts that were measured so far."""
        done = {name: task for name, task in self._probing.items() if task.done() and not task.cancelled()}
        return {name: task.result() for name, task in done.items() if task.exception() is None}

    async def measure(self, scripts: Iterable[str] = PROBES) -> None:
        """Measure scripts that were not used yet. Raises EmbeddingFailed."""
        for name in scripts:
            await self._get_script_skill(name)

    async def get_skill(self, text: str) -> ScriptSkill:
        """Return the embedder's skill in `text`: that of its worst script.

        Raises EmbeddingFailed if it is unknown and the embedder does not answer.
        """
        shares = get_script_shares(text)
        readings = [await self._get_script_skill(name) for name, share in shares.items() if share >= _WORTH_READING]
        return min(readings, key=lambda reading: reading.skill, default=UNREAD)

    async def can_read(self, text: str) -> bool:
        """Return whether the embedder reads at least half of the letters of a text. Raises EmbeddingFailed."""
        read = [share for name, share in get_script_shares(text).items() if (await self._get_script_skill(name)).skill]
        return sum(read) >= _MIN_READABLE_SHARE

    async def _get_script_skill(self, name: str) -> ScriptSkill:
        if name not in PROBES:
            return UNREAD
        task = self._probing.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._probing[name] = asyncio.create_task(self._probe(name), name=f"probe {name}")
        # Whoever gives up waiting leaves the answer to those that come after.
        return await asyncio.shield(task)

    async def _probe(self, name: str) -> ScriptSkill:
        asked, answered = await self._embed_probes(name)
        if not (asked.any(axis=1).all() and answered.any(axis=1).all()):
            # It cannot read them, or it is not awake yet: what it says once it is awake holds.
            if is_zero((await self._embedder.embed([HARMLESS], _PROBE_TIMEOUT_S))[0]):
                raise EmbeddingFailed(FailureReason.FAILURE, "it answers zeros to every text")
            asked, answered = await self._embed_probes(name)
        skill = _score_probes(asked, answered)
        return skill if self.configured is None else replace(skill, skill=float(name in self.configured))

    async def _embed_probes(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        questions, answers = zip(*PROBES[name], strict=True)
        texts = [*answers, *_UNMIXED.get(name, ())]
        asked = await self._embedder.embed(questions, _PROBE_TIMEOUT_S, query=True)
        return _to_matrix(asked), _to_matrix(await self._embedder.embed(texts, _PROBE_TIMEOUT_S))

    async def close(self) -> None:
        """Give up what is being found out."""
        for task in self._probing.values():
            task.cancel()
        outcomes = await asyncio.gather(*self._probing.values(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, EmbeddingFailed):
                raise outcome


def is_zero(vector: Vector) -> bool:
    """Return whether a vector is all zeros. It is similar to nothing, not even to itself, so it is no answer."""
    return not any(vector)


def get_script_shares(text: str) -> Mapping[str, float]:
    """Return the share of each script in the letters of a text."""
    if text.isascii():
        return {"latin": 1.0} if _SCRIPTS["latin"].search(text) else {}
    counts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()}
    counts["other"] = len(_OTHER.findall(text))
    letters = sum(counts.values())
    return {name: count / letters for name, count in counts.items() if count}


def _score_probes(questions: NDArray[np.float32], texts: NDArray[np.float32]) -> ScriptSkill:
    """Return the skill; the first of `texts` answer the questions, in their order."""
    similarities = questions @ texts[: len(questions)].T
    own = np.eye(len(similarities), dtype=bool)
    unrelated = similarities[~own]
    closer = float((similarities[own][:, None] > unrelated).mean())
    equal = max(map(_get_equal_share, (questions, texts)))
    skill = min(1.0, max(0.0, (closer - _STRANGE) / (_FAMILIAR - _STRANGE))) if equal <= _MAX_EQUAL else 0.0
    return ScriptSkill(skill, float(unrelated.mean()), float(unrelated.std()), closer, equal)


def _get_equal_share(vectors: NDArray[np.float32]) -> float:
    """Return the share of vectors that another one equals."""
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, 0.0)
    return float((similarities.max(axis=1) > _EQUAL).mean())


def _to_matrix(vectors: Sequence[Vector]) -> NDArray[np.float32]:
    return np.array(vectors, dtype=np.float32)
