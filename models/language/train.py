"""Trains the table of `imgproc_local/vision/text/ngram_table.py`.

    python models/language/train.py FOLDER [--samples 2500] [--out imgproc_local/vision/text/ngrams.bin]

The weights of a feature are the sum of two parts: the logarithms of the frequencies of n-grams in words, and a logistic
regression on snippets of texts. FOLDER contains the folders that the README names. Training takes about 20
minutes and several gigabytes of memory.
"""

from __future__ import annotations

import argparse
import bisect
import html
import itertools
import json
import math
import random
import re
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import babel
import brotli
import numpy as np
from faker.config import AVAILABLE_LOCALES
from scipy import sparse

from imgproc_local.vision.text.ngram_table import FACTOR_SCALE, MAX_NGRAM, features_of

HERE = Path(__file__).parent
ALT_TEXTS = HERE.parents[1] / "tests/vision/llm/alt_texts.toml"

CYRILLIC = ("ru", "uk", "be", "bg", "mk", "sr")
LATIN = (
    "en", "de", "fr", "es", "it", "pt", "nl", "af", "sv", "nb", "nn", "da", "fi", "et", "pl", "cs", "sk", "sl", "hr",
    "sr-Latn", "hu", "ro", "ca", "gl", "tr", "az", "lv", "lt", "id", "ms", "vi", "eu", "is", "sq", "fil",
)  # fmt: skip
OTHER = ""
"""The class of all other languages and of names."""
CLASSES = (*LATIN, *CYRILLIC, OTHER)
BIASES = {
    "ms": -2, "nn": -2, "sr-Latn": -2, "gl": -2.5, "af": -1.5, "be": -1, "az": -1, "eu": -1, "is": -1, "sq": -1,
    "fil": -1,
}  # fmt: skip
"""Added to the bias of languages that are rarer than their relatives, or that the service does not write."""
UI_NAMES = {"es": ["es", "es-419"], "pt": ["pt", "pt-BR"], "af": [], "eu": []}
"""Files of `hass_frontend` not named by the code alone. Those of Afrikaans and Basque contain other languages."""
UDHR = {
    "en": "eng", "de": "deu_1996", "fr": "fra", "es": "spa", "it": "ita", "pt": "por_BR por_PT", "nl": "nld",
    "af": "afr", "sv": "swe", "nb": "nob", "nn": "nno", "da": "dan", "fi": "fin", "et": "est", "pl": "pol", "cs": "ces",
    "sk": "slk", "sl": "slv", "hr": "hrv", "sr-Latn": "srp_latn", "hu": "hun", "ro": "ron_2006", "ca": "cat",
    "gl": "glg", "tr": "tur", "az": "azj_latn", "lv": "lav", "lt": "lit", "id": "ind", "ms": "mly_latn", "vi": "vie",
    "eu": "eus", "is": "isl", "sq": "als", "fil": "tgl", "ru": "rus", "uk": "ukr", "be": "bel", "bg": "bul",
    "mk": "mkd", "sr": "srp_cyrl",
    OTHER: "cym gle swh epo lat som ceb jav sun mlg hau kin bre cos fur oci_1 roh ltz mlt hat_popular kal uzn_latn kaz"
    " kir tat khk gsw1 fao ast ilo smo haw mri yor zul xho bam wol que quz nhn ayr",
}  # fmt: skip
LINGUA_NAMES = {"fil": "tl"}
LINGUA_OTHER = (
    "cy", "eo", "ga", "la", "so", "sw", "xh", "yo", "zu", "sn", "st", "tn", "ts", "lg", "mi", "kk", "mn",
)  # fmt: skip
SERBIAN_LATIN = {
    **dict(zip("абвгдђежзијклмнопрстћуфхцчш", "abvgdđežzijklmnoprstćufhcčš", strict=True)),
    "љ": "lj", "њ": "nj", "џ": "dž",
}  # fmt: skip

NGRAM_FACTOR = 0.9
"""The weight of the n-gram frequencies; that of the regression is 1."""
MIN_FREQUENCY = 3e-8
"""The assumed frequency of n-grams that do not occur."""
FEATURES = {"latin": 116_000, "cyrillic": 26_000}
"""How many features of each script are stored, the most useful ones: with these the table takes 3 MB."""


# --- n-grams inside words


def lingua_tables(folder: Path, language: str) -> dict[int, dict[str, float]]:
    """For each length the probability of the last letter of an n-gram after the others."""
    tables = {}
    for length, name in enumerate(("uni", "bi", "tri", "quadri", "five"), start=1):
        packed = (folder / language / f"{name}grams.json.br").read_bytes()
        table = tables.setdefault(length, {})
        for fraction, ngrams in json.loads(brotli.decompress(packed))["ngrams"].items():
            numerator, denominator = fraction.split("/")
            table.update(dict.fromkeys(ngrams.split(), int(numerator) / int(denominator)))
    return tables


def joint_frequencies(tables: dict[int, dict[str, float]]) -> dict[str, float]:
    """The frequencies of the n-grams of two and more letters."""
    joint, shorter = {}, {"": 1.0}
    for length in range(1, MAX_NGRAM + 1):
        shorter = {ngram: p * shorter[ngram[:-1]] for ngram, p in tables[length].items() if ngram[:-1] in shorter}
        joint |= shorter if length > 1 else {}
    return joint


def fragments(tables: dict[int, dict[str, float]], count: int, rng: random.Random) -> list[str]:
    """Random parts of words with 4 to 8 letters."""
    following: dict[str, tuple[list[str], list[float]]] = defaultdict(lambda: ([], []))
    for ngram, p in itertools.chain.from_iterable(table.items() for table in tables.values()):
        letters, probabilities = following[ngram[:-1]]
        letters.append(ngram[-1])
        probabilities.append(p)
    sums = {prefix: (letters, [*itertools.accumulate(ps)]) for prefix, (letters, ps) in following.items()}
    words = []
    for _ in range(count):
        word = ""
        for _ in range(rng.choice((4, 5, 5, 6, 7, 8))):
            prefix = next(word[start:] for start in range(max(0, len(word) - 4), len(word) + 1) if word[start:] in sums)
            letters, total = sums[prefix]
            word += letters[min(bisect.bisect(total, rng.random() * total[-1]), len(letters) - 1)]
        words.append(word)
    return words


# --- texts


def read_interface(folder: Path) -> dict[str, list[str]]:
    """The translations of a user interface by language, without the strings that are left in English."""

    def strings(node: dict, path: str = "") -> Iterable[tuple[str, str]]:
        for key, value in node.items():
            yield from strings(value, f"{path}.{key}") if isinstance(value, dict) else [(f"{path}.{key}", str(value))]

    files = defaultdict(list)
    for file in sorted(folder.rglob("*.json")):
        files[re.sub(r"-[0-9a-f]{20,}$", "", file.stem)].append(file)
    read = {
        name: [text for file in group for _, text in strings(json.loads(file.read_text("utf-8")))]
        for name, group in files.items()
    }
    english = {*read["en"], *read["en-GB"]}
    texts = {}
    for code in CLASSES:
        found = []
        for name in UI_NAMES.get(code, [code]):
            for text in read.get(name, []):
                if code == "en" or text not in english:
                    plain = re.sub(r"\{[^{}]*\}|<[^>]*>|\[[^\]]*\]|https?:\S+|\{.*", "  ", text)
                    found += [
                        part.strip()
                        for part in re.split(r"[.!?;:\n()]| - |  ", plain)
                        if sum(map(str.isalpha, part)) > 3
                    ]
        if code in ("sr", "sr-Latn"):
            other = re.compile("[a-z]" if code == "sr" else "[а-я]")
            found = [text for text in found if not other.search(text)]
        texts[code] = list(dict.fromkeys(found))
    return texts


def read_annotations(folder: Path) -> dict[str, list[str]]:
    """The names and keywords of emoji."""
    texts = {}
    for code in CLASSES:
        file = folder / {"nb": "no"}.get(code, code or "-") / "annotations.json"
        if file.exists():
            entries = json.loads(file.read_text("utf-8"))["annotations"]["annotations"].values()
            names = [name for entry in entries for name in (*entry.get("default", ()), *entry.get("tts", ()))]
            texts[code] = [name for name in dict.fromkeys(names) if sum(map(str.isalpha, name)) > 2]
    return texts


def read_declarations(folder: Path) -> dict[str, list[str]]:
    """The sentences of the Universal Declaration of Human Rights."""
    texts = defaultdict(list)
    for code, names in UDHR.items():
        for file in (folder / f"{name}.html" for name in names.split()):
            if file.exists():
                plain = html.unescape(re.sub(r"<(script|style|head).*?</\1>", "", file.read_text("utf-8"), flags=re.S))
                for paragraph in re.findall(r"<(?:p|h\d|li)[^>]*>(.*?)</(?:p|h\d|li)>", plain, flags=re.S):
                    parts = re.split(r"[.;:\n()]", re.sub(r"<[^>]*>", "", paragraph))
                    texts[code] += [" ".join(part.split()) for part in parts if len(part.split()) > 1]
    return texts


def read_names() -> dict[bool, tuple[list[str], list[str]]]:
    """Names of persons and of cities, in Cyrillic (True) and Latin letters (False)."""
    import importlib

    persons, cities = [], []
    for locale in AVAILABLE_LOCALES:
        for provider, attributes, into in (
            ("person", ("first_names", "first_names_male", "first_names_female", "last_names"), persons),
            ("address", ("cities", "city_names"), cities),
        ):
            try:
                module = importlib.import_module(f"faker.providers.{provider}.{locale}")
            except ImportError:
                continue
            for attribute in attributes:
                found = getattr(module.Provider, attribute, ())
                if isinstance(found, (dict, list, tuple)):
                    into += [name for name in list(found)[:400] if isinstance(name, str)]
    for locale in ("en", "de", "fr", "es", "pl", "tr", "ru", "sr", "pt", "it"):
        cities += [zone["city"] for zone in babel.Locale(locale).time_zones.values() if "city" in zone]
    patterns = {True: re.compile("[Ѐ-ӿ]"), False: re.compile("^[A-Za-zÀ-ɏ’' -]+$")}
    return {
        cyrillic: tuple([name for name in dict.fromkeys(names) if pattern.search(name)] for names in (persons, cities))
        for cyrillic, pattern in patterns.items()
    }


class Snippets:
    """Makes random snippets of 1 to 8 words, a third of them with names."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._rng = rng
        self._interface = read_interface(folder / "hass_frontend")
        self._phrases = read_annotations(folder / "annotations")
        self._declarations = read_declarations(folder / "declaration")
        captions = tomllib.loads((HERE / "captions.toml").read_text("utf-8"))
        self._captions = {code: texts.strip().split("\n") for code, texts in captions.items()}
        self._alt_texts = tomllib.loads(ALT_TEXTS.read_text("utf-8"))
        self._names = read_names()

    def of(self, code: str) -> str:
        return self._other() if code == OTHER else self._with_names(self._plain(code), code in CYRILLIC)

    def _plain(self, code: str) -> str:
        rng, phrases = self._rng, self._phrases[code]
        captions = self._captions.get(code, []) + self._alt_texts.get(code, [])
        interface, declaration = self._interface.get(code) or phrases, self._declarations[code]
        kind = rng.random()
        if kind < 0.3 and captions:
            return self._part(rng.choice(captions), 2, 8)
        if kind < 0.55:
            return " ".join(rng.choice(phrases) for _ in range(rng.randint(1, 3)))
        if kind < 0.85:
            return self._part(rng.choice(interface), 1, 8)
        if kind < 0.92:
            return self._part(rng.choice(declaration), 1, 8)
        return " ".join(self._part(rng.choice(captions or declaration), 1, 3) for _ in range(2))

    def _other(self) -> str:
        """Names, a mixture of two languages, or another language."""
        rng, kind = self._rng, self._rng.random()
        persons, cities = self._names[rng.random() < 0.1]
        if kind < 0.35:
            return " ".join(rng.choice(persons) for _ in range(rng.randint(1, 4)))
        if kind < 0.5:
            return " ".join([rng.choice(cities), *(rng.choice(persons + cities) for _ in range(rng.randint(0, 2)))])
        if kind < 0.6:
            return " ".join(
                self._part(rng.choice(self._captions[code]), 2, 3) for code in rng.sample([*self._captions], 2)
            )
        return self._part(rng.choice(self._declarations[OTHER]), 1, 8)

    def _with_names(self, text: str, cyrillic: bool) -> str:
        if self._rng.random() >= 0.35:
            return text
        words, (persons, cities) = text.split(), self._names[cyrillic]
        at = self._rng.choice([0, len(words), self._rng.randint(0, len(words))])
        names = [
            self._rng.choice(persons if self._rng.random() < 0.6 else cities) for _ in range(self._rng.randint(1, 2))
        ]
        return " ".join(words[:at] + names + words[at:])

    def _part(self, text: str, shortest: int, longest: int) -> str:
        words, length = text.split(), self._rng.randint(shortest, longest)
        start = self._rng.randrange(max(1, len(words) - length + 1))
        return " ".join(words[start : start + length])


# --- the classifier


def inner_features(words: Iterable[str]) -> dict[str, float]:
    """Like `features_of`, for parts of words: their ends are not known."""
    features: dict[str, float] = defaultdict(float)
    for word in words:
        ngrams = [word[i : i + n] for n in range(1, MAX_NGRAM + 1) for i in range(len(word) - n + 1)]
        for ngram in ngrams:
            features[ngram] += 1 / math.sqrt(len(ngrams))
    return features


def regression(
    samples: list[tuple[int, dict[str, float]]], epochs: int = 5
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """The features, how many samples have them, their weights, and the biases: a multinomial regression by Adagrad."""
    counts = Counter(itertools.chain.from_iterable(features for _, features in samples))
    names = [name for name, count in counts.items() if count >= 4]
    position = {name: index for index, name in enumerate(names)}
    rows = [
        [(position[name], value) for name, value in features.items() if name in position] for _, features in samples
    ]
    pointers = np.cumsum([0, *map(len, rows)])
    columns = np.fromiter((column for row in rows for column, _ in row), np.int32, pointers[-1])
    values = np.fromiter((value for row in rows for _, value in row), np.float32, pointers[-1])
    matrix = sparse.csr_matrix((values, columns, pointers), shape=(len(rows), len(names)))
    classes = np.array([index for index, _ in samples])
    weights = np.zeros((len(names), len(CLASSES)), np.float32)
    squares, biases = np.full_like(weights, 1e-4), np.zeros(len(CLASSES), np.float32)
    source = np.random.default_rng(0)
    for epoch in range(epochs):
        step, order = 0.25 * (1 - epoch / epochs) + 0.02, source.permutation(len(rows))
        for batch in np.array_split(order, max(1, len(rows) // 4096)):
            scores = matrix[batch] @ weights + biases
            gradient = np.exp(scores - scores.max(1, keepdims=True))
            gradient /= gradient.sum(1, keepdims=True)
            gradient[np.arange(len(batch)), classes[batch]] -= 1
            gradient /= math.sqrt(len(batch))
            transposed = matrix[batch].T.tocsr()
            used = np.flatnonzero(np.diff(transposed.indptr))
            change = transposed[used] @ gradient
            squares[used] += change * change
            weights[used] = (weights[used] - step * change / np.sqrt(squares[used])) * (1 - 1e-4)
            biases -= 0.01 * gradient.sum(0) / math.sqrt(len(batch))
        print(f"epoch {epoch + 1} of {epochs}", flush=True)
    return names, np.array([counts[name] for name in names], float), weights, biases


def frequency_weights(names: list[str], frequencies: dict[str, dict[str, float]]) -> np.ndarray:
    """The logarithms of the frequencies of n-grams of at least three letters, relative to the highest of all
    languages; 0 for others."""
    table = np.array([[frequencies[code].get(name, 0.0) for code in CLASSES] for name in names], np.float32)
    # lingua has no Galician: it is estimated from its relatives
    galician, between = CLASSES.index("gl"), [CLASSES.index("pt"), CLASSES.index("es")]
    table[:, galician] = 0.7 * table[:, between].mean(1)
    logarithms = np.log(table + MIN_FREQUENCY)
    logarithms -= logarithms.max(1, keepdims=True)
    logarithms[table.max(1) == 0] = 0
    logarithms[[len(name) < 3 for name in names]] = 0
    return NGRAM_FACTOR * logarithms


def write_table(out: Path, names: list[str], counts: np.ndarray, weights: np.ndarray, biases: np.ndarray) -> None:
    headers, arrays = [], []
    cyrillic = np.array([bool(re.search("[Ѐ-ӿ]", name)) for name in names])
    latin = np.array([bool(re.search("[a-zÀ-ɏḀ-ỿ]", name)) for name in names]) & ~cyrillic
    for script, codes, mask in (("latin", [*LATIN, OTHER], latin), ("cyrillic", [*CYRILLIC, OTHER], cyrillic)):
        columns, rows = [CLASSES.index(code) for code in codes], np.flatnonzero(mask)
        below = -(weights[rows][:, columns] - weights[rows][:, columns].max(1, keepdims=True))
        best = np.argsort(-counts[rows] * below.std(1))[: FEATURES[script]]
        hashes = np.array([zlib.crc32(names[rows[index]].encode()) for index in best], np.uint32)
        hashes, first = np.unique(hashes, return_index=True)
        below = below[best[first]]
        factors = np.clip(np.ceil(below.max(1) / 15 * FACTOR_SCALE), 1, 255)
        quantised = np.clip(np.rint(below / (factors[:, None] / FACTOR_SCALE)), 0, 15).astype(np.uint8)
        quantised = np.pad(quantised, ((0, 0), (0, len(codes) % 2)))
        arrays += [hashes.astype("<u4"), factors.astype(np.uint8), quantised[:, ::2] << 4 | quantised[:, 1::2]]
        headers.append(
            {
                "script": script,
                "languages": [code.removesuffix("-Latn") for code in codes],
                "biases": [round(float(biases[CLASSES.index(code)]) + BIASES.get(code, 0), 3) for code in codes],
                "features": len(hashes),
            }
        )
    header = json.dumps(headers, separators=(",", ":")).encode()
    out.write_bytes(header + b"\n" + b"".join(array.tobytes() for array in arrays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=2500, help="snippets of each language")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "imgproc_local/vision/text/ngrams.bin")
    arguments = parser.parse_args()
    rng = random.Random(1)
    snippets, samples, frequencies = Snippets(arguments.folder, rng), [], {}
    for index, code in enumerate(CLASSES):
        samples += [(index, features_of(snippets.of(code))) for _ in range(arguments.samples)]
        sources = {OTHER: LINGUA_OTHER, "gl": [], "sr-Latn": ["sr"]}.get(code, [LINGUA_NAMES.get(code, code)])
        merged: Counter[str] = Counter()
        parts: list[str] = []
        for source in sources:
            tables = lingua_tables(arguments.folder / "lingua/language-models", source)
            joint, words = joint_frequencies(tables), fragments(tables, 4 * arguments.samples // len(sources), rng)
            if code == "sr-Latn":
                joint = Counter()
                for ngram, p in joint_frequencies(tables).items():
                    joint["".join(SERBIAN_LATIN.get(char, char) for char in ngram)] += p
                words = ["".join(SERBIAN_LATIN.get(char, char) for char in word) for word in words]
            merged.update({ngram: p / len(sources) for ngram, p in joint.items() if len(ngram) <= MAX_NGRAM})
            parts += words
        rng.shuffle(parts)
        while parts:
            size = rng.choice((2, 3, 3, 4, 4, 5, 6, 7))
            samples.append((index, inner_features(parts[:size])))
            del parts[:size]
        # rare n-grams do not reach the table
        frequencies[code] = {ngram: p for ngram, p in merged.items() if p > MIN_FREQUENCY}
        print(code or "others", flush=True)
    names, counts, weights, biases = regression(samples)
    frequent = {ngram for table in frequencies.values() for ngram in sorted(table, key=table.__getitem__)[-16_000:]}
    more = sorted(frequent.difference(names))
    weights = np.vstack([weights, np.zeros((len(more), len(CLASSES)), np.float32)])
    counts = np.append(counts, np.full(len(more), 2.0))
    weights += frequency_weights([*names, *more], frequencies)
    write_table(arguments.out, [*names, *more], counts, weights, biases)


if __name__ == "__main__":
    main()
