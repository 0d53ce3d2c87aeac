"""Recognises the file names that operating systems give screenshots."""

from __future__ import annotations

import re
import unicodedata

_PREFIXES = """
screen[ _-]?shot|screen[ _-]?capture|screen[ _-]?recording|bildschirmfoto|bildschirmaufnahme
capture d[’'ʼ]?[ _-]?[eé]cran|captura de (pantalla|tela|ecr[aã])|schermata|istantanea schermo|schermafbeelding
sk[aä]rm(avbild|bild)|skjermbilde|sk[æa]rmbillede|n[aä]ytt[oö]kuva|kuvakaappaus|zrzut ekranu|sn[ií]mek obrazovky
sn[ií]mka obrazovky|posnetek zaslona|snimka zaslona|k[eé]perny[oő]k[eé]p|k[eé]perny[oő]fot[oó]|captur[aă] de ecran
екранна снимка|στιγμιότυπο( οθόνης)?|ekran g[oö]r[uü]nt[uü]s[uü]|ekran resmi|знімок екрана|снимок экрана|скриншот
kuvatõmmis|ekr[aā]nuz[nņ][eē]mums|ekrano kopija|tangkapan layar|ảnh chụp màn hình|スクリーンショット|스크린샷
屏幕截图|屏幕快照|截屏|截图|螢幕截圖|لقطة شاشة|צילום מסך|स्क्रीनशॉट|ภาพหน้าจอ
"""
SCREENSHOT_PREFIX = re.compile(rf"(?i)^({_PREFIXES.strip().replace(chr(10), '|')})(?=$|[\W_\d])")
"""The beginning of the name of a screenshot, in any supported language."""


def is_screenshot_name(filename: str) -> bool:
    """Whether the name starts with the prefix that an operating system gives screenshots."""
    return SCREENSHOT_PREFIX.match(unicodedata.normalize("NFC", filename).strip()) is not None
