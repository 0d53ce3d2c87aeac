"""The languages in which the service writes alt texts and file names."""

from __future__ import annotations

from msgspec import Struct


class Language(Struct, frozen=True):
    """`code` is ISO 639-1, `name` the English name, `native_name` the name in the language itself.

    Both names include a region if the texts follow the usage of that region.
    """

    code: str
    name: str
    native_name: str


LANGUAGES: dict[str, Language] = {
    language.code: language
    for language in (
        Language("en", "English", "English"),
        Language("de", "German", "Deutsch"),
        Language("fr", "French", "Français"),
        Language("es", "Spanish", "Español"),
        Language("it", "Italian", "Italiano"),
        Language("pt", "Brazilian Portuguese", "Português do Brasil"),
        Language("nl", "Dutch", "Nederlands"),
        Language("da", "Danish", "Dansk"),
        Language("sv", "Swedish", "Svenska"),
        Language("nb", "Norwegian Bokmål", "Norsk bokmål"),
        Language("fi", "Finnish", "Suomi"),
        Language("pl", "Polish", "Polski"),
        Language("cs", "Czech", "Čeština"),
        Language("sk", "Slovak", "Slovenčina"),
        Language("sl", "Slovenian", "Slovenščina"),
        Language("hr", "Croatian", "Hrvatski"),
        Language("hu", "Hungarian", "Magyar"),
        Language("ro", "Romanian", "Română"),
        Language("bg", "Bulgarian", "Български"),
        Language("el", "Greek", "Ελληνικά"),
        Language("tr", "Turkish", "Türkçe"),
        Language("uk", "Ukrainian", "Українська"),
        Language("ru", "Russian", "Русский"),
        Language("et", "Estonian", "Eesti"),
        Language("lv", "Latvian", "Latviešu"),
        Language("lt", "Lithuanian", "Lietuvių"),
        Language("ca", "Catalan", "Català"),
        Language("id", "Indonesian", "Bahasa Indonesia"),
        Language("vi", "Vietnamese", "Tiếng Việt"),
        Language("ja", "Japanese", "日本語"),
        Language("ko", "Korean", "한국어"),
        Language("zh", "Chinese", "中文"),
        Language("ar", "Arabic", "العربية"),
        Language("he", "Hebrew", "עברית"),
        Language("hi", "Hindi", "हिन्दी"),
        Language("th", "Thai", "ไทย"),
    )
}
"""All supported languages by code, in the order in which they are listed to users."""


def language_of(tag: str) -> tuple[str, str]:
    """The code of the language that a language or locale code names, such as `de`, `pt_BR` or `zh-Hans-CN`, and "".

    If the language is not offered: "" and "". If it is not written in the script of the locale: "" and the reason. A
    locale that names no script has the usual one of its region. Source: CLDR, "Likely Subtags".
    """
    code = tag.lower()
    if code in LANGUAGES:
        return code, ""
    from babel.core import get_global, parse_locale  # only for locales: it reads 0.5 MB

    try:
        code, region, script, *_ = parse_locale(tag.replace("-", "_"))
    except ValueError:
        return "", ""
    if code not in LANGUAGES:
        return "", ""
    likely = get_global("likely_subtags")
    written = parse_locale(likely[code])[2]
    script = script or parse_locale(likely.get(f"{code}_{region}", likely[code]))[2]
    if script != written:
        return "", f"{LANGUAGES[code].name} is written in the script {written} only, not in {script}"
    return code, ""
