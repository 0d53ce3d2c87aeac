"""The setting `name_people` decides whom the texts, file names and results of `process` name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Program
from tests.codecs import pictures

CAPTION, SHOWN, FACE, FIELDS, WINDOWS, PET, FILE = (
    "Ada Example", "Bora Muster", "Chidi Beispiel", "Dana Ejemplo", "Esi Exemple", "Rexpet", "Fay Esempio",
)  # fmt: skip
PERSONS = (SHOWN, FACE, FIELDS, WINDOWS)
XMP = f"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
 xmlns:mwg-rs="http://www.metadataworkinggroup.com/schemas/regions/" xmlns:MP="http://ns.microsoft.com/photo/1.2/"
 xmlns:MPRI="http://ns.microsoft.com/photo/1.2/t/RegionInfo#" xmlns:MPReg="http://ns.microsoft.com/photo/1.2/t/Region#">
<dc:description><rdf:Alt><rdf:li xml:lang="en">{CAPTION} repairs a kite on a beach.</rdf:li></rdf:Alt></dc:description>
<dc:subject><rdf:Bag><rdf:li>kite</rdf:li><rdf:li>{SHOWN.lower()}</rdf:li><rdf:li>{FACE}</rdf:li></rdf:Bag></dc:subject>
<Iptc4xmpExt:PersonInImage><rdf:Bag><rdf:li>{SHOWN}</rdf:li></rdf:Bag></Iptc4xmpExt:PersonInImage>
<mwg-rs:Regions rdf:parseType="Resource"><mwg-rs:RegionList><rdf:Bag>
<rdf:li><rdf:Description mwg-rs:Name="{FACE}" mwg-rs:Type="Face"/></rdf:li>
<rdf:li rdf:parseType="Resource"><mwg-rs:Name>{FIELDS}</mwg-rs:Name><mwg-rs:Type>Face</mwg-rs:Type></rdf:li>
<rdf:li><rdf:Description mwg-rs:Name="{PET}" mwg-rs:Type="Pet"/></rdf:li>
</rdf:Bag></mwg-rs:RegionList></mwg-rs:Regions>
<MP:RegionInfo rdf:parseType="Resource"><MPRI:Regions><rdf:Bag>
<rdf:li><rdf:Description MPReg:PersonDisplayName="{WINDOWS}" MPReg:Rectangle="0, 0, 1, 1"/></rdf:li>
</rdf:Bag></MPRI:Regions></MP:RegionInfo></rdf:Description></rdf:RDF>"""


@pytest.mark.parametrize(
    ("setting", "named_in_texts", "named_in_files"),
    [
        pytest.param({}, {CAPTION}, {CAPTION}, id="default"),
        ({"name_people": "all"}, {CAPTION, *PERSONS}, {CAPTION, *PERSONS}),
        ({"name_people": "none"}, set(), {CAPTION}),
    ],
)
def test_persons_are_named_only_where_the_setting_allows_it(
    program: Program, tmp_path: Path, setting: dict[str, Any], named_in_texts: set[str], named_in_files: set[str]
) -> None:
    plain = pictures.saved(pictures.scene(), "JPEG", quality=95)
    packet = pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP.encode())
    picture = tmp_path / f"{FILE}.jpg"
    picture.write_bytes(plain[:2] + packet + plain[2:])
    arguments = ("--languages", "en,de", "--format", "webp", "--out", tmp_path / "out")
    [image] = program.in_process_json("process", picture, *arguments, **setting)
    words = " ".join(f"{each['seo_alt_text']} {each['seo_filename']}" for each in image["translations"])
    words = words.lower().replace("-", " ")
    assert {name for name in (CAPTION, *PERSONS, PET, FILE) if name.lower() in words} == named_in_texts
    for file in (image["optimized_file"], image["converted_file"]):
        data = Path(file).read_bytes()
        assert {name for name in (CAPTION, *PERSONS, PET) if name.encode() in data} == named_in_files
        assert b"kite" in data
        assert b"region" not in data.lower()
    assert "person" in image["removed"]
