"""The sample picture has the metadata that a camera and a catalogue program write, and its script is reproducible."""

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from PIL import ExifTags, Image, ImageCms, IptcImagePlugin

FOLDER = Path(__file__).parent
SAMPLE = FOLDER / "IMG_4711.jpg"
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
DC = "{http://purl.org/dc/elements/1.1/}"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("numpy")
    spec = importlib.util.spec_from_file_location("sample_render", FOLDER / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def small(script: ModuleType) -> bytes:
    data = script.camera_file(script.render(252))
    assert isinstance(data, bytes)
    return data


@pytest.fixture(params=["committed", "small"])
def picture(request: pytest.FixtureRequest) -> bytes:
    return SAMPLE.read_bytes() if request.param == "committed" else request.getfixturevalue("small")


def pixel(image: Image.Image | None, at: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    assert image is not None
    value = image.getpixel(at)
    assert isinstance(value, tuple)
    return value


def markers(data: bytes) -> list[tuple[int, bytes]]:
    """The segments before the first table, as (marker, start of the payload)."""
    found, at = [], 2
    while data[at + 1] >= 0xE0:
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        found.append((data[at + 1], data[at + 4 : at + 12]))
        at += 2 + length
    return found


def test_blocks_are_in_the_order_that_cameras_use(picture: bytes) -> None:
    expected = [(0xE1, b"Exif\0\0II"), (0xE1, b"http://n"), (0xED, b"Photosho"), (0xE2, b"ICC_PROF")]
    assert markers(picture) == expected


def test_committed_picture_is_twelve_megapixels_stored_rotated() -> None:
    assert 2_000_000 <= SAMPLE.stat().st_size <= 5_000_000
    with Image.open(SAMPLE) as image:
        assert image.size == (4032, 3024)
        assert image.getexif()[ExifTags.Base.Orientation] == 6
        assert image.getexif().get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ExifImageWidth] == 4032


def test_displayed_upright_the_sky_is_above_and_the_grass_below() -> None:
    with Image.open(SAMPLE) as image:
        image.draft("RGB", (504, 378))
        upright = image.transpose(Image.Transpose.ROTATE_270)  # as orientation 6 requires
    assert upright.height > upright.width
    top = pixel(upright.resize((1, 8), Image.Resampling.BOX), (0, 1))
    bottom = pixel(upright.resize((1, 8), Image.Resampling.BOX), (0, 7))
    assert top[2] > top[1], "sky is bluish"
    assert bottom[1] > bottom[2], "grass is greenish"
    assert sum(top) > sum(bottom)


def test_exif_has_camera_exposure_place_and_rights(picture: bytes) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        exif = image.getexif()
        shot, place = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.GPSInfo)
        interop = exif.get_ifd(ExifTags.IFD.Interop)
    assert exif[ExifTags.Base.Model] == "Rendered scene"
    assert "Apache-2.0" in exif[ExifTags.Base.Copyright]
    assert shot[ExifTags.Base.DateTimeOriginal] == "2025:05:24 21:48:16"
    assert shot[ExifTags.Base.ISOSpeedRatings] == 200
    assert shot[ExifTags.Base.BodySerialNumber] == "IL-0004711"
    assert len(shot[ExifTags.Base.MakerNote]) > 500
    assert [float(v) for v in place[ExifTags.GPS.GPSLatitude]] == pytest.approx([62, 28, 12.34])
    assert place[ExifTags.GPS.GPSLongitudeRef] == "E"
    assert interop[1] == "R03"


def test_thumbnail_shows_the_picture(picture: bytes) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        first = image.getexif().get_ifd(ExifTags.IFD.IFD1)
        start = first[ExifTags.Base.JpegIFOffset]
        exif = image.info["exif"][6:]
        whole = image.convert("RGB").resize((16, 12), Image.Resampling.BOX).tobytes()
    with Image.open(io.BytesIO(exif[start : start + first[ExifTags.Base.JpegIFByteCount]])) as thumbnail:
        assert thumbnail.size == (160, 120)
        little = thumbnail.resize((16, 12), Image.Resampling.BOX).tobytes()
    assert max(abs(a - b) for a, b in zip(whole, little, strict=True)) < 12


def test_profile_is_read_and_is_wider_than_srgb(picture: bytes) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
    assert ImageCms.getProfileDescription(profile).strip() == "imgproc-local wide RGB"
    to_srgb = ImageCms.buildTransform(profile, ImageCms.createProfile("sRGB"), "RGB", "RGB")
    grey = pixel(ImageCms.applyTransform(Image.new("RGB", (1, 1), (128, 128, 128)), to_srgb))
    green = pixel(ImageCms.applyTransform(Image.new("RGB", (1, 1), (120, 180, 120)), to_srgb))
    assert max(grey) - min(grey) <= 1, "grey stays grey"
    assert green[0] < 100, "a mild green of the wide profile is a strong one in sRGB"


def test_iptc_has_words_place_and_rights_in_utf8(picture: bytes) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        record = IptcImagePlugin.getiptcinfo(image)
    assert record is not None
    assert record[(1, 90)] == b"\x1b%G"
    expected = {
        90: "Skarvøy",
        101: "Norway",
        105: "Calm evening at the lighthouse",
        80: "imgproc-local project",
        110: "imgproc-local project",
        116: "© 2025 imgproc-local project, Apache-2.0",
    }
    assert {number: record[(2, number)] for number in expected} == {n: text.encode() for n, text in expected.items()}
    caption, keywords = record[(2, 120)], record[(2, 25)]
    assert isinstance(caption, bytes)
    assert caption.startswith(b"A red and white lighthouse")
    assert isinstance(keywords, list)
    assert {"lighthouse", "Leuchtturm", "Küste"} <= {word.decode() for word in keywords}


def test_xmp_has_title_and_caption_in_two_languages_but_no_alt_text(picture: bytes) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        packet = image.info["xmp"]
    root = ElementTree.fromstring(packet)
    for name, english, german in (
        ("title", "Lighthouse", "Leuchtturm"),
        ("description", "A red and white", "Ein rot-weißer"),
    ):
        texts = {item.get(LANGUAGE): item.text or "" for item in root.iterfind(f".//{DC}{name}/{RDF}Alt/{RDF}li")}
        assert set(texts) == {"x-default", "en", "de"}
        assert texts["en"].startswith(english)
        assert texts["de"].startswith(german)
    words = {item.text for item in root.iterfind(f".//{DC}subject/{RDF}Bag/{RDF}li")}
    assert {"sailing boat", "Segelboot"} <= words
    assert b"AltText" not in packet
    assert b"ExtDescr" not in packet


def test_libvips_finds_every_block() -> None:
    pyvips = pytest.importorskip("pyvips")
    image = pyvips.Image.new_from_file(str(SAMPLE), access="sequential", fail_on="error")
    blocks = {"exif-data", "xmp-data", "iptc-data", "icc-profile-data", "jpeg-thumbnail-data"}
    assert blocks <= set(image.get_fields())
    assert image.get("orientation") == 6
    assert image.get("exif-ifd3-GPSLatitude").startswith("62/1")
    assert image.get("jpeg-chroma-subsample") == "4:2:0"
    assert image.autorot().width == 3024
    assert 60 < image.icc_transform("srgb").avg() < 180


def test_same_size_gives_the_same_file(script: ModuleType, small: bytes) -> None:
    assert script.camera_file(script.render(252)) == small
