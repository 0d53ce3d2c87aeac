"""Rules of WordPress' coding standards and of Plugin Check that PHP_CodeSniffer alone does not know: escaped output,
sanitized input with a nonce, prepared queries, translatable texts, and prefixes.

They read text, not types: they find what a reviewer looks at first. Nothing is reported for a line that has the
comment "// phpcs:ignore RULE -- REASON", or follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOMAIN = "imgproc-local"
NOT_CODE = re.compile(r"""(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|/\*.*?\*/|//[^\n]*?(?=\?>|\n|$)""", re.DOTALL)
PATTERNS = {
    "the comparison is loose": r"(?<![=!<>])[!=]=(?!=)",
    "the output does not escape": r"(?<!\w)_ex?\(",
    "the query is not prepared": r"\$wpdb->(?:query|get_results|get_row|get_col|get_var)\((?!\s*\$wpdb->prepare\()",
    "the name does not begin with the prefix": r"^(?:function|class) (?!imgproc_local)",
}
"""What is never written, except where a comment gives the reason."""
ESCAPING = re.compile(
    r"\b(?:esc_\w+|wp_kses\w*|absint|intval|floatval|count|checked|selected|disabled|wp_nonce_field"
    r"|get_submit_button|wp_get_attachment_image)\("
)
CAST = re.compile(r"\((?:int|float|bool)\)\s*[\w$:>-]+")
NOT_ESCAPED = re.compile(r"\$\w+|\b(?!(?:sprintf|implode|array)\b)[a-z_]\w*(?=\()")
SANITIZING = re.compile(r"sanitize_\w+\(|absint\(|intval\(|\(int\)|esc_url_raw\(|wp_verify_nonce\(|check_\w*referer\(")
TRANSLATING = re.compile(r"(?<!\w)(?:esc_(?:html|attr))?_(?:_|e|x|ex|n|nx|n_noop)\(")


def blanked(code: str, *, strings: bool) -> str:
    """The PHP code with spaces in place of HTML and comments, and of the contents of strings if `strings` is set."""

    def spaces(text: str) -> str:
        return re.sub(r"[^\n]", " ", text)

    def replaced(found: re.Match[str]) -> str:
        text = found[0]
        if found["string"] is None:
            return spaces(text)
        return text[0] + spaces(text[1:-1]) + text[-1] if strings else text

    parts = re.split(r"(<\?(?:php|=)|\?>)", code)
    out, is_php = [], False
    for part in parts:
        is_php = (is_php or part.startswith("<?")) and part != "?>"
        # the end of a part of PHP ends its last statement
        out.append(NOT_CODE.sub(replaced, part) if is_php else ";" + spaces(part)[1:] if part == "?>" else spaces(part))
    return "".join(out)


def closing(code: str, opened: int) -> int:
    """The place after the bracket that closes the one at `opened`."""
    depth = 0
    for at in range(opened, len(code)):
        depth += (code[at] in "([") - (code[at] in ")]")
        if depth == 0:
            return at + 1
    return len(code)


def unescaped(output: str) -> str | None:
    """The first part of an expression, without contents of strings, that is printed as it is."""
    while found := ESCAPING.search(output):
        output = output[: found.start()] + "''" + output[closing(output, found.end() - 1) :]
    output = CAST.sub("''", output)
    output = re.sub(r"[^,.?]*\?(?!>)", "", output)  # conditions are not printed
    rest = NOT_ESCAPED.search(output)
    return rest[0] if rest else None


def _output(code: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(r"\b(echo|printf\()|<\?=", code):
        end = closing(code, found.end() - 1) - 1 if found[1] == "printf(" else code.find(";", found.end())
        if rest := unescaped(code[found.end() : end]):
            yield found.start(), f"output of {rest} is not escaped"


def _input(code: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(r"(?<!isset\( )\$_(GET|POST|REQUEST|COOKIE|FILES|SERVER)\b", code):
        start = max(code.rfind(mark, 0, found.start()) for mark in ";{}")
        statement = code[start : code.find(";", found.start())]
        if not SANITIZING.search(statement):
            yield found.start(), f"$_{found[1]} is not sanitized"
        elif found[1] != "FILES" and not re.search(r"wp_unslash\(|absint\(|\(int\)|check_|nonce", statement):
            yield found.start(), f"$_{found[1]} is not unslashed"
        function = code[max(0, code.rfind("function ", 0, found.start())) : found.start()]
        if found[1] != "SERVER" and not re.search(r"check_(?:admin|ajax)_referer\(|wp_verify_nonce\(", function):
            yield found.start(), f"$_{found[1]} is read without a check of a nonce"


def _texts(code: str, masked: str) -> Iterator[tuple[int, str]]:
    for found in TRANSLATING.finditer(code):
        if not re.search(rf"'{DOMAIN}'\s*$", code[found.end() : closing(masked, found.end() - 1) - 1]):
            yield found.start(), f"the text domain is not '{DOMAIN}'"


def findings(path: Path) -> Iterator[str]:
    """What breaks a rule in a file, as "FILE:LINE: what"."""
    raw = path.read_text(encoding="utf-8")
    code, masked = blanked(raw, strings=False), blanked(raw, strings=True)
    found = [
        (at.start(), what) for what, pattern in PATTERNS.items() for at in re.finditer(pattern, masked, re.I | re.M)
    ]
    found += [*_output(masked), *_input(masked), *_texts(code, masked)]
    if not re.search(r"defined\( '(?:ABSPATH|WP_UNINSTALL_PLUGIN)' \)", raw[:3000]):
        found.append((0, "the file can be called directly: it does not begin with a check of ABSPATH"))
    lines = raw.splitlines()
    for at, what in sorted(found):
        line = raw.count("\n", 0, at)
        if not any(re.search("phpcs:ignore.* -- ", text) for text in lines[max(0, line - 1) : line + 1]):
            yield f"{path}:{line + 1}: {what}"
