"""Whether Chinese characters are read as Japanese or as Chinese."""

from __future__ import annotations

import re

from imgproc_local.domain.romanise.japanese import HAN, KANA
from imgproc_local.domain.romanise.korean import HANGUL

_NOT_IN_MODERN_JAPANESE = frozenset(
    "會樂廳國學體灣戰區圖實寫鐵應變觀覺讀歸圓圍壓團對從戀戲據擔數斷樣樓歐氣澤濱濕營獨獻畫當發縣繼續聽聲臺舊萬藝處號裝觸譯豐轉邊醫鐘關險雙靈點龍壽廣"
)
"""Traditional Chinese characters for which Japanese uses simpler ones today."""
_JAPANESE_PLACES = (
    " 東京 京都 大阪 名古屋 横浜 神戸 札幌 福岡 広島 長崎 奈良 北海道 沖縄 仙台 富士山 鎌倉 金沢 箱根 新宿"
    " 渋谷 銀座 浅草 秋葉原 池袋 上野 品川 成田 千葉 埼玉 静岡 熊本 鹿児島 日光 日本 東京都 京都市 大阪市"
)
_CHINESE_PLACES = (
    " 北京 上海 重庆 重慶 天津 南京 广州 廣州 深圳 香港 澳门 澳門 台北 臺北 高雄 台中 台湾 臺灣 西安 成都"
    " 武汉 武漢 杭州 苏州 蘇州 青岛 青島 大连 大連 长城 長城 中国 中國 黄山 桂林 拉萨 拉薩 厦门 廈門 昆明"
    " 哈尔滨 哈爾濱 西藏 四川"
)
_LANGUAGE_OF_PLACE = dict.fromkeys(_JAPANESE_PLACES.split(), "ja") | dict.fromkeys(_CHINESE_PLACES.split(), "zh")


def language_of_han(text: str, requested: str, text_language: str | None) -> str:
    """The language of the Chinese characters in `text`: `ja`, `zh`, or "" if they can be both, or are Korean.

    These decide, in this order: kana (Japanese), `text_language`, Hangul (Korean), characters that only one of the
    languages uses, well-known places, and `requested`.
    """
    if re.search(f"[{KANA}\uff66-\uff9f]", text):
        return "ja"
    if text_language in ("ja", "zh"):
        return text_language
    if text_language == "ko" or re.search(f"[{HANGUL}]", text):
        return ""
    han = "".join(re.findall(f"[{HAN}]", text))
    may_be_japanese = _encodes(han, "shift_jis") and not _NOT_IN_MODERN_JAPANESE.intersection(han)
    may_be_chinese = _encodes(han, "gb2312") or _encodes(han, "big5")
    if may_be_japanese != may_be_chinese:
        return "ja" if may_be_japanese else "zh"
    for run in re.findall(f"[{HAN}]+", text):
        if run in _LANGUAGE_OF_PLACE:
            return _LANGUAGE_OF_PLACE[run]
    return requested if requested in ("ja", "zh") else ""


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
