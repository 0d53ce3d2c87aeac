"""Detects the language of a text, unless it is uncertain.

A script that only one supported language uses determines the language. Texts in Latin and Cyrillic letters are scored
by `ngram_table.py`. The languages in Chinese characters, Devanagari and Arabic letters are distinguished by characters
and words that only one of them uses. An unknown language is better than a wrong one: a text of unknown language is
still used, but a text of a wrong language is published as if it were in the requested one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.languages.table import language_table
from imgproc_local.vision.text.ngram_table import probabilities

MIN_PROBABILITY = 0.93
"""The minimum probability of a language in Latin or Cyrillic script."""
MIN_PROBABILITY_OF_NAMES = 0.985
"""The same for two or three words with capitals, which are probably a name, such as "Lisboa Portugal"."""
MIN_WORDS = 2
"""The minimum number of different words. A single word exists in many languages, and may be a name."""
MIN_SHARE_OF_SCRIPT = 0.8
"""The share of the letters of a text that must be in one script; the others may be in quoted names."""
CERTAIN, PROBABLE = 0.99, 0.9
"""A text is certainly in a language that has at least the first probability. It is in another language if the requested
one has less than 1 − `CERTAIN` and another one more than `PROBABLE`."""
PART_WORDS = 5
"""A part of a text is in another language if this many words in a row are."""

_RELATED = (("da", "nb", "nn"), ("cs", "sk"), ("hr", "sl"))
"""Languages that share the probability of a short text in one of them."""
UNSPACED = frozenset(("ja", "zh", "th"))
"""Languages that are written without spaces between words."""


_SCRIPTS = {
    name: re.compile(f"[{ranges}]")
    for name, ranges in {
        "latin": "A-Za-z\u00aa-\u024f\u1e00-\u1eff\u2c60-\u2c7f\uff21-\uff3a\uff41-\uff5a",
        "greek": "\u0370-\u03ff\u1f00-\u1fff",
        "cyrillic": "\u0400-\u052f",
        "hebrew": "\u0590-\u05ff\ufb1d-\ufb4f",
        "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
        "devanagari": "\u0900-\u097f",
        "thai": "\u0e00-\u0e7f",
        "kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
        "han": "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
        "hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3\uffa0-\uffdc",
    }.items()
}
"""A pattern for one letter of each script, with full-width, half-width and compatibility forms."""
_MODIFIER_LETTERS = re.compile("[\u02b0-\u02ff]")
"""Letters without a script, such as the Ukrainian apostrophe and the Hawaiian okina. They are ignored."""
_SCRIPTS_OF = {
    "ru": ("cyrillic",), "uk": ("cyrillic",), "bg": ("cyrillic",), "el": ("greek",), "he": ("hebrew",),
    "ar": ("arabic",), "hi": ("devanagari",), "th": ("thai",), "ja": ("kana", "han"), "zh": ("han",),
    "ko": ("hangul", "han"),
}  # fmt: skip
"""The scripts of the languages that do not use Latin."""
_LANGUAGE_OF_SCRIPT = {"hangul": "ko", "thai": "th", "greek": "el", "hebrew": "he"}
"""Scripts that only one supported language uses."""

_SIMPLIFIED = re.compile(
    "[这们说话请谁时间东车门见长风飞鸟鱼马图书馆师乐红绿蓝银钱铁镇边过还进远运连选陈阳阴阵际险难电云节场块坏坛务动办劳势华单卖"
    "卫厂历压厅发变叶叹吴员响问团围园圆圣层岁岛岭币带帮应庙废广张弯强归忆怀总恶惊惯愿战户扑执扩扫扬护报拟拥择挂挡挤挥换据摄摆"
    "撑无显晓暂术杀杂权极构枪柜标栋栏树样档桥梦检楼欢毁毕气汇汉汤沟泪洁洒浆测济浓涛润涨渐渔满滨灭灵炼热爱爷牵狮猎环现玛畅"
    "疗疯盐监盖盘矿码砖础确种积稳穷竞笔笼筑签简类粮纪纸纹线组细织终经结绕给络绝统继绩绪续维编缘缝缩网罗罚职联肃肠肤脉脏脑"
    "脚脸腾舰艺苏苹药莲获萧营萨葱虾蚁蚂补观视览觉认讨让训议讲许论设访证评识诉词译试诗诚询该详语误诸读课调谈谊谋谜谢谱"
    "贝负财责贤败货质购贯贴贵贷费贺资赏赖赛赞赠赢赶跃踪转轮软轻载辆辈辉输达迁迈违迟适递遗邓邮邻郑酱释鉴针钉钓钢钟钥钩钻"
    "铃铅铜铝铺链销锁锅错锋镜闪闭闯闲闷闹闻阁阅队阶陆隐雾韩页顶项顺须顾颂预领频题颜额飘饥饭饮饰饱饺饼饿驱驶驻驾骄骑骗鲁"
    "鲜鸡鸣鸭鹅鹰齐龙龟]"
)
"""Characters of Simplified Chinese that neither Traditional Chinese nor Japanese uses."""
_TRADITIONAL = re.compile(
    "[這們個說沒與裡灣點臺總廣來國學會對兩從樣歲寫圖舊邊體關變聲讀證發實寶戀歡獨覺鐵數單戰當黃賣嗎麼媽爺妳貓雞麵擺攝擠攤區醫"
    "號壓圍團圓檢權櫻澤濟溫淨淺滿灑爐燈爭狀獎畫疊盡眾瞭禮稱穩綠經續繼緣繩聽腦膽臉舉藝藥蔥蘋處螢裝褲觀觸豐譯讓豬賽贊"
    "轉輕辦遲邏鄉醬釋鄰錢鑰隨隱雖雙雜靜顏顯餃驗髮鬥鬧鹽麥齊齒齡龜]"
)
"""Characters of Traditional Chinese that neither Simplified Chinese nor Japanese uses."""
_CHINESE = re.compile("[你她您呢吧啊哪很喝爸哥孩黑]|(?<![目標])的(?![地中])|[了在是].*[了在是]")
"""Characters that Simplified and Traditional Chinese share, but not Japanese. 了, 在 and 是 also occur in Japanese
words, but hardly twice in a text without kana."""
_JAPANESE = re.compile(
    "[々〆駅桜円図売読気県込働畑峠辻榊匂枠栃沢浜広駆変総経続絵戦転軽鉄銭関検権歩毎黒渓渋焼猟獣団囲圧塩壱姉嬢実対専巣帯帰庁廃弐従"
    "徳徴応恵悩悪懐戯払抜択拠挙挿捜掲揺摂撃斎暁暦曽栄桟楽様歓歯涙済渇満滝滞瀬県畳発砕稲穂窓竜粛粋継緑縁縄縦繊聴脳臓荘蔵薬"
    "蛍覚覧観訳証読謡譲豊賛辺遅郷酔醸釈鉱鋳錬録闘陥険隠隣雑霊顔顕騒験髪鶏麺黙齢]"
)
"""Characters that only Japanese uses."""

_HINDI = re.compile(
    r"(?<![^\s,])(है|हैं|का|की|के|में|और|पर|से|ने|वाला|वाली|वाले|मेरा|मेरी|मेरे|हमारा|हमारी|हमारे|अपने|साथ)(?![^\s,।])"
)
_MARATHI = re.compile(
    r"(?<!\S)(आहे|आहेत|आणि|मध्ये|वर|च्या|माझ्?\S{1,2}|आमच्?\S{1,2})(?![^\s,।.])|ळ|(च्या|तील|ांनी|मध्ये)(?![^\s,।.])"
)
_NEPALI = re.compile(r"(?<!\S)(छ|छन्|मा|गर्दै|भएको|मेरो|हाम्रो)(?![^\s,।.])|हरू|ेको(?![^\s,।.])")
"""Words and letters of the languages in Devanagari script. A text with those of Marathi or Nepali is not Hindi."""
_LETTERS_NOT_IN_ARABIC = re.compile("[پچژگکیےٹڈں]")
_URDU = re.compile("[ٹڈڑےں]")
_PERSIAN = re.compile(r"[پچژگ]|[کی](?!\w)|(?<!\w)(در|از|با|است)(?!\w)")
_ARABIC = re.compile(r"(?<!\w)[وبلفك]?ال\w|(?<!\w)(في|من|على|مع|إلى|عند|أمام)(?!\w)|[ةأإى]")
"""Letters and words of the languages in Arabic script. Source: the main exemplar characters of CLDR 48."""


def detect_language(text: str) -> str | None:
    """The code of the language of `text`; None if it is uncertain.

    The code is ISO 639-1, or "zh-hant" for Traditional Chinese. It may be a language that the service does not support.
    """
    letters = _letters(text)
    if len(letters) < 2:
        return None
    counts = {name: len(pattern.findall(letters)) for name, pattern in _SCRIPTS.items()}
    if counts["kana"] and counts["kana"] + counts["han"] >= MIN_SHARE_OF_SCRIPT * len(letters):
        return "ja"
    script, count = max(counts.items(), key=lambda item: item[1])
    if count < MIN_SHARE_OF_SCRIPT * len(letters):
        return None
    match script:
        case "arabic":
            return _detect_arabic(text)
        case "devanagari":
            return _detect_devanagari(text)
        case "han":
            return _detect_chinese(text)
        case "cyrillic" | "latin":
            return _detect_by_ngrams(text, script)
    return _LANGUAGE_OF_SCRIPT[script]


@cache
def function_words(language_code: str) -> frozenset[str]:
    """The articles, prepositions and similar words of a language; empty for languages without a list."""
    is_known = language_code in LANGUAGES
    return frozenset(language_table(language_code).function_words.split()) if is_known else frozenset()


def scripts_of(language_code: str) -> tuple[str, ...]:
    """The names of the scripts of `language_code`."""
    return _SCRIPTS_OF.get(language_code, ("latin",))


def letters_by_script(text: str) -> dict[str, int]:
    """The number of letters of `text` in each script; "other" is for scripts that no supported language uses."""
    letters = _letters(text)
    counts = {name: len(pattern.findall(letters)) for name, pattern in _SCRIPTS.items()}
    return counts | {"other": len(letters) - sum(counts.values())}


def is_readable(text: str, language_code: str) -> bool:
    """Whether all letters of `text` are in Latin, which all readers know, or in a script of `language_code`."""
    scripts = ("latin", *_SCRIPTS_OF.get(language_code, ()))
    letters = _letters(text)
    return bool(letters) and all(any(_SCRIPTS[name].match(char) for name in scripts) for char in letters)


def is_other_language(words: Sequence[str], language: str) -> bool:
    """Whether `words` are clearly not in `language`, by script, characters or n-grams."""
    scripts = scripts_of(language)
    counts: Counter[str] = Counter()
    for word in words:
        for script, count in letters_by_script(word).items():
            # a Chinese character is a syllable or a word, so a Latin word counts as two characters at most
            counts[script] += min(count, 2) if script == "latin" and language in ("ja", "ko", "zh") else count
    in_script = sum(counts[script] for script in scripts)
    own = [word for word in words if any(letters_by_script(word)[script] for script in scripts)]
    # up to half of the letters may be in another script, as in names, if the other words are in the language
    is_mixed = scripts == ("latin",) and in_script < MIN_SHARE_OF_SCRIPT * counts.total()
    if in_script < 0.5 * counts.total() or (is_mixed and probability_of(language, own) < PROBABLE):
        return True
    match language:
        case "ja":
            return counts["han"] >= 8 and not counts["kana"]
        case "ko":
            return counts["han"] > counts["hangul"]
        case "zh":
            return counts["kana"] > 2 or detect_language("".join(words)) == "zh-hant"
        case "ar":
            return sum(bool(_LETTERS_NOT_IN_ARABIC.search(word)) for word in words) > 1
        case "hi":
            return detect_language(" ".join(words)) in ("mr", "ne")
    if scripts[0] not in ("latin", "cyrillic"):
        return False
    if len(words) < MIN_WORDS:
        return False
    found = probabilities(" ".join(words), scripts[0])
    related = (sum(found.get(code, 0) for code in group) for group in _RELATED)
    rival = max(*(found[code] for code in found if code), *related)
    # small models often answer in English, which is recognised sooner
    is_english = language != "en" and found[language] < 0.2 and found.get("en", 0) > 0.5
    return is_english or (found[language] < 1 - CERTAIN and rival > PROBABLE) or _has_rival_part(words, language)


def probability_of(language_code: str, words: Sequence[str]) -> float:
    """The probability (0 to 1) that `words` are in a language; 0 if most of their letters are in another script."""
    counts = letters_by_script(" ".join(words))
    script = max(counts, key=lambda name: counts[name])
    is_scored = script in ("latin", "cyrillic") and script in scripts_of(language_code)
    return probabilities(" ".join(words), script)[language_code] if is_scored else 0.0


def _has_rival_part(words: Sequence[str], language: str) -> bool:
    """Whether `PART_WORDS` words in a row, with function words among them, are in another language."""
    own = function_words(language)
    for start in range(len(words) - PART_WORDS + 1):
        part = words[start : start + PART_WORDS]
        # words with capitals may be names, such as "Plaza de la Constitución"
        if sum(word.islower() for word in part) < PART_WORDS - 1:
            continue
        for rival in LANGUAGES:
            if sum(word in function_words(rival) and word not in own for word in part) > 1:
                found = probabilities(" ".join(part), scripts_of(language)[0])
                if found[language] < 1 - CERTAIN and found.get(rival, 0) > PROBABLE:
                    return True
    return False


def _letters(text: str) -> str:
    """The letters of `text`, without those that belong to no script."""
    return _MODIFIER_LETTERS.sub("", "".join(char for char in text if char.isalpha()))


def _detect_chinese(text: str) -> str | None:
    """The language of a text in Chinese characters without kana."""
    simplified, traditional = _SIMPLIFIED.search(text), _TRADITIONAL.search(text)
    if _JAPANESE.search(text):
        return None if simplified or traditional else "ja"
    if simplified and traditional:
        return None
    if traditional:
        return "zh-hant"
    return "zh" if simplified or _CHINESE.search(text) else None


def _detect_devanagari(text: str) -> str | None:
    marathi, nepali = _MARATHI.search(text), _NEPALI.search(text)
    if marathi or nepali:
        return None if marathi and nepali else "mr" if marathi else "ne"
    return "hi" if _HINDI.search(text) else None


def _detect_arabic(text: str) -> str | None:
    if _URDU.search(text):
        return "ur"
    if _PERSIAN.search(text):
        return None if _ARABIC.search(text) else "fa"
    return "ar" if _ARABIC.search(text) else None


def _detect_by_ngrams(text: str, script: str) -> str | None:
    """The language of a text in Latin or Cyrillic script."""
    words = dict.fromkeys(re.findall(r"[^\W\d_]{2,}", text))
    if len(words) < MIN_WORDS:
        return None
    may_be_name = len(words) <= 3 and all(word[0].isupper() for word in words)
    scored = " ".join(words) if may_be_name else text
    language, probability = max(probabilities(scored, script).items(), key=lambda item: item[1])
    min_probability = MIN_PROBABILITY_OF_NAMES if may_be_name else MIN_PROBABILITY
    return language if language and probability >= min_probability else None
