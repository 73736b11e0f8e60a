"""English patterns for lasting statements, and for sentences that state nothing lasting; see `patterns`."""

from typing import Final

from knowhub.conversations.language_patterns import any_of, split_words

# The object may be a quoted name: «I prefer "double quotes"».
_NAMED: Final = r" ?[\"“'«「]?\w"
_CLAUSE_EN: Final = r"(?:^|[,;:.(—-]\s*|\b(?:please|but|and|so|then|also)\s+)"
_ADVERBS: Final = (
    r"(?:really |personally |generally |strongly |much |always |also |just |still |definitely |actually |absolutely"
    r" |usually |particularly |especially |honestly |do ){0,5}"
)
_POINTED: Final = (
    r"(?!\s*(?:not (?:to )?(?:say|answer|tell|disclose|share|comment|discuss|talk)\b|this|that(?! you)|it(?! when)"
    r"|these|those|your|them|him|her|you|how|what|where|to (?:hear|see|know)"
    r"|seeing|hearing|the (?:thought|sound|look|fact|way)|(?:the|your) (?:first|second|third|last"
    r"|latter|former|new|idea|result|way|option|approach|one|look|sound)|option|version)\b)"
)
_VERB: Final = (
    r"(?:use|write|answer|reply|respond|add|include|put|give|keep|format|explain|avoid|run|test|check|ask|show"
    r"|return|prefer|make|start|end|begin|commit|push|deploy"
    r"|install|import|call|name|create|delete|remove|update|send|provide|mention|cite|translate|speak|skip|sort"
    r"|round|wrap|indent|quote|document|comment|log|print"
    r"|follow|confirm|verify|validate|review|merge|squash|rebase|lint|build|generate|suggest|assume|change|modify"
    r"|touch|edit|guess|invent|apologi[sz]e|repeat|summari[sz]e"
    r"|remind|wait|store|save|back up|close|set|pin|sign|encrypt|hard-?code|expose|share|pass|do|be|leave|propose"
    r"|produce|rename|refactor|schedule|book|order|cook|buy)"
)
_LASTING: Final = r"(?:from now on|going forward|in (?:the )?future|henceforth|from here on)"
PREFERENCE_HINTS: Final = split_words(
    "no longer|emo|exclamation|dash|prefer|rather|like|love|hate|dislike|enjoy|favo|stand|detest|loathe|despise"
    "| fan |always|never|ever |from now"
    "|forward|future|henceforth|from here|stop |want|keep|default|whenever|every time|each time|call me| all "
    "| each | every | any | your "
)
PREFERENCE: Final = any_of(
    rf"\b(?:i|we) no longer (?:prefer|like|love|want|enjoy|use)\b(?! (?:this|that|it)\b){_NAMED}",
    rf"\b(?:i|we)(?:'d| would|'ll)? {_ADVERBS}(?:prefer|rather)\b{_POINTED}{_NAMED}",
    rf"\b(?:i|we) {_ADVERBS}(?:don't |do not |can't |cannot |dont )?{_ADVERBS}(?:prefer|like|love|hate|dislike"
    rf"|enjoy|favou?r|stand|detest"
    rf"|loathe|despise){_POINTED}\b{_NAMED}",
    r"\bi (?:really |just )?(?:don't|do not) want (?:any|to see|you to (?!do|go|be)|to have)\b(?! (?:this|that"
    r"|it)\b)[^.?]{3,}",
    r"\bi want (?:all|every|your) (?:\w+ )?(?:answers?|replies|responses?|code|explanations?|examples?|commits?"
    r"|files?|output)\b",
    r"\b(?:use|write|answer|reply|respond|add|include|put|give|keep|format|explain|avoid)\b[^.?]{0,50}\b(?:in"
    r"|for|to|with|at the \w+ of) (?:all|every|each|your|any) (?:of your |your |the |my )?(?:answers?|replies"
    r"|reply|responses?|code"
    r"|messages?|commits?|examples?|files?|explanations?|projects?|functions?)\b",
    r"^(?:please |you can |just )*call me (?!back|when|if|later|a |an |at |on |crazy|maybe)[\"“'«「]?\w+",
    r"\bmy (?:(?:absolute |all-time )?favou?rite|preferred|go-to|preference)\b[^.?]{0,40}\b(?:is|are)\b",
    r"\bi(?:'m| am) (?:not )?(?:really )?(?:a|an) (?:big |huge |great )?fan of\b",
    rf"(?:^|[,;:.(—]\s*|\b(?:please|but),? )(?:you (?:should|must|need to|have to) )?(?:always"
    rf"|never) (?:ever )?{_VERB}\b(?! never)",
    rf"{_CLAUSE_EN}(?:please,? )?(?:don't|do not|dont) ever\b",
    rf"{_CLAUSE_EN}(?:please,? )?{_LASTING}\b,?\s*(?!i\b|we\b|this|it\b|that|there|they|he\b|she\b|you(?:'ll"
    rf"| will| may| might| can)|the )\w",
    rf"{_CLAUSE_EN}(?:please,? |can you |could you ){{0,3}}(?:don't |do not |stop )?(?:{_VERB}"
    rf"|\w+ing)\b[^.?]{{0,80}}\b{_LASTING}\b",
    rf"{_CLAUSE_EN}(?:please,? )?stop \w+ing\b(?! (?:the|this|that|it|now)\b)",
    rf"\b(?:can|could|would|will) you (?:please |kindly )?(?:always|never|stop \w+ing|{_LASTING})",
    rf"\b(?:i|we)(?:'d| would)?(?: really)? (?:want|need|expect|like|love) (?:you|all|every"
    rf"|your)\b[^.?]{{0,60}}\b(?:always|never|every time|{_LASTING})",
    r"\bplease (?:always )?keep (?:your |all |the )?(?:answers|replies|responses|explanations|messages"
    r"|summaries|comments|functions)\b",
    r"\bi(?:'d| would) (?:much )?(?:rather|prefer it if) you (?:didn't|did not|don't|never|always)\b ?\w",
    # A request without emojis is never for one answer only.
    r"^(?:please,? )?(?:don't|do not|dont|never|stop|avoid) (?:use|using|add|adding|include|including|put|putting) "
    r"(?:any )?(?:emojis?|emoticons|exclamation marks|em[- ]dashes)\b(?! here\b| in (?:this|that|the)\b)",
    rf"{_CLAUSE_EN}(?:by default|whenever (?:you|possible)|every time you|each time you)\b[^?]{{3,}}",
)
HABIT_HINTS: Final = split_words(
    "usually|typically|normally|generally|often|tend to|regularly|mostly|always|never|every |used to|habit| only "
)
HABIT: Final = any_of(
    r"\b(?:i|we) (?:usually|typically|normally|generally|often|tend to|regularly|mostly|always|never)"
    r" (?!\w+ed\b|got|saw|did|went|came|took|made|gave|found|felt|met|get |see |run into|hit |forget|fail|had "
    r"|have |said|thought|knew|wonder|prefer|like|hate|love)\w+",
    r"^every (?:single )?(?:day|morning|afternoon|evening|night|week|weekend|month|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday)\b[^,.]{0,20},? (?:i|we) ",
    r"\b(?:i|we) [^.?]{3,60} every (?:single )?(?:day|morning|afternoon|evening|night|week|weekend|monday"
    r"|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
    r"\bi(?:'m| am) (?:used to|in the habit of)\b",
    r"\b(?:i|we) (?:work|meet|ship|release|deploy|merge|review|test|commit|publish|eat|drink|travel|travel|run|code) "
    r"(?:[\w-]+ ){0,3}?only (?:on|in|at|after|before|from|with|during|every)\b",
)
BACKGROUND_HINTS: Final = split_words(
    "i am|i'm|i work|i study|i teach|i currently|i now|i mostly|i mainly|my |i live|i come|i grew|i lead|i manage"
    "|i run|i own|i've|i have|i speak|our |we |we'|we'"
)
BACKGROUND: Final = any_of(
    r"\b(?:i am|i'm) (?:currently |now |also )?(?:an?|the) (?!bit|little|lot|fan|big fan|huge fan|few|couple"
    r"|moment|person who|victim|believer)"
    r"(?:[\w/+#.-]+ ){0,4}?(?:\w{2,}(?:er|or|ist|ian|ant|eer|ect|yst|ive)|student|lead|head|intern|dev|cto|ceo"
    r"|nurse|novice|newbie|expert|freelance\w*|parent"
    r"|native speaker|pm|sre|dba|phd|postdoc|scientist|analyst|founder|fellow|chef|pilot)s?\b",
    r"\bi (?:currently |now |mostly |mainly )?(?:work|study|teach) (?:as|at|in|on|for|with)\b(?! it| this| that)",
    r"\bmy (?:full )?(?:name|time ?zone|native language|first language|mother tongue|e-?mail(?: address)?"
    r"|job(?: title)?|role|title|birthday|company|employer|laptop|machine|os|operating system|shell|locale"
    r"|editor|ide|location|city"
    r"|hometown|major|profession|username|handle|pronouns|age|background)(?:'s| is| are) (?!not |what|wrong"
    r"|broken|slow|down)\w",
    r"\b(?:i am|i'm) no longer (?:an?|the) (?!bit|little|lot|fan|few|couple|moment)\w+",
    r"\b(?:i am|i'm) (?:also |strictly |actually |not |no longer |now )*(?:a )?(?:vegetarian|vegan|allergic to"
    r"|colou?r[- ]?blind|left[- ]handed"
    r"|dyslexic|deaf|blind|diabetic|lactose intolerant|gluten|celiac|retired|self[- ]employed|bilingual)",
    r"\bi speak (?!to|with|for|about|of|up)\w+",
    r"\bi (?:live in|come from|am from|'m from|am based in|'m based in|grew up in|lead the|lead a|manage the"
    r"|manage a|run the|own the)\b",
    r"\bi(?:'m| am) (?:based in|from|responsible for|in charge of|new to|not (?:very |so |too )?familiar with"
    r"|familiar with|fluent in)\b",
    r"\bi(?:'ve| have) (?:been )?(?:\w+ing|worked|used|written|programmed)\b[^.?]{2,60}\b(?:for"
    r"|since) (?:about |over |almost |nearly |the last |the past |more than )?(?:\w+ )?(?:years?|months?"
    r"|decades?|\d{4})\b",
    r"\bi(?:'ve| have) (?:about |over |almost |nearly |more than )?(?:\w+ )?(?:years?|decades?)(?: of"
    r"|') (?:\w+ ){0,6}experience\b",
    r"\b(?:our|my) (?:team|company|project|organi[sz]ation|stack|backend|front-?end|shop|startup|lab|group"
    r"|codebase|production|infrastructure|infra|department|product|ci|pipeline|api|app|website|site|database"
    r"|servers?|services?|repo|repository|monorepo|cluster|tests?|main branch|default branch|frontend|code)\b"
    r"(?: \w+){0,3}? (?:uses?|runs?|is (?:built|written|based|hosted|deployed|running|called)|are (?:written"
    r"|hosted|deployed)|consists of|is (?:on|in)|has \d+)(?! (?:out of|fine|ok|again|slow|into))\b",
    r"\bwe(?:'re| are)? (?:currently |mostly |mainly |all )?(?:use|run|deploy|host|build on|running|using"
    r"|deploying|hosting|develop)\b(?! this| that| it| the (?:same|first|second|following))[^.?]{2,100}"
    r"\b(?:in production|at work|for (?:everything|all|our)|on (?:aws|gcp|azure|bare metal|premises|kubernetes)"
    r"|everywhere|internally)\b",
)
_SUBJECT: Final = (
    r"(?:we|our|all|every|each|any|(?:the|this) (?:new |final |whole |entire )?(?:services?|app|application"
    r"|api|system|product|project|site|website|web site|page|server|database|solution|code|codebase|release"
    r"|budget|deadline|response|output|answers?|report|design|ui|interface|client|data|build|team|tool|library"
    r"|program|feature|document|deliverable|migration|deployment|backend|frontend|platform|package|image"
    r"|binary|model|plugin)|responses?|code|commits?|nothing|nobody|no one)"
)
CONSTRAINT_HINTS: Final = split_words(
    "must|shall|has to|have to|needs to|need to|required to|can't|cannot|can not|may not|not allowed|aren't allowed"
    "|isn't allowed|deadline| due |budget|limit|quota|maximum|minimum|exceed| than |forbidden|prohibited|permitted"
    "|only python|stuck on"
)
CONSTRAINT: Final = any_of(
    rf"(?:^|[,;:.(]\s?|\band |\bbut |\bthat )(?:{_SUBJECT} )(?:[\w'’/-]+ ){{0,5}}?(?:must|shall)(?: not| never"
    rf"|n't)?(?: also| always| only)? (?!be (?:a|an|the|something|some|kidding|joking|because|wrong|right"
    r"|that|it|tired|nice|hard|great|why|there|here|like|due)\b|have been|have (?:\w+ed)\b|say|admit|confess"
    r"|know|ask|see|think|feel|mean|understand)\w+",
    rf"(?:^|[,;:.(]\s?|\band |\bbut ){_SUBJECT} (?:[\w'’/-]+ ){{0,5}}?(?:has to|have to|needs to|need to"
    rf"|is required to|are required to) (?:be |stay |run |work |support |fit |remain |comply |finish |ship "
    rf"|keep |use |go live)",
    rf"\b{_SUBJECT} (?:[\w'’/-]+ ){{0,5}}?(?:can't|cannot|can not|may not|must not|mustn't|is not allowed to"
    rf"|are not allowed to|aren't allowed to|isn't allowed to)"
    r" (?:use|exceed|store|send|access|depend|include|contain|require|leave|be (?:more|over|larger|longer"
    r"|exposed|shared|public)|go (?:over|above|beyond)|add|rely|upgrade|change|break|call|install"
    r"|move)\b(?! (?:it|this|that|them|these)\b)",
    r"\b(?:the |our |my )?(?:hard )?deadline (?:is|for [\w ]{1,30} is|was moved to)\b",
    r"\b(?:is|are) due (?:on|by|next|this|in)\b",
    r"\b(?:the|our|my) (?:\w+ )?(?:budget|limit|quota|maximum|minimum) (?:is|of|for|must|can't|cannot)\b",
    r"\b(?:must not|cannot|can't|may not|should never|must never) exceed\b",
    r"\b(?:i|we) (?:can't|cannot|can not|may not|must not|mustn't) (?:spend|pay|use|take|allocate|afford|store|go)\b"
    r"[^.?]{0,20}?\b(?:more than|over|above|longer than|less than|under) \$?€?\d",
    r"\bno (?:more|later|less|fewer) than\b[^?]{2,}",
    r"\b(?:is|are) (?:strictly )?(?:forbidden|prohibited|not permitted)\b",
    r"\bonly python \d|\bstuck on (?:python|node|java|windows|ubuntu)\b",
)
DEFINITION_HINTS: Final = split_words("stands for|short for|abbreviation|mean|refers|refer to|defined|denote")
DEFINITION: Final = any_of(
    r"\b[\w▪\"'-]{1,40} (?:stands for|is short for|is an abbreviation (?:of|for))\b[^?]{3,}",
    r"^(?:in (?:our|my|this) [\w ]{2,30},? |for us,? |here,? |with us,? |by [\w▪\"' -]{2,30} (?:i"
    r"|we) ).{0,40}?\b(?:means?|refers? to|is defined as|denotes?)\b[^?]{4,}",
)
CORRECTION_START: Final = any_of(
    r"^(?:no|nope|nah|wrong|incorrect|not quite|not exactly|correction|actually|that(?:'s| is) (?:wrong|incorrect"
    r"|not right|not correct|not true|a mistake)"
    r"|you(?:'re| are) (?:wrong|mistaken)|you got (?:it|that) wrong|that isn't right|this is wrong)\b",
)
CORRECTION: Final = any_of(
    r"\b(?:should|must|needs to|ought to) (?:be|use|have|go|return|say|read|point|live|run)\b"
    r"|\bnot \w[^.]{0,40}\bbut\b|,? not [\w\"'./-]+[.!]?$|\binstead\b|\bi (?:meant|said|asked for)\b"
    r"|\bit(?:'s| is) (?:actually )?[^.?]{2,60}, not\b|\bis (?:actually|really|in fact)\b"
    # The corrected value alone: «it's 8080».
    r"|[,.:]\s*(?:it|that|the [\w ]{1,30}?)(?:'s| is) (?:on |in |at |version |port )?(?=[\w./:-]*\d)[\w./:-]+[.!]?$",
)
QUESTION: Final = any_of(
    r"[?？][\s”」\"')）]*$",
)
POLITE_REQUEST: Final = any_of(
    rf"\b(?:can|could|would|will) you (?:please |kindly )?(?:always|never|stop \w+ing|{_LASTING})",
    rf"\b(?:can|could|would|will) you\b[^?]{{3,80}}\b{_LASTING}",
)
EXAMPLE: Final = any_of(
    r"\bfor example\b|\bfor instance\b|\be\.g\.|\bhypothetically\b|\bpretend\b|\bimagine\b|\bsuppose\b",
)
HEDGE: Final = any_of(
    r"\bmaybe\b|\bperhaps\b|\bmight\b|\bnot sure\b|\bundecided\b|\bhaven't decided\b|\bi guess\b|\bi wonder\b"
    r"|\bpossibly\b|\bwould have\b|\bcould have\b",
)
NOT_SO: Final = any_of(
    r"\bnot that (?:i|we)\b|\bnever said\b|\bdidn't say\b|\bdid not say\b|\b(?:don't|do not|doesn't|does not"
    r"|didn't) (?:have|need) to\b|\bneedn't\b|\bneed not\b"
    r"|\b(?:don't|do not) (?:think|believe|feel) (?:that )?(?:i|we)\b|\b(?:wouldn't|would not|can't|cannot|won't) say\b"
    r"|\bdoubt (?:that |if |whether )?(?:i|we)\b|\bi (?:thought|assumed) (?:that )?(?:i|we)\b|\bnot saying\b"
    r"|\b(?:nobody|no one) (?:says|said)\b|\b(?:not|isn't|hardly) true that\b"
    r"|\b(?:it's|it is|that's|that is) (?:just |simply )?(?:wrong|false|untrue|incorrect|a lie) that\b"
    r"|\bis what you (?:said|wrote|think|thought|claim(?:ed)?)\b|\bi was (?:just |only )?(?:joking|kidding|lying)\b"
    r"|\bdon't mind\b|\bno need\b|\bdon't (?:always|care)\b|\bnot always\b|\bdon't (?:really )?have a preference\b",
)
PAST: Final = any_of(
    r"\b(?:used to|previously|formerly|back then|in the past|years ago|once)\b[^,.]{0,20}$",
)
PASSING: Final = any_of(
    r"\bthis time\b|\bfor now\b|\bjust this once\b|\bthis once\b|\bfor this (?:one|task|file|example|script)\b"
    r"|\btoday only\b|\bright now,? just\b",
)
REPORTED: Final = any_of(
    r"\b(?:he|she|they|someone|somebody|people|everyone|everybody|(?:my|our|the|a|an|his|her|their"
    r"|some) (?:[\w-]+ )?(?:boss|colleague|co-?worker|customer|client|friend|manager|teacher|docs?"
    r"|documentation|readme|article|book|author|guide|manual|teammate|wife|husband|brother|sister|spec|error"
    r"|message|tutorial|post|paper|report|log|output|comment|guy|lead))s?"
    r"(?: also| always| really| just| clearly)? (?:said|says|say|told|asked|asks|wrote|writes|prefers?|thinks?"
    r"|likes?|suggests?|suggested|recommends?|recommended|wants?|claims?|claimed|insists?"
    r"|insisted|mentioned|mentions?|reads?|hates?|loves?|states?|stated)\b",
    r"\bwho (?:also |always |really )?(?:says?|said|thinks?|claims?|insists?)\b",
    r"^(?!(?:i|we|you|as i|like i|as we)\b)[a-z][\w'-]*(?: [a-z][\w'-]*)? (?:said|says|wrote|writes|told me"
    r"|asked)\s?[,:]",
    r"\b(?:my|the|a) (?:\w+ )?(?:character|hero|heroine|protagonist|narrator|persona)\b",
    # Beliefs of the assistant, and texts about the speaker, are not statements of the speaker.
    r"\byou (?:just |also |always |once |still |really )?(?:said|say|think|thought|wrote|claim(?:ed)?|believed?"
    r"|assumed?|told (?:me|us|him|her|them)|keep saying) (?:that )?(?:i|my|we|our)\b",
    r"\b(?:the|this|that|my|our|your) (?:[\w-]+ )?(?:csv|file|form|profile|resume|cv|novel|story|song|movie|film"
    r"|letter|e-?mail|bot|assistant|record|database|page|website|screen) (?:says|said|claims|claimed|states|stated"
    r"|thinks|shows|lists)\b",
    r"\baccording to (?!me\b)",
    r"^in (?:the|this|that|my|our|a) (?:\w+ )?(?:story|novel|book|game|film|movie|play|song|dream|role-?play"
    r"|scenario)\b,?\s+(?:i|my|we|our)\b",
)
MADE_TO_ORDER: Final = any_of(
    r"^(?:please,? |can you |could you )*(?:write|draft|compose|generate|create|make up|make|give|tell|show)(?: me"
    r"| us)? (?:a|an|the|some|one|two|three|five)\b",
)
GENERAL: Final = any_of(
    r"^in (?:java|python|go|rust|c\+\+|c#|javascript|typescript|sql|html|css|linux|git|http|rest|kubernetes|docker"
    r"|react|vue|mysql|redis|english|chinese|general|mathematics|physics)\b",
)
NOT_X_BUT_Y: Final = any_of(r"^not [^.,?]{1,30}, but [^.,?]{1,40}[.!]?$")
HYPOTHETICAL: Final = any_of(
    r"^(?:and if|but if|if|suppose|supposing|imagine|assuming|assume|what if|unless|let's say|even if|were i)\b"
)
REMEMBER: Final = any_of(
    r"^(?:ok,? |okay,? |so,? |and )?(?:please,? )?(?:(?:remember|keep in mind|note|make a note)(?::| that| this:)"
    r"|(?:for future reference|for the record|fyi)[,:])\s*(?=\w+ \w)"
)
_NOT_EN: Final = (
    r"(?<!\bi )(?<!\bwe )(?<!\bthey )\b(?:don't|do not|dont|never|please not|no need to) (?:ever |please )?"
)
_KEEP_EN: Final = r"(?:remember|memori[sz]e|save|store|record|retain|note(?: down)?|write down|keep in mind)"
PRIVATE: Final = any_of(
    rf"{_NOT_EN}{_KEEP_EN} (?:that )?(?:i|my|i'm|i've|we|our)\b",
    r"(?<!\bi )(?<!\bwe )(?<!n't )(?<!not )(?<!dont )(?<!never )\bforget (?:that |about )?"
    r"(?:i|i'm|i've|my|where i|who i|what i|how i)\b",
)
PRIVATE_ALL: Final = any_of(
    rf"{_NOT_EN}{_KEEP_EN} (?:this|it|that|any of (?:this|it|that)|(?:what|anything) (?:i|follows)[^,.:;]{{0,30}}"
    r"|(?:this|the following|my next|the next)(?: (?:message|conversation|chat|part|bit))?)"
    r"(?=\s*(?:[,.:;!—-]|$))",
    r"\boff the record\b|\b(?:just |strictly )?between (?:us|you and me)(?=\s*[,:;—-])",
)
