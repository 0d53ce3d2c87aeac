"""Scripts without spaces between words, which are segmented and romanised with a dictionary: Japanese, Chinese, Thai.

A dictionary is a gzip file of UTF-8 lines (its sources: `data/LICENCES.txt`):

    one line with a character per word class, which says how its words are written: `<` as one word with the word
        before them, `>` as one word with the word after them, `.` as words of their own
    one line per class: the costs of a word of this class followed by a word of each class, separated by spaces
    an empty line
    one line per written form, sorted by bytes: the form, a tab, its readings separated by spaces. A reading is
        `latin,class,cost`

As in MeCab, the more frequent a word or a pair of classes is, the lower is its cost, and the segmentation with the
lowest sum of costs is used. Entries are searched as lines of bytes: a dict of words would need several times the
memory.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.romanise.alphabets import romanisation
from imgproc_local.domain.romanise.syllables import HANGUL, KANA, hepburn, without_length, without_q

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff々〆〇"
THAI = "\u0e01-\u0e4e"
_HAN_RUN, _THAI_RUN, _JAPANESE_RUN = (re.compile(f"[{letters}]+") for letters in (_HAN, THAI, _HAN + KANA))
_KATAKANA_RUN = re.compile("[\u30a1-\u30fa\u30fc-\u30fe]+")
_COUNTERS = romanisation("年月日時分人名円階", "nen gatsu nichi ji fun nin mei en kai")
"""Japanese counters and their readings after digits. As words, the same characters have other readings."""
_COUNTER = re.compile("(?<=[0-9])[" + "".join(_COUNTERS) + "]")

_TRADITIONAL = frozenset(
    "這們個沒與裡灣點臺總廣來國學會對兩從樣寫圖舊邊體關變聲讀證發實寶戀歡獨覺鐵數單戰當賣麼媽爺擺攝擠攤區醫號壓圍"
    "團圓檢權櫻澤濟淨淺滿灑爐燈爭獎畫疊盡瞭禮稱穩經續繼繩聽腦膽臉舉藝藥蘋處螢裝觀觸豐譯讓豬賽贊轉輕遲邏釋鄰錢鑰隨"
    "隱雖雙雜靜顏顯餃驗髮鬥鬧鹽麥齊齒齡龜樂廳應歸戲據擔斷樓歐氣濱濕營獻縣萬鐘險靈龍壽"
)
"""Traditional Chinese characters in Japan's character set, for which Japanese uses simpler ones today."""
_PLACES = {
    "ja": "東京 京都 大阪 名古屋 横浜 札幌 福岡 長崎 奈良 北海道 仙台 富士山 鎌倉 箱根 新宿 銀座 浅草 秋葉原"
    " 池袋 上野 品川 成田 千葉 埼玉 熊本 日光 日本 東京都 京都市 大阪市",
    "zh": "北京 上海 重慶 天津 南京 广州 香港 澳門 台北 高雄 台中 台湾 西安 成都 武漢 杭州 蘇州 青島 大連 長城"
    " 中国 黄山 桂林 拉薩 廈門 昆明 西藏 四川",
}
"""Places whose characters both languages use."""
_LANGUAGE_OF_PLACE = {place: code for code, places in _PLACES.items() for place in places.split()}


class _Word(Struct, frozen=True):
    """A word of a segmented text. `latin` is "" if it has no reading. `joins` is that of its class: `<`, `>` or `.`.

    The defaults are those of a single character without an entry. Its class, 0, is in Japanese that of general nouns,
    which are not joined to neighbours; entries cost less.
    """

    written: str
    latin: str = ""
    word_class: int = 0
    cost: int = 1200
    joins: str = "."


class _Path(Struct, frozen=True):
    """The cheapest segmentation that ends with `word`, with `before` as all but its last word."""

    cost: int
    word: _Word
    before: _Path | None


class _Dictionary:
    """The words of a language with their romanisation."""

    def __init__(self, content: bytes) -> None:
        header, _, entries = content.partition(b"\n\n")
        self._joins, *rows = header.decode().split("\n")
        self._costs = [[int(cost) for cost in row.split()] for row in rows]
        self._lines = entries.splitlines()

    def segment(self, text: str, grouped: re.Pattern[str] | None = None) -> list[_Word]:
        """The words of the cheapest segmentation of `text`.

        A match of `grouped` is also considered as one word, without a reading, beside the entries that begin there.
        """
        text = text[:200]  # a slug is full before that
        # the cheapest path to each position, by the class of its last word
        paths: list[dict[int, _Path]] = [{} for _ in range(len(text) + 1)]
        for start in range(len(text)):
            if start and not paths[start]:
                continue
            for word in self._words_at(text, start, grouped):
                cost, before = min(
                    ((path.cost + self._costs[last][word.word_class], path) for last, path in paths[start].items()),
                    key=lambda pair: pair[0],
                    default=(0, None),
                )
                ending_here = paths[start + len(word.written)]
                old = ending_here.get(word.word_class)
                if old is None or cost + word.cost <= old.cost:
                    ending_here[word.word_class] = _Path(cost + word.cost, word, before)
        words: list[_Word] = []
        last = min(paths[-1].values(), key=lambda path: path.cost, default=None)
        while last is not None:
            words.append(last.word)
            last = last.before
        return words[::-1]

    def _words_at(self, text: str, start: int, grouped: re.Pattern[str] | None) -> list[_Word]:
        """All words of at most 16 characters that begin at `start`; at least one."""
        words: list[_Word] = []
        for end in range(start + 1, min(len(text), start + 16) + 1):
            key = text[start:end].encode()
            at = bisect_left(self._lines, key)
            if at < len(self._lines) and self._lines[at].startswith(key + b"\t"):
                words += self._readings(self._lines[at].decode())
                at += 1
            if at == len(self._lines) or not self._lines[at].startswith(key):
                break
        if match := grouped.match(text, start) if grouped else None:
            words.append(_Word(match[0], cost=400))  # less than its characters, more than entries
        return words or [_Word(text[start])]

    def _readings(self, line: str) -> list[_Word]:
        """The words of one entry."""
        written, _, readings = line.partition("\t")
        fields = (reading.split(",") for reading in readings.split(" "))
        return [_Word(written, latin, int(index), int(cost), self._joins[int(index)]) for latin, index, cost in fields]


@cache
def _load_dictionary(name: str) -> _Dictionary:
    """The dictionary in `data/NAME.gz`, read when a text first needs it."""
    return _Dictionary(gzip.decompress((files(__package__) / "data" / f"{name}.gz").read_bytes()))


def japanese_or_chinese(text: str, requested: str, text_language: str | None) -> str:
    """Replaces kana and Chinese characters by their romanised words: see `romanised_words`.

    Characters that can be both Japanese and Chinese, or are Korean, are dropped.
    """
    language = _language_of_han(text, requested, text_language)
    if language == "ja":
        return _japanese(text)
    return _HAN_RUN.sub(lambda run: f" {_chinese_words(run[0])} " if language == "zh" else " ", text)


def thai(text: str) -> str:
    """Replaces runs of Thai by their romanised words (Royal Thai General System).

    A run is dropped if less than half of its characters belong to words in the dictionary. Such a run could only be
    romanised letter by letter, and Thai leaves some vowels unwritten.
    """
    return _THAI_RUN.sub(lambda run: f" {_thai_words(run[0])} ", text)


def languages_of_han(text: str) -> set[str]:
    """The languages whose character set has all Chinese characters of `text`: `ja`, `zh`, `zh-hant` (traditional).

    If none has all, those that lack the fewest, and no more than a tenth: a sign may be misread, or mix old and new.
    """
    han = "".join(_HAN_RUN.findall(text))
    if "々" in han or "〆" in han:
        return {"ja"}
    charsets = {"ja": "shift_jis", "zh": "gb2312", "zh-hant": "big5"}
    lacking = {code: len(han) - len(han.encode(name, "ignore").decode(name)) for code, name in charsets.items()}
    found = {code for code, count in lacking.items() if count == min(lacking.values()) <= len(han) / 10}
    return found - {"ja"} if _TRADITIONAL.intersection(han) else found


def _language_of_han(text: str, requested: str, text_language: str | None) -> str:
    """The language of the Chinese characters in `text`: `ja`, `zh`, or "" if they can be both, or are Korean.

    These decide, in this order: kana (Japanese), `text_language`, Hangul (Korean), characters that only one of the
    languages uses, well-known places, and `requested`.
    """
    if re.search(f"[{KANA}\uff66-\uff9f]", text):
        return "ja"
    runs = _HAN_RUN.findall(text)
    if runs and text_language in ("ja", "zh", "zh-hant"):
        return text_language[:2]
    if not runs or text_language == "ko" or re.search(f"[{HANGUL}]", text):
        return ""
    languages = languages_of_han(text)
    if languages and (languages == {"ja"} or "ja" not in languages):
        return "ja" if "ja" in languages else "zh"
    places = (_LANGUAGE_OF_PLACE[run] for run in runs if run in _LANGUAGE_OF_PLACE)
    return next(places, requested if requested in ("ja", "zh") else "")


def _japanese(text: str) -> str:
    """Replaces runs of kana and kanji by their romanised words.

    A run without kanji is romanised as one word, because hiragana alone can't be segmented with certainty. A character
    without a reading is dropped.
    """
    text = _COUNTER.sub(lambda counter: f" {_COUNTERS[counter[0]]} ", unicodedata.normalize("NFKC", text))
    return _JAPANESE_RUN.sub(lambda run: f" {without_q(_japanese_words(run[0]))} ", text)


def _japanese_words(run: str) -> str:
    if not _HAN_RUN.search(run):
        return without_length(hepburn(run))
    words = _load_dictionary("japanese").segment(run, _KATAKANA_RUN)
    return _joined(word if word.latin else replace(word, latin=hepburn(word.written)) for word in words)


def _chinese_words(run: str) -> str:
    """The words of simplified or traditional characters in Hanyu Pinyin without tones, with u for ü, as in URLs."""
    return _joined(_load_dictionary("chinese").segment(run.translate(_simplified())))


def _thai_words(run: str) -> str:
    words = _load_dictionary("thai").segment(run.replace("ํา", "ำ"))
    known = sum(len(word.written) for word in words if word.latin)
    return _joined(words) if known * 2 >= sum(len(word.written) for word in words) else ""


@cache
def _simplified() -> dict[int, str]:
    """The simplified form of each traditional character."""
    traditional, simplified = (files(__package__) / "data" / "simplified.txt").read_text("utf-8").split()
    return str.maketrans(dict(zip(traditional, simplified, strict=True)))


def _joined(words: Iterable[_Word]) -> str:
    """The romanised words separated by spaces, or joined to their neighbours as their classes say.

    Words without a reading are dropped, and separate their neighbours.
    """
    out, last = "", "."
    for word in words:
        if word.latin:
            out += word.latin if last == ">" or (word.joins == "<" and out) else f" {word.latin}"
        last = word.joins if word.latin else "."
    return out.strip()
