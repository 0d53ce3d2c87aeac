"""Good alt texts of every language are accepted; every kind of bad answer is rejected with a complaint or cleaned.

It is one file, because each text is refused by one of the checks of one list.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.describer import TextInPicture
from imgproc_local.vision.facts.describer import LocalizedText, PictureTexts
from imgproc_local.vision.llm.checks import alt_text_problem, clean_answer, is_good_filename
from imgproc_local.vision.llm.prompt import NO_NOTES, Answer, picture_notes
from imgproc_local.vision.text.language import scripts_of


def read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


GOOD: dict[str, list[str]] = read("alt_texts.toml")


def cleaned(text: str, language: str) -> Answer:
    return clean_answer(Answer("some-file-name", text), language)


def complaint_about(text: str, language: str, **options: Any) -> str | None:
    """The problem of the cleaned `text`."""
    return alt_text_problem(cleaned(text, language), language, **options)


# --- sets of texts, written without knowledge of the checks


def letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


def is_published(text: str, language: str) -> bool:
    """Whether `text` is accepted, without an opener or a label that cleaning removed."""
    return complaint_about(text, language) is None and letters(cleaned(text, language).alt_text) == letters(text)


def test_at_most_one_percent_of_good_texts_is_refused() -> None:
    texts = read("good_alt_texts.toml")["text"]
    refused = [entry for entry in texts if not is_published(entry["text"], entry["language"])]
    # measured: 1 of 346
    assert len(refused) <= 0.01 * len(texts), refused


def test_at_least_90_percent_of_bad_texts_are_refused_or_mended() -> None:
    texts = read("bad_alt_texts.toml")["text"]
    missed = [entry for entry in texts if is_published(entry["text"], entry["language"])]
    # measured: 11 of 172, half of them cut off without a mark of it
    assert len(missed) <= 0.1 * len(texts), Counter(entry["kind"] for entry in missed)


# --- accepted texts


@pytest.mark.parametrize("language", LANGUAGES)
def test_good_alt_texts_are_accepted_unchanged_except_for_a_full_stop(language: str) -> None:
    assert len(GOOD[language]) >= 10
    for text in GOOD[language]:
        assert cleaned(text, language).alt_text.rstrip(".。।") == text.rstrip(".。।")
        assert complaint_about(text, language) is None, text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ru", "Красный автомобиль Land Rover стоит у гостиницы «Grand Budapest Hotel»."),
        ("ja", "棚に並んだNikonとCanonのカメラ、手前に「For Sale」の札。"),
        ("ar", "رجل يقف أمام متجر كتب عليه “The Old Book Shop and Bindery”."),
        ("en", "Street stall under a banner that reads “Привет, сосед! Заходи”."),
        ("de", "Ein Plakat mit dem Satz “Keep calm and carry on with the show” hängt an der Wand."),
        ("en", "A child writes Mississippi on a blackboard."),
        ("en", "A man in a red shirt stands left. A man in a blue shirt stands right."),
        ("en", "An iPhone and a MacBook on a wooden desk."),
        ("id", "Dua kupu-kupu kuning hinggap di atas bunga."),
        ("fr", "Deux enfants demandent : « Où est le chat ? »"),
        ("el", "Πινακίδα που γράφει «Πού πας;» πάνω από την πόρτα."),
        ("da", "Blå bog med titlen »Hvor er far«"),
        ("de", "Junge zieht vor der Tür seine Schuhe an."),
        ("zh", "图书馆里，几个学生正在看书。"),
        ("ja", "絵の具で手を汚した子どもが、大きな紙に虹を描いている。"),
        ("hi", "रेलगाड़ी के पास खड़े दो यात्री।"),
        ("fr", "Photo de famille encadrée sur une commode, à côté d’un vase."),
        ("es", "Foto de boda enmarcada sobre una cómoda de madera."),
        ("ru", "Фото на паспорт: женщина с короткими волосами на белом фоне."),
        ("de", "Bild von Gerhard Richter an einer weißen Museumswand."),
        ("en", "Sorry no dogs sign on the door of a bakery."),
        ("en", "White T-shirt with the Arabic slogan لا للحرب printed across the chest."),
        ("en", "Menu board listing phở bò tái and bún chả with prices in dong."),
        ("en", "A 居酒屋 sign glows above a narrow doorway."),
        ("ja", "代々木公園の桜並木を人々が歩いている。"),
        ("en", "Bar chart of rainfall by month, with a maximum of 142 mm in October."),
        ("en", "A woman looks into the camera while her dog looks away."),
        ("en", "Canon camera with a strap on a wooden table."),
        ("en", "Diagram of the layers of the atmosphere up to 100 km."),
        ("zh", "小女孩对着镜头微笑，手里拿着气球。"),
        ("fi", "Poika juoksee äidin luo rannalla."),
        ("he", "כיסא עשוי מעץ ליד חלון גדול."),
        ("th", "อาจารย์ยืนอยู่หน้ากระดานในห้องเรียน"),
    ],
)
def test_names_quotations_and_unusual_texts_are_accepted(language: str, text: str) -> None:
    assert complaint_about(text, language) is None


def test_names_in_the_owners_notes_may_be_in_any_script() -> None:
    text = "Владимир Петров feeds pigeons in Красноярск."
    assert complaint_about(text, "en") == "it was not in English"
    assert complaint_about(text, "en", notes="Persons: Владимир Петров\nPlace: Красноярск") is None


def test_english_notes_do_not_excuse_an_english_answer() -> None:
    text = "A red kite above a field of stubble."
    assert complaint_about(text, "ru", notes="Keywords: red, kite, field, stubble") == "it was not in Russian"
    assert complaint_about(text, "de", notes="Title: A red kite above a field of stubble") == "it was not in German"


# --- language of the answer


@pytest.mark.parametrize("language", [code for code in LANGUAGES if code != "en"])
def test_an_english_answer_is_rejected_in_every_other_language(language: str) -> None:
    for text in [*GOOD["en"], "Red barn in snow.", "A red car."]:
        assert complaint_about(text, language) == f"it was not in {LANGUAGES[language].name}", text


def test_answers_in_other_scripts_are_always_rejected_and_in_other_languages_mostly() -> None:
    checked = rejected = 0
    for other, text in [(other, text) for other, texts in GOOD.items() for text in texts]:
        for language in LANGUAGES:
            if language != other:
                is_rejected = complaint_about(text, language) is not None
                assert is_rejected or set(scripts_of(other)) & set(scripts_of(language)), (other, language)
                checked += 1
                rejected += is_rejected
    # short texts of closely related languages are ambiguous
    print(rejected / checked)
    assert rejected >= 0.88 * checked


# --- openers

OPENERS = {
    "en": "Image of a barn.|The photo shows a barn.|In this picture, a barn stands.|This is a barn.|I see a red barn.",
    "de": "Bild eines roten Hauses.|Das Bild zeigt ein Haus.|Auf dem Foto ist ein Haus.|Hier sieht man ein Haus.",
    "fr": "Photo du port de nuit.|L’image montre une grange.|Sur cette photo, un chien dort.|Voici une grange rouge.",
    "es": "Imagen del puerto de noche.|La foto muestra un perro.|En la imagen, un perro duerme.|Se ve un granero rojo.",
    "it": "Foto del porto di notte.|L’immagine mostra un cane.|Nella foto un cane dorme.|Ecco un granaio rosso.",
    "pt": "Foto do porto à noite.|A imagem mostra um cão.|Na foto, um cão dorme.|Vê-se um celeiro vermelho.",
    "nl": "Afbeelding waarop een hond slaapt.|Op de foto staat een hond.|Hier is een hond.",
    "da": "Billede hvor en hund sover.|På billedet ses en hund.|Her ses en rød lade.",
    "sv": "Bild där en hund sover.|På bilden syns en hund.|Här syns en röd lada.",
    "nb": "Bilde der en hund sover.|På bildet ser vi en hund.|Her er en rød låve.",
    "fi": "Kuva punaisesta ladosta.|Kuvassa on koira.|Tässä on punainen lato.",
    "pl": "Zdjęcie czerwonej stodoły.|Na zdjęciu pies śpi.|Widać czerwoną stodołę.|Oto czerwona stodoła.",
    "cs": "Obrázek červené stodoly.|Na fotografii je pes.|Je vidět červená stodola.",
    "sk": "Obrázok červenej stodoly.|Na fotografii je pes.|Tu je červená stodola.",
    "sl": "Slika rdečega skednja.|Na sliki je pes.|Vidimo rdeč skedenj.",
    "hr": "Slika crvenog štaglja.|Na fotografiji je pas.|Vidimo crvenu kuću.",
    "hu": "A képen egy kutya alszik.|Egy piros pajta képe.|Itt látható egy piros pajta.",
    "ro": "Fotografie a unui hambar.|Imaginea arată un câine.|În imagine, un câine doarme.|Se vede un hambar.",
    "bg": "Снимка на червен хамбар.|На снимката спи куче.|Виждаме червен хамбар.",
    "el": "Φωτογραφία ενός αχυρώνα.|Στην εικόνα ένας σκύλος κοιμάται.|Βλέπουμε έναν αχυρώνα.",
    "tr": "Görselde bir köpek uyuyor.|Bu fotoğrafta bir köpek var.|Kırmızı bir ahırın fotoğrafı.",
    "uk": "Фото червоної стодоли.|На зображенні спить собака.|Ми бачимо червону стодолу.",
    "ru": "Фото красного сарая.|На изображении спит собака.|На этом снимке собака.|Изображён красный сарай.",
    "et": "Pilt punasest küünist.|Pildil on koer.|Siin on punane küün.",
    "lv": "Attēlā redzams suns.|Sarkana šķūņa attēls.|Šeit redzams sarkans šķūnis.",
    "lt": "Nuotraukoje matyti šuo.|Raudonos daržinės nuotrauka.|Čia matome raudoną daržinę.",
    "ca": "Imatge del port de nit.|La foto mostra un gos.|A la imatge, un gos dorm.|Es veu un graner vermell.",
    "id": "Pada gambar, seekor anjing tidur.|Foto yang bagus dari pantai.|Terlihat sebuah lumbung merah.",
    "vi": "Trong ảnh, một con chó đang ngủ.|Ảnh này có một con chó.|Đây là một nhà kho màu đỏ.",
    "ja": "この画像は赤い納屋です。|写真には犬が写っています。|赤い納屋の写真。|これは赤い納屋です。",
    "ko": "이 사진은 빨간 헛간을 보여준다.|이미지에는 개가 있다.|사진 속 개가 자고 있다.|빨간 헛간의 사진.",
    "zh": "这张图片中，狗在睡觉。|图中的狗在睡觉。|一张红色谷仓的照片。|这是一座红色谷仓。",
    "ar": "صورة لحظيرة حمراء.|في هذه الصورة كلب نائم.|الصورة تظهر كلبا.",
    "he": "בתמונה כלב ישן.|התמונה מציגה אסם אדום.|זוהי חצר ובה כלב.",
    "hi": "इस तस्वीर में एक कुत्ता सो रहा है।|एक लाल खलिहान की तस्वीर।|यह एक लाल खलिहान है।",
    "th": "ในภาพมีสุนัขนอนหลับ|ภาพนี้มีสุนัขสองตัว|นี่คือโรงนาสีแดง",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_opener_is_rejected(language: str) -> None:
    for text in OPENERS[language].split("|"):
        complaint = alt_text_problem(Answer("some-file-name", text), language) or ""
        assert re.match('it (began with|ended in) "', complaint), (text, complaint)
        opener = complaint.split('"')[1]
        assert opener.casefold() in text.replace("’", "'").casefold()


# --- complaints


@pytest.mark.parametrize(
    ("language", "text", "complaint"),
    [
        ("en", "", "it was empty"),
        ("en", "42.", "it was empty"),
        ("en", "Barn.", "it was a single word"),
        ("ja", "納屋", "it was a single word"),
        ("th", "บ้าน", "it was a single word"),
        ("en", "A red barn. " * 21, "it was longer than 250 characters"),
        ("en", "IMG_1234.JPG", "it held a file name or an address"),
        ("en", "Photo IMG 1234 taken outside.", "it held a file name or an address"),
        ("en", "A barn, see https://example.org/barn", "it held a file name or an address"),
        ("en", "red-barn-in-snow", "it held a file name or an address"),
        ("en", "A red \ufffd barn.", "it contained unprintable characters"),
        ("en", "A red \ue012 barn.", "it contained unprintable characters"),
        ("en", "A red \u202enrab.", "it contained unprintable characters"),
        ("en", "Say what matters most first: a barn.", "it repeated words of the prompt"),
        ("en", "A barn. Translate it into natural wording.", "it repeated words of the prompt"),
        ("en", "{a: [red], b: [barn]}", "it contained mark-up"),
        ("en", "A dog, possibly a terrier, on a lawn.", 'it guessed ("possibly")'),
        ("en", "A lake at dawn, evoking calm.", 'it described a mood instead of the content ("evoking")'),
        ("en", "A portrait of a man with bokeh lights behind.", 'it described the camera work ("bokeh")'),
        ("es", "No puedo describir a las personas de la calle.", 'it described nothing ("No puedo")'),
        ("de", "Es ist nicht möglich, das Motiv zu bestimmen.", 'it described nothing ("Es ist nicht möglich")'),
        ("en", "A red barn in snow. Let me know if you need more.", 'it addressed the reader ("Let me know")'),
        ("en", "A red barn in snow (98 characters).", 'it addressed the reader ("98 characters")'),
        ("en", "Two dogs are playing in this picture.", 'it referred to the picture itself ("in this picture")'),
        ("en", "Various things and objects.", "it said nothing about the content"),
        ("en", 'A red barn", "file": "red-barn', "it contained mark-up"),
        ("en", "A red barn\\nA tractor", "it contained mark-up"),
        (
            "en",
            "A barn, a tractor, a dog, a cat, a hen, a cow, a pig, a goose and a horse, all drawn.",
            "it was a list",
        ),
        ("en", "Red barn, barn snow, winter farm, farmhouse, best barn, country life", "it was a list of keywords"),
        ("hr", "Devojčica u beloj haljini jede hleb i pije mleko pored prozora.", "it was not in Croatian"),
        ("bg", "Децата играат во паркот додека мајката седи на клупата.", "it was not in Bulgarian"),
        ("id", "Kanak-kanak bermain bola sepak di taman berdekatan kereta lama.", "it was not in Indonesian"),
        ("en", "A woman is holding ein kleines Kind auf dem Arm near the door.", "it was not in English"),
        ("zh", "兩個孩子在廣場上騎車，後面是舊圖書館。", "it was not in Chinese"),
        ("hi", "एक मुलगा आणि मुलगी झाडाखाली बसले आहेत.", "it was not in Hindi"),
    ],
)
def test_each_kind_of_bad_text_gets_its_complaint(language: str, text: str, complaint: str) -> None:
    assert complaint_about(text, language) == complaint


# --- repetition and cut-off sentences


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "A red red red barn stands in the snow."),
        ("en", "A barn stands in the snow. The barn stands in the snow."),
        ("en", "A dog runs along the wide beach while a dog runs along the wide beach too."),
        ("en", "Aaaaaaaah, a red barn stands in the snow."),
        ("ja", "赤い赤い赤い納屋が雪の中に立っている。"),
        ("zh", "一座红色的谷仓，一座红色的谷仓，一座红色的谷仓。"),
        ("th", "สุนัขวิ่งเล่นสุนัขวิ่งเล่นสุนัขวิ่งเล่นบนชายหาด"),
    ],
)
def test_repetition_is_detected_in_every_script(language: str, text: str) -> None:
    assert complaint_about(text, language) == "it repeated itself"


LONG = "A woman in a yellow coat leads two small dogs past a row of old brick houses, and behind her a boy on a bicycle"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "A red barn in the"),
        ("en", "A red barn,"),
        ("en", "A red barn (seen from"),
        ("en", "A sign that reads “Fresh"),
        ("en", "A red barn in..."),
        ("en", f"{LONG} tries hard to overtake a grey delivery van that is parked halfway on the paveme"),
        ("el", "Ένας κόκκινος αχυρώνας στο"),
        ("ja", "雪の中の「赤い納屋"),
        ("zh", "雪地里的红色谷仓，"),
        ("hi", "बर्फ़ में एक लाल घर और"),
    ],
)
def test_a_cut_off_sentence_is_rejected_and_gets_no_full_stop(language: str, text: str) -> None:
    assert cleaned(text, language).alt_text == text
    assert complaint_about(text, language) == "the sentence was cut off"


# --- nonsense

PIECES = """
 the| of|ing|ation| Port|smouth|burg| recep|tion| idi|oms|ually| get|Element|ById|self|.return| void|();|());| null|ptr
 Con|fig tr|aining| lucky|ness| Brit|ish|wards| chees|es|ificate| QB| hand|gun|ized| parameter|os| stead|ier|pling
 Clinton| sequ|ence| remember|ably| 198| 503|OND|FX| Tor|onto| mem|cpy| async|Task| lib|std|::| ->|=>| //| #include
 xml|http|Json| Param|eters|ility| horse| window| purple| seven| quick|ly| jump|ed| under|neath| garden|ers| walk|ed
 bridge| street| market| cloud| silver| river
"""
FOREIGN = """
 und|lich|keit| straße|über| świat|owie|ność| příle|žitost| çok|lar|ının| về|người| että|ssa| señor|ción|ões| français
 eaux| и| не|ость|ский| город|ание| що|ться| και|ους|ματα|的|是|在|中国|图片|シ|ョン|です|の|画像|ます|한국|입니다|에서
 사진| في|ال|ات|من| של|ים|ות|ाएँ| है|ों| का|การ|ที่|ประ|เป็น|ไทย|ಕನ|தமி|ვან|հայ| ✿|→|█|𝔸|😀
"""
"""Invented tokens like those in vocabularies of language models, separated by "|"; a token may begin with a space."""


def random_tokens(source: random.Random, pieces: str, tokens: int) -> str:
    """The answer of a broken model: random tokens, up to the 200 characters that the grammar allows."""
    vocabulary = pieces.strip("\n").replace("\n", "|").split("|")
    return "".join(source.choice(vocabulary) for _ in range(tokens))[:200].strip()


@pytest.mark.parametrize("pieces", [PIECES, PIECES + FOREIGN], ids=["English", "many scripts"])
def test_at_least_99_percent_of_random_tokens_are_rejected(pieces: str) -> None:
    source = random.Random(20261121)
    texts = [random_tokens(source, pieces, 100) for _ in range(60)]
    texts += [re.sub(r"\W*$", ".", random_tokens(source, pieces, tokens)) for tokens in range(25, 55)]
    passed = [(language, text) for text in texts for language in LANGUAGES if complaint_about(text, language) is None]
    assert len(passed) <= 0.01 * len(texts) * len(LANGUAGES), passed[:10]
    for language in LANGUAGES:
        for length in range(1, 6):
            loop = random_tokens(source, PIECES, length)
            assert complaint_about(" ".join([loop] * 20)[:200], language), (language, loop)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Recepwards idioms burgish lucky cheesness handgun steadier plingburg Torontoing."),
        ("en", "An oldтаун with narrow streets by the river and a church."),
        ("fi", "Strzqwk brmtplk xkcdvfg on talo."),
        ("en", "Chess, memcpy.Task void.Config and the window.return of it."),
        ("de", "Ein Hundkatze40x und Vogelhaus33y sitzen auf dem Dach."),
    ],
)
def test_words_that_belong_to_no_language_are_rejected(language: str, text: str) -> None:
    name = LANGUAGES[language].name
    assert complaint_about(text, language) in (f"it was no sentence in {name}", f"it was not in {name}")


# --- file names


@pytest.mark.parametrize(
    ("language", "good", "bad"),
    [
        ("en", "red-barn-in-snow", "barn image-picture-photo img-1234-jpg red-red-red-red-barn"),
        ("en", "red-barn-in-snow", "xqzkrtw-bvcxz-mnbtrwq-window red-oldтаун-river"),
        ("de", "rotes-haus-am-see schlüsseldienst-öztürk-ladenschild", "red-barn-with-white-snow"),
        ("ru", "красный-сарай-на-поле", "red-barn-with-white-snow"),
        ("zh", "红色谷仓-雪地", ""),
        ("ja", "あかい-なや-ゆき 赤い-納屋-雪", ""),
        ("ko", "빨간-헛간-눈밭", ""),
        ("ar", "حظيرة-حمراء-في-الثلج", "متحمس-مرتفع-مختلف"),
        ("fr", "restaurant-terrasse-café-paris", ""),
    ],
)
def test_a_file_name_describes_the_picture_in_its_language(language: str, good: str, bad: str) -> None:
    for expected, names in ((True, good), (False, bad)):
        for name in names.split():
            assert is_good_filename(name, language, original_filename="IMG_1234.JPG") == expected, name


# --- quotations

READ = TextInPicture("Road closed Use other route 前方施工")


@pytest.mark.parametrize(
    ("language", "alt_text"),
    [
        ("en", "A yellow sign reads “Road closed”."),
        ("en", 'A sign: "ROAD CLOSED – use other route".'),
        ("de", "Ein Schild mit „Road closed, use 0ther route“."),
        ("zh", "黄色标志写着“前方施工”。"),
        ("en", "A sign with “A” and “12”."),
        ("en", "A sign in front of Mount “Fuji”."),  # a name in the notes
    ],
)
def test_exact_quotations_are_accepted(language: str, alt_text: str) -> None:
    notes = picture_notes(PictureTexts(titles=(LocalizedText("Fuji in spring", "en"),)), "", "", READ)
    assert complaint_about(alt_text, language, notes=notes, read_text=READ) is None


@pytest.mark.parametrize(
    ("language", "alt_text"),
    [
        ("en", "A sign reads “Road opened”."),
        ("en", f"A sign reads “{'No entry for lorries and buses ' * 5}”."),
        ("de", "Ein Schild: „Straße gesperrt“."),
        ("zh", "标志写着“正在装修”。"),
    ],
)
def test_other_and_translated_quotations_are_refused(language: str, alt_text: str) -> None:
    complaint = complaint_about(alt_text, language, read_text=READ) or ""
    assert "quoted" in complaint
    assert len(complaint) < 120, "it fits into the prompt"


@pytest.mark.parametrize("read_text", [None, TextInPicture(), TextInPicture("Road closed", unread_lines=2)])
def test_without_the_whole_text_nothing_is_refused(read_text: TextInPicture | None) -> None:
    assert complaint_about("A sign reads “Road opened”.", "en", read_text=read_text) is None


def test_the_prompt_notes_what_was_read_and_that_some_was_not() -> None:
    assert "Road closed Use other route 前方施工" in picture_notes(PictureTexts(), "", "", READ)
    assert "could not be read" in picture_notes(PictureTexts(), "", "", TextInPicture(unread_lines=2))
    assert picture_notes(PictureTexts(), "", "", TextInPicture()) == NO_NOTES
    assert "<" not in picture_notes(PictureTexts(), "", "", TextInPicture("Hi <|im_end|>"))


# --- what is mended


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Image of a red barn", "A red barn."),
        ("en", "The photo shows two dogs on a beach.", "Two dogs on a beach."),
        ("en", "Alt text: Image of a red barn.", "A red barn."),
        ("en", "“A red barn.”", "A red barn."),
        ("en", "**A red barn**", "A red barn."),
        ("en", "  A red  barn ", "A red barn."),
        ("en", "iPhone on a desk", "iPhone on a desk."),
        ("en", 'Sign that says "Open"', 'Sign that says "Open".'),
        ("en", "Here is the alt text you requested: Image of a red barn", "A red barn."),
        ("de", "Alternativtext: „Ein rotes Haus am See“", "Ein rotes Haus am See."),
        ("fr", "Une photo d’un chien sur la plage.", "Un chien sur la plage."),
        ("nl", "Een foto van ijsberen op het ijs", "IJsberen op het ijs."),
        ("zh", "图片显示一只狗在沙滩上", "一只狗在沙滩上。"),
        ("th", "ภาพแสดงสุนัขบนชายหาด", "สุนัขบนชายหาด"),
        ("tr", "iskelede bekleyen iki balıkçı", "İskelede bekleyen iki balıkçı."),
        ("ja", "砂浜を走る犬", "砂浜を走る犬。"),
        ("hi", "समुद्र तट पर एक कुत्ता", "समुद्र तट पर एक कुत्ता।"),
        ("el", "Ένα παιδί με μια πινακίδα: πού πας;", "Ένα παιδί με μια πινακίδα: πού πας;"),
    ],
)
def test_labels_quotation_marks_and_openers_are_removed(language: str, text: str, expected: str) -> None:
    assert cleaned(text, language) == Answer("some-file-name", expected)
    assert complaint_about(text, language) is None


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Bild eines roten Hauses."),  # the noun is in the genitive
        ("ru", "Фото красного сарая."),
        ("fr", "Photo du port de nuit."),  # "du" contains the article
        ("fr", "Photo d’un chien et d’un chat."),  # the "of" before the second noun would remain
        ("fr", "Photo de famille."),
        ("en", "The picture shows how a boat is built."),
    ],
)
def test_an_opener_that_can_not_be_removed_is_rejected(language: str, text: str) -> None:
    assert cleaned(text, language).alt_text == text
    assert (complaint_about(text, language) or "").startswith("it began with")
