"""Words a question is made with rather than about; a query loses them (see `analysis.weighted_query`)."""

from typing import Final

_ENGLISH: Final = """
    a an the this that these those there here
    and or but nor so yet if then else than because while whereas although though unless until
    of in on at by for with about against between into through during before after above below
    to from up down out off over under again further as per via upon within without toward towards
    among across along around since
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    one ones someone something anyone anything everyone everything
    what which who whom whose when where why how whether
    am is are was were be been being have has had having do does did doing done
    can could may might must shall should will would ought cannot
    isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't
    can't couldn't mustn't shan't shouldn't won't wouldn't ain't
    not no very too just also only even ever both each either neither such some any all own same
    other another more most much many few
    please let lets get got like need want tell show give help
    hi hello hey thanks thank
"""

_CHINESE: Final = """
    的 了 吗 呢 吧 啊 呀 嘛 哦 啦 么 着 过 地 得 之 所 者
    是 为 在 有 和 与 及 或 而 并 且 也 都 就 又 还 很 才 却 则 但
    把 被 让 给 对 从 向 到 由 于 以 因 用 其
    我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱们 自己
    这 那 此 该 这个 那个 这些 那些 这样 那样 这里 那里 这种 那种
    什么 甚么 啥 什么样 什么时候 时候 怎么 怎样 怎么样 怎么办 如何 为什么 为何 为啥
    何 何时 何地 何处 何年 何种 何人 何事 何者 谁
    哪 哪个 哪些 哪里 哪儿 哪位 哪种 哪一 哪一个 哪一年 哪一天
    哪年 哪天 哪国 哪部 哪座 哪家 哪条 哪项 哪首 哪支 哪本
    几 几个 多少 多大 多久 多长
    是否 能否 可否 有没有 是不是 能不能 可不可以 会不会 要不要
    能 能够 可以 会 要 想 需要 应该 应 可 请 请问 一下 一个 一些
    以及 或者 还是 并且 而且 但是 因为 所以 如果 虽然 关于 对于 由于
"""

ENGLISH: Final = frozenset(_ENGLISH.split())
CHINESE: Final = frozenset(_CHINESE.split())
