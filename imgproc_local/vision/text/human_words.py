"""Separates texts that a person wrote, in metadata or a file name, from texts that cameras and programs wrote."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from urllib.parse import unquote

from imgproc_local.domain.captions import has_only_machine_words
from imgproc_local.domain.privacy import clean_text

PREFERRED_ALT_CHARS = 125
"""An alt text is shortened to this length if whole sentences or fragments can be omitted."""
MAX_ALT_CHARS = 250
"""The maximum length of every alt text."""

MAX_READ_CHARS = 2000
"""Texts are truncated to this length before they are cleaned."""

_EXTENSION = re.compile(r"(?i)\.(jpe?g|jpe|jfif|png|gif|webp|avif|heic|heif|tiff?|bmp|psd|dng|raw|cr2|nef|arw)$")
_SCREENSHOT_PREFIXES = """
screen[ _-]?shot|screen[ _-]?capture|bildschirmfoto|bildschirmaufnahme|capture d[’'ʼ]?[ _-]?[eé]cran
captura de (pantalla|tela|ecr[aã])|schermata|istantanea schermo|schermafbeelding|sk[aä]rm(avbild|bild)|skjermbilde
sk[æa]rmbillede|n[aä]ytt[oö]kuva|kuvakaappaus|zrzut ekranu|sn[ií]mek obrazovky|sn[ií]mka obrazovky
posnetek zaslona|snimka zaslona|k[eé]perny[oő]k[eé]p|k[eé]perny[oő]fot[oó]|captur[aă] de ecran|екранна снимка
στιγμιότυπο( οθόνης)?|ekran g[oö]r[uü]nt[uü]s[uü]|ekran resmi|знімок екрана|снимок экрана|скриншот|kuvatõmmis
ekr[aā]nuz[nņ][eē]mums|ekrano kopija|tangkapan layar|ảnh chụp màn hình|スクリーンショット|스크린샷
屏幕截图|屏幕快照|截屏|截图|螢幕截圖|لقطة شاشة|צילום מסך|स्क्रीनशॉट|ภาพหน้าจอ
"""
_SCREENSHOT = re.compile(rf"(?i)^({_SCREENSHOT_PREFIXES.strip().replace(chr(10), '|')})(?=$|[\W_\d])")
"""File name prefixes that operating systems give screenshots in the supported languages."""

_NOISE_WORDS = """
img imag dsc dscf dscn dscx dscpdc pxl mvimg vid dji gopr gopro cimg sam kic dcim dc imgp sany wp burst mfnr hdr
pano whatsapp signal telegram fb fbimg facebook insta instagram snapchat viber wechat mmexport received lrm psx
picsart snapseed inshot fotor canva pixabay unsplash pexels shutterstock istock istockphoto gettyimages
adobestock depositphotos dreamstime alamy freepik jpg jpeg png gif webp avif heic bmp tif tiff psd svg raw rgb
rgba srgb cmyk px dpi min thumb thumbs thumbnail resized scaled rescaled exif iptc xmp icc optimized optimised
compressed cropped rotated copy kopie copie copia kopia kopi kopija másolat edited edit bearbeitet modifié ver
version final finale finished export exported download downloads unbenannt untitled unnamed noname titre sans
tmp temp rev hd uhd fhd
"""
"""Words in file names that never describe the content: names that cameras, phones, messengers and stock agencies add,
and words for formats, sizes and versions."""

_STOP_WORDS = """
image images photo photos foto fotos fotka picture pictures pic pics bild bilder imagen imagem immagine
beeld billede bilde kuva zdjęcie obraz obrázek фото изображение зображення снимка 写真 画像 图片 照片 사진 scan
scans scanned screen shot screenshot capture clip clipboard paste pasted new neu nouveau nuevo large
small medium full original orig web page file datei fichier document doc default unknown test sample
example portrait landscape front back left right top layer artboard frame figure fig slide banner header
hero background bg icon logo avatar at am pm um à the a an of and und et de la le les el y in im on
"""
"""Words that describe the content only together with other words. A file name that has no others has no words."""


def human_text(text: str) -> str:
    """`text` on one line in NFC, without mark-up and private data; "" if a camera or a program wrote it."""
    text = clean_text(text[:MAX_READ_CHARS]).text
    text = re.sub(r"</?[A-Za-z][^<>]*>", " ", unicodedata.normalize("NFC", text))
    text = "".join(char for char in text if char.isspace() or not _unprintable(char))
    text = " ".join(text.split())
    is_code = " " not in text and any(char.isdigit() for char in text) and not filename_words(text)
    if is_code or has_only_machine_words(text):
        return ""
    return text


def _unprintable(char: str) -> bool:
    """Whether `char` is a control, private-use or unassigned character, or a bidirectional formatting character."""
    return (
        unicodedata.category(char) in ("Cc", "Co", "Cn", "Cs")
        or char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    )


def shorten(text: str) -> str:
    """`text` truncated after a sentence to at most 125 characters, else after a sentence or word to at most 250."""
    if len(text) <= PREFERRED_ALT_CHARS:
        return text
    ends = [
        match.end() for match in re.finditer(r"[.!?…。！？।](?=\s|$|[^\W\d_a-z])[”»’\")]?", text[: MAX_ALT_CHARS + 1])
    ]
    ends = [end for end in ends if 40 <= end <= MAX_ALT_CHARS]
    if ends and ends[0] <= PREFERRED_ALT_CHARS:
        return text[: max(end for end in ends if end <= PREFERRED_ALT_CHARS)]
    if len(text) <= MAX_ALT_CHARS:
        return text
    if ends:
        return text[: ends[-1]]
    cut = text[: MAX_ALT_CHARS - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[100:] else cut).rstrip(" ,;:–-") + "…"


def is_screenshot_name(filename: str) -> bool:
    """Whether the name starts with the prefix that an operating system gives screenshots."""
    return _SCREENSHOT.match(unicodedata.normalize("NFC", filename).strip()) is not None


def filename_words(filename: str) -> tuple[str, ...]:
    """The words in a file name, as written; empty if it consists only of counters, dates, hashes and noise words."""
    stem = unicodedata.normalize("NFC", unquote(filename)).strip()
    while (shorter := _EXTENSION.sub("", stem)) != stem:
        stem = shorter
    screenshot = _SCREENSHOT.match(stem)
    if screenshot:
        rest = stem[screenshot.end() :].strip(" _-")
        if not rest or not rest[0].isalpha():
            return ()
        stem = rest
    stem = clean_text(stem).text
    tokens = [token for token in re.split(r"[\s_\-+.,;()\[\]{}&@#~=–—!]+", stem) if token.lower() not in _noise_words()]
    # CamelCase is split into words, but names with an inner capital (McDonald, iPhone) are not
    tokens = re.sub(r"(?<=[a-zà-ÿ]{3})(?=[A-ZÀ-Þ][a-zà-ÿ]{2})", " ", " ".join(tokens)).split()
    words = [word for token in tokens if (word := _word(token))]
    if not any(_is_meaningful(word) for word in words):
        return ()
    return tuple(words)


def _word(token: str) -> str:
    """`token` without quotation marks; "" if it is a noise word or looks like a code instead of a word."""
    token = token.strip("'’\"“”„«»‘`´")
    letters = token.replace("'", "").replace("’", "").replace("·", "")
    lower = letters.lower()
    if not letters or lower in _noise_words() or any(char.isdigit() for char in letters):
        return ""
    if not all(unicodedata.category(char)[0] in "LM" for char in letters):
        return ""
    if letters.isascii():
        no_vowel = not re.search("[aeiouy]", lower)
        all_hex = len(lower) >= 8 and re.fullmatch("[a-f]+", lower)
        mixed_case = re.search("[a-z][A-Z]", letters) and not re.fullmatch(
            "(Mc|Mac|De|Le|La|Van|i|e)[A-Z][a-z]+", letters
        )
        if no_vowel or all_hex or mixed_case or len(letters) > 24 or re.search("[bcdfghjklmnpqrstvwxz]{6}", lower):
            return ""
    return token


def _is_meaningful(word: str) -> bool:
    """Whether `word` is long enough to describe the content and is not a stop word."""
    # words have fewer letters in scripts without capitals; a Chinese character can be a word
    long_enough = (
        len(word) >= 3 if word[0].lower() != word[0].upper() else len(word) >= 2 or "\u3400" <= word <= "\u9fff"
    )
    return long_enough and word.lower() not in _stop_words()


@cache
def _noise_words() -> frozenset[str]:
    return frozenset(_NOISE_WORDS.split())


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(_STOP_WORDS.split())
