"""Alt texts from tables: what is read, which pictures it means, and what a person wrote."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.conftest import (
    LOOKS,
    NumberedDescriber,
    OpenTab,
    Tab,
    jobs,
    translation,
    violations,
    wait_until,
    wait_until_stored,
)
from tests.support import pictures
from tests.support.service import Running, running

FILES = [
    ("IMG_1.jpg", "Trip/Day one"),
    ("IMG_1.jpg", "Trip/Day two"),
    ("Größe.jpg", ""),
    ("own.jpg", ""),
    ("plain.jpg", ""),
]
OWN = "Written by a person."


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Running]:
    """Five pictures in two languages, two of one name in two folders; a person wrote the English text of one."""
    with running(tmp_path / "data", NumberedDescriber) as started:
        for number, (name, folder) in enumerate(FILES):
            form = {"languages": ["en", "de"], **({"folder": folder} if folder else {})}
            started.process("analyze", pictures.jpeg(96, 64, seed=number), name, **form)
        image_id = jobs(started)["own.jpg"]["image"]["id"]
        edited = started.client.patch(f"/images/{image_id}/translations/en", json={"seo_alt_text": OWN})
        assert edited.status_code == 200
        yield started


@pytest.fixture
def tab(archive: Running, open_tab: OpenTab) -> Tab:
    opened = open_tab(archive)
    opened.wait(f"document.querySelectorAll('.tile').length === {len(FILES)}")
    return opened


def drop_table(tab: Tab, content: bytes | str, name: str = "texts.csv") -> None:
    tab.drop({name: content if isinstance(content, bytes) else content.encode()})
    tab.wait("document.querySelector('.import-rows, .import-dialog [role=alert]')")


def results(tab: Tab) -> dict[str, str]:
    """What the preview says of each row, by the file that the row names."""
    found: dict[str, str] = tab.page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.import-rows tbody tr')]"
        ".map(({ cells }) => [cells[0].textContent, cells[3].textContent]))"
    )
    return found


def apply(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Import", exact=True).click()


def in_folder(service: Running, folder: str) -> str:
    listed = service.client.get("/jobs", params={"include": "details"}).json()["data"]
    image = next(job["image"] for job in listed if job["image"]["details"]["folder"] == folder)
    return str(image["translations"][0]["seo_alt_text"])


def test_texts_are_found_by_path_name_and_address_and_imported_as_one_act(tab: Tab, archive: Running) -> None:
    before = translation(archive, "plain.jpg")["seo_alt_text"]
    exported = translation(archive, "Größe.jpg")["seo_filename"]
    drop_table(
        tab,
        "File name;Alt text\n"
        "Trip/Day two/IMG_1.jpg;Second day\n"
        "C:\\Photos\\Trip\\Day one\\img_1.JPG;First day\n"
        f"https://shop.example/files/{exported}.webp?v=2;A street\n"
        'PLAIN.JPG;"Two lines\nof text; ""quoted"""\n'
        "own.jpg;Another text\n"
        "nowhere.jpg;Nothing\n"
        "IMG_1.jpg;Which one?\n",
    )
    assert "Changes 4 texts of 7 rows." in tab.text(".import-dialog [role=status]")
    assert results(tab)["own.jpg"] == "replaces a text that a person wrote"
    assert results(tab)["nowhere.jpg"] == "not found"
    apply(tab)
    wait_until_stored(archive, "plain.jpg", 'Two lines of text; "quoted"')
    assert in_folder(archive, "Trip/Day one") == "First day"
    assert in_folder(archive, "Trip/Day two") == "Second day"
    assert translation(archive, "Größe.jpg")["seo_alt_text"] == "A street"
    assert translation(archive, "own.jpg")["seo_alt_text"] == OWN
    tab.page.get_by_role("status").get_by_role("button", name="Undo").click()
    wait_until_stored(archive, "plain.jpg", before)
    assert in_folder(archive, "Trip/Day one") != "First day"


def test_a_text_of_a_person_is_replaced_only_if_the_box_is_cleared(tab: Tab, archive: Running) -> None:
    drop_table(tab, "own.jpg,Another text\n")
    assert tab.page.get_by_role("button", name="Import", exact=True).is_disabled()
    tab.page.get_by_label("Keep texts that a person wrote").uncheck()
    apply(tab)
    wait_until_stored(archive, "own.jpg", "Another text")


def test_what_is_ambiguous_is_not_guessed(tab: Tab, archive: Running) -> None:
    drop_table(tab, "file,alt_text\nIMG_1.jpg,One\nplain.jpg,Two\nplain.jpg,Three\n")
    assert results(tab) == {"IMG_1.jpg": "several pictures have this name", "plain.jpg": "two texts for one picture"}
    assert tab.page.get_by_role("button", name="Import", exact=True).is_disabled()


ROW = "Größe.jpg{}Über die Größe"
INLINKS = '"Type","Source","Destination","Alt Text"\n"Image","https://a.example/","{}","Über die Größe"\n'
PRODUCTS = "Handle,Title,Image Src,Image Position,Image Alt Text\nsize,Size,{}?v=1,1,Über die Größe\n"
TABLES = {
    "UTF-8": f"own.jpg,x\n{ROW.format(',')}\n".encode(),
    "UTF-8 with a mark": f"\ufefffile;alt text\n{ROW.format(';')}\n".encode(),
    "UTF-16": f"file\talt text\r\n{ROW.format(chr(9))}\r\n".encode("utf-16"),
    "UTF-16 without a mark": f"file\talt text\r\n{ROW.format(chr(9))}\r\n".encode("utf-16-le"),
    "Windows-1252": f"file;alt text\r\n{ROW.format(';')}".encode("cp1252"),
    "decomposed": f"file,alt text\n{unicodedata.normalize('NFD', 'Größe.jpg')},Über die Größe\n".encode(),
    "Screaming Frog": INLINKS.format(f"https://a.example/i/{quote('Größe.jpg')}").encode(),
    "Shopify": PRODUCTS.format("https://cdn.example/s/Größe.jpg").encode(),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_of_other_programs_are_read(tab: Tab, archive: Running, table: bytes) -> None:
    drop_table(tab, table)
    apply(tab)
    wait_until_stored(archive, "Größe.jpg", "Über die Größe")


def test_the_table_of_an_export_is_read_in_all_its_languages(tab: Tab, archive: Running) -> None:
    drop_table(
        tab,
        "file,original_filename,language,seo_filename,alt_text\n"
        "x.jpg,plain.jpg,en,x,In English\nx.webp,plain.jpg,en,x,In English\n"
        "x.jpg,plain.jpg,de,x,'=Auf Deutsch\nx.jpg,plain.jpg,fr,x,En français\n",
        "alt.csv",
    )
    status = tab.text(".import-dialog [role=status]")
    assert "Changes 2 texts of 3 rows." in status
    assert "no text in French" in tab.text(".import-rows")
    apply(tab)
    wait_until_stored(archive, "plain.jpg", "In English")
    assert translation(archive, "plain.jpg", "de")["seo_alt_text"] == "=Auf Deutsch"


def test_the_table_of_an_export_tells_files_of_one_name_apart_by_folder(tab: Tab, archive: Running) -> None:
    row = "photo.jpg,IMG_1.jpg,en,photo,{},vision,false,optimized,,{}\n"
    heading = "file,original_filename,language,seo_filename,alt_text,source,needs_text,variant,reason,folder\n"
    drop_table(tab, heading + row.format("First", "Trip/Day one") + row.format("Second", "Trip/Day two"), "alt.csv")
    apply(tab)
    wait_until(lambda: in_folder(archive, "Trip/Day one") == "First", "the first text")
    assert in_folder(archive, "Trip/Day two") == "Second"


def test_the_language_of_a_table_without_one_is_chosen(tab: Tab, archive: Running) -> None:
    before = translation(archive, "plain.jpg")["seo_alt_text"]
    drop_table(tab, "file,alt\nplain.jpg,Auf Deutsch\n")
    tab.page.get_by_label("Language of the texts").select_option("de")
    apply(tab)
    wait_until_stored(archive, "plain.jpg", "Auf Deutsch", "de")
    assert translation(archive, "plain.jpg")["seo_alt_text"] == before


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("a,b,c\n1,2,3\n", "The table needs a column of files and one of alt texts"),
        ('file,alt\nplain.jpg,"never closed\n', "The quotes in row 2 don't match."),
        ("file,alt\n" + "a.jpg,b\n" * 10_001, "The table has more than 10,000 rows."),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_reason(tab: Tab, table: str, problem: str) -> None:
    drop_table(tab, table)
    assert problem in tab.text(".import-dialog [role=alert]")


def test_all_rows_of_a_large_table_can_be_scrolled_to(tab: Tab) -> None:
    drop_table(tab, "file,alt\n" + "".join(f"{number}.jpg,b\n" for number in range(1, 10_001)))
    assert "10,000: not found" in tab.text(".import-dialog [role=status]")
    assert tab.page.locator(".import-rows tr").count() < 100
    tab.page.evaluate("document.querySelector('.import-rows').scrollTo(0, 1e9)")
    tab.wait("document.querySelector('.import-rows').textContent.includes('10000.jpg')")


@LOOKS
def test_axe_finds_no_violation_in_the_dialog(
    archive: Running, open_tab: OpenTab, axe: str, width: int, options: dict[str, Any]
) -> None:
    tab = open_tab(archive, width=width, reduced_motion="reduce", **options)
    wait_until(lambda: tab.page.locator(".tile").count() > 0, "the list")
    drop_table(tab, "file,alt\nplain.jpg,A\nown.jpg,B\nnowhere.jpg,C\n")
    assert violations(tab, axe) == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
