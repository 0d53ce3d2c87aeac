"""Writes `*.gz`, `names-*.txt` and `simplified.txt` in `imgproc_local/domain/romanise/data/`. `romanise/dictionary.py`
describes the format of the dictionaries, `*.gz`.

    python build/dictionaries.py japanese FOLDER   the folder of mecab-ipadic 2.7.0 (Debian's package mecab-ipadic)
    python build/dictionaries.py chinese FOLDER    the folder of the Unihan database (Debian's package unicode-data);
                                                   needs the packages jieba and pypinyin, and
                                                   writes `simplified.txt` too
    python build/dictionaries.py names             `names-LANGUAGE.txt`: the names of places in CLDR, which comes with
                                                   the package babel
    python build/dictionaries.py thai FILE         a word, a tab, its romanisation in the Royal Thai General System, a
                                                   tab and its frequency per line: PyThaiNLP's `words_th.txt` and
                                                   `tnc_freq.txt`, romanised by `tltk.nlp.th2roman`

The licences of the sources are in `data/LICENCES.txt`. Needs this project to be installed.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from imgproc_local.domain.romanise.syllables import hepburn, without_length

DATA = Path(__file__).parent.parent / "imgproc_local" / "domain" / "romanise" / "data"
Reading = tuple[str, int, int]
"""The romanisation, the class of the word and its cost."""

COST_UNIT = 64
"""The costs of mecab-ipadic are divided by this number when they are written."""
COSTS_PER_E = 16
"""The cost of a word with a known frequency grows by this number for each factor of e by which the frequency falls."""
MAX_EXTRA_COST = 6000
"""A reading that costs more than the cheapest one of its form plus this, in the unit of mecab-ipadic, is left out."""
COST_LIMITS = {"Noun.place.csv": 8676, "Noun.name.csv": 9000, "Noun.org.csv": 6849, "Noun.proper.csv": 8538}
"""Entries of these files that cost at least this much did not occur in the corpus, and are left out."""
JAPANESE_ADDITIONS = {"一人": "hitori", "二人": "futari", "七五三": "shichigosan", "ひまわり": "himawari"}
"""Words that the dictionary lacks, or reads as a number with a counter."""
ADDITION_COST = -50
"""The cost of these words, so low that they are preferred to divisions into other words."""
CHINESE_PRONUNCIATIONS = ("重慶",)
"""Place names that mecab-ipadic reads as in Chinese. They are left out."""


def write(name: str, flags: str, rows: Iterable[Iterable[int]], entries: dict[str, list[Reading]]) -> None:
    """Writes `data/NAME.gz`. `flags` has one character per word class, `rows` the costs of each pair of classes."""
    lines = [flags, *(" ".join(map(str, row)) for row in rows), ""]
    for form in sorted(entries, key=str.encode):
        readings = sorted(entries[form], key=lambda reading: reading[2])
        lines.append(f"{form}\t{' '.join(f'{latin},{kind},{cost}' for latin, kind, cost in readings)}")
    content = "\n".join(lines).encode() + b"\n"
    (DATA / f"{name}.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{name}: {len(entries)} forms, {len(content)} bytes before compression")


def frequency_cost(frequency: int, total: int) -> int:
    """The cost of a word that occurs `frequency` times in a corpus of `total` words."""
    return round(COSTS_PER_E * math.log(total / frequency))


# Japanese


def word_class(features: list[str]) -> tuple[str, ...]:
    """The class of a word with these feature columns of mecab-ipadic: its part of speech, with the conjugation of verbs
    and adjectives, and with the particle itself if it is one character."""
    if features[0] in ("動詞", "形容詞"):
        return features[0], features[1], features[5]
    if features[0] == "助動詞":
        return features[0], features[4], features[5]
    if features[0] == "助詞":
        return features[0], features[1], features[6] if len(features[6]) == 1 else ""
    if features[0] == "名詞":
        return features[0], features[1], features[2]
    return features[0], features[1]


def flag(kind: tuple[str, ...]) -> str:
    """How the words of a class are joined to their neighbours, as `<`, `>` or `.`: see `romanise/dictionary.py`."""
    if kind[0] == "接頭詞" and kind[1] != "数接続":
        return ">"
    if kind[0] == "助動詞" and kind[1] not in ("特殊・ダ", "特殊・デス", "不変化型"):
        return "<"
    if kind[:2] in (("動詞", "接尾"), ("形容詞", "接尾")) or kind in (
        ("助詞", "接続助詞", "て"),
        ("助詞", "接続助詞", "で"),
    ):
        return "<"
    if kind[:2] == ("名詞", "接尾") and kind[2] not in ("人名", "地域", "助数詞"):
        return "<"
    return "."


def japanese_latin(reading: str, pronunciation: str) -> str:
    """Hepburn romanisation of a reading in katakana, without the letters that are ー in the pronunciation."""
    if len(reading) != len(pronunciation):
        return without_length(hepburn(reading))
    letters = []
    for letter, sound in zip(reading, pronunciation, strict=True):
        if sound == "ー" and letter in "ウオアエ":
            continue
        letters.append(sound if letter in "ハヘ" and sound in "ワエ" else letter)
    return hepburn("".join(letters))


def japanese(folder: Path) -> None:
    classes: dict[int, tuple[str, ...]] = {}
    for line in (folder / "left-id.def").read_text("euc-jp").splitlines():
        number, features = line.split(" ", 1)
        classes[int(number)] = word_class(features.split(","))
    # plain nouns are class 0, which `romanise/dictionary.py` gives to words without an entry
    names = sorted(set(classes.values()), key=lambda name: (name != ("名詞", "一般", "*"), name))
    index = {name: position for position, name in enumerate(names)}

    sums, counts = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for line in (folder / "matrix.def").read_text().splitlines()[1:]:
        left, right, cost = map(int, line.split())
        pair = index[classes[left]], index[classes[right]]
        sums[pair] += cost
        counts[pair] += 1
    size = range(len(names))
    rows = [[round(sums[left, right] / counts[left, right] / COST_UNIT) for right in size] for left in size]

    best: dict[tuple[str, int], tuple[int, str]] = {}
    for file in sorted(folder.glob("*.csv")):
        for row in csv.reader(file.read_text("euc-jp").splitlines()):
            form, number, cost = row[0], int(row[1]), int(row[3])
            if (
                len(row) < 13
                or not re.fullmatch("[ぁ-ゖァ-ヺー々〆ヶ㐀-鿿]+", form)
                or re.fullmatch("[ァ-ヺー]+", form)  # runs of katakana are words without an entry
                or (re.search("[ァ-ヴ]{2}", form) and re.search("[㐀-鿿]", form))
                or form in CHINESE_PRONUNCIATIONS
                or cost >= COST_LIMITS.get(file.name, sys.maxsize)
            ):
                continue
            latin = japanese_latin(row[11], row[12])
            if form.startswith("日本") and not form.startswith("日本橋"):
                latin = re.sub("^nippon", "nihon", latin)
            key = form, index[classes[number]]
            if latin and (key not in best or cost < best[key][0]):
                best[key] = cost, latin
    entries: dict[str, list[Reading]] = defaultdict(list)
    for (form, kind), (cost, latin) in best.items():
        entries[form].append((latin, kind, round(cost / COST_UNIT)))
    for form, readings in entries.items():
        cheapest = min(reading[2] for reading in readings)
        entries[form] = [each for each in readings if each[2] <= cheapest + MAX_EXTRA_COST // COST_UNIT]
    nouns = {index[name] for name in names if name[0] == "名詞" and name[1] != "接尾"}
    plain = {form: readings for form, readings in entries.items() if any(each[1] in nouns for each in readings)}
    for form in [form for form in plain if len(form) >= 4 and is_compound(form, plain)]:
        del entries[form]
    for form, latin in JAPANESE_ADDITIONS.items():
        entries[form] = [(latin, 0, ADDITION_COST)]
    write("japanese", "".join(map(flag, names)), rows, entries)


def is_compound(form: str, entries: dict[str, list[Reading]]) -> bool:
    """Whether `form` consists of entries of two or more characters, whose readings together are its own."""
    return is_sequence(form, entries[form][0][0], entries, allow_one=False)


def is_sequence(form: str, latin: str, entries: dict[str, list[Reading]], *, allow_one: bool) -> bool:
    """Whether two or more entries, or one if `allow_one`, make up `form`, and their readings `latin`.

    Only entries of two or more characters are tried.
    """
    if allow_one and any(reading[0] == latin for reading in entries.get(form, ())):
        return True
    return any(
        latin.startswith(first[0]) and is_sequence(form[cut:], latin.removeprefix(first[0]), entries, allow_one=True)
        for cut in range(2, len(form) - 1)
        for first in entries.get(form[:cut], ())[:2]
    )


# Names of places


def places(language: str, *, territories: bool, without: str = "") -> dict[str, str]:
    """CLDR's names of the cities of time zones in `language`, and their English names in ASCII.

    With `territories`, also those of countries. Zones and countries that match the regular expression `without` are
    left out.
    """
    from anyascii import anyascii
    from babel import Locale

    own, english = Locale.parse(language), Locale.parse("en")
    pairs = []
    if territories:
        pairs += [
            (name, english.territories[code])
            for code, name in own.territories.items()
            if len(code) == 2 and not (without and re.search(without, code))
        ]
    for zone, data in own.time_zones.items():
        city = english.time_zones.get(zone, {}).get("city") or zone.split("/")[-1].replace("_", " ")
        if "city" in data and not (without and re.search(without, zone)):
            pairs.append((data["city"], city))
    names = {}
    for name, latin in pairs:
        plain = re.sub(r"\(.*?\)", "", anyascii(latin)).replace("'", "").lower()
        words = " ".join(re.findall("[a-z]+", plain))
        written = " ".join(re.sub(r"\(.*?\)", "", name).split())
        if words and re.fullmatch(r"[^a-zA-Z,\d]+", written):
            names.setdefault(written, words)
    return names


def names() -> None:
    """Writes `data/names-LANGUAGE.txt`: per line a name, a tab, its romanisation."""
    for language in ("ar", "fa", "he"):
        lines = sorted(f"{name}\t{latin}\n" for name, latin in places(language, territories=True).items())
        (DATA / f"names-{language}.txt").write_text("".join(lines), "utf-8")


# Chinese

CHINESE_ZONES = "Shanghai|Urumqi|Chongqing|Harbin|Kashgar|Hong_Kong|Macau|Taipei|Singapore"
"""Time zones of cities whose names are romanised as Chinese, not by their English names."""
JAPANESE_PLACES = {
    "东京": "tokyo", "京都": "kyoto", "大阪": "osaka", "名古屋": "nagoya", "横滨": "yokohama", "神户": "kobe",
    "札幌": "sapporo", "福冈": "fukuoka", "广岛": "hiroshima", "长崎": "nagasaki", "奈良": "nara",
    "北海道": "hokkaido", "冲绳": "okinawa", "富士山": "fujisan", "镰仓": "kamakura", "箱根": "hakone",
    "新宿": "shinjuku", "涩谷": "shibuya", "银座": "ginza", "秋叶原": "akihabara", "浅草": "asakusa",
}  # fmt: skip
NAME_COST = 100
"""The cost of the name of a place, as that of a frequent word."""


def chinese(unihan: Path) -> None:
    import jieba
    from pypinyin import lazy_pinyin, load_single_dict
    from pypinyin.constants import PHRASES_DICT, PINYIN_DICT

    load_single_dict({ord("佛"): "fó"})
    frequencies = Counter[str]()
    for line in (Path(jieba.__file__).parent / "dict.txt").read_text("utf-8").splitlines():
        word, frequency, _ = line.split(" ")
        if re.fullmatch("[㐀-鿿]{1,12}", word) and (int(frequency) >= 20 or word in PHRASES_DICT):
            frequencies[word] = max(1, int(frequency))
    for character in filter(lambda code: 0x3400 <= code <= 0x9FFF, PINYIN_DICT):
        frequencies[chr(character)] += 1
    total = sum(frequencies.values())
    entries = {}
    for word, frequency in frequencies.items():
        latin = "".join(lazy_pinyin(word, v_to_u=True)).replace("ü", "u")
        if word.startswith("长") and word not in PHRASES_DICT:
            latin = latin.replace("zhang", "chang", 1)
        if re.fullmatch("[a-z]+", latin):
            entries[word] = [(latin, 0, frequency_cost(frequency, total))]
    for word in [word for word in entries if len(word) >= 4 and is_compound(word, entries)]:
        del entries[word]
    foreign = places("zh", territories=False, without=CHINESE_ZONES) | JAPANESE_PLACES
    for name, latin in foreign.items():
        if re.fullmatch("[㐀-鿿]{2,}", name):
            entries[name] = [(latin.replace(" ", "-"), 0, NAME_COST)]
    write("chinese", ".", [[0]], entries)

    simplified = {}
    for line in bz2.decompress((unihan / "Unihan_Variants.txt.bz2").read_bytes()).decode().splitlines():
        code, kind, variants = (*line.split("\t"), "", "")[:3]
        if kind == "kSimplifiedVariant" and variants:
            simplified[chr(int(code[2:], 16))] = chr(int(variants.split()[0][2:], 16))
    pairs = [
        (old, new) for old, new in sorted(simplified.items()) if old != new and re.fullmatch("[一-鿿]{2}", old + new)
    ]
    lines = ["".join(old for old, _ in pairs), "".join(new for _, new in pairs)]
    (DATA / "simplified.txt").write_text("\n".join(lines) + "\n", "utf-8")


# Thai

THAI_PLACES = {
    "กรุงเทพมหานคร": "bangkok", "กรุงเทพฯ": "bangkok", "กรุงเทพ": "bangkok", "เชียงใหม่": "chiang mai",
    "เชียงราย": "chiang rai", "ภูเก็ต": "phuket", "พัทยา": "pattaya", "อยุธยา": "ayutthaya", "สุโขทัย": "sukhothai",
    "กระบี่": "krabi", "หัวหิน": "hua hin", "เกาะสมุย": "ko samui", "กาญจนบุรี": "kanchanaburi", "ประเทศไทย": "prathet thai",
    "ไทย": "thai", "วัดพระแก้ว": "wat phra kaeo", "วัดอรุณ": "wat arun", "แม่น้ำเจ้าพระยา": "maenam chao phraya",
    "เจ้าพระยา": "chao phraya", "ลำปาง": "lampang", "น่าน": "nan", "ขอนแก่น": "khon kaen", "อุบลราชธานี": "ubon ratchathani",
}  # fmt: skip
"""Names and their official spelling in Latin letters."""
SPLIT_BELOW_FREQUENCY = 250
"""Compounds of other words are romanised as several words if they occur less often than this in the corpus."""


def thai(file: Path) -> None:
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    total = sum(int(frequency) for *_, frequency in rows)
    entries = {}
    for word, latin, frequency in rows:
        plain = latin.replace("-", "").replace(" ", "")
        if re.fullmatch("[a-z]+", plain):
            entries[word] = [(plain, 0, frequency_cost(int(frequency), total))]
    for word, _, frequency in rows:
        if word in entries and int(frequency) < SPLIT_BELOW_FREQUENCY and is_compound(word, entries):
            del entries[word]
    for name, latin in (places("th", territories=True) | THAI_PLACES).items():
        if re.fullmatch("[\u0e01-\u0e4e]{3,}", name):
            entries[name] = [(latin.replace(" ", "-"), 0, NAME_COST)]
    write("thai", ".", [[0]], entries)


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    if sys.argv[1] == "names":
        names()
    else:
        {"japanese": japanese, "chinese": chinese, "thai": thai}[sys.argv[1]](Path(sys.argv[2]))
