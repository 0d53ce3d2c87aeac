"""The sample picture carries what a camera and a catalogue program write, so that commands can show what they do."""

from pathlib import Path

import pyvips
from PIL import ExifTags, Image

SAMPLE = Path(__file__).parent / "IMG_4711.jpg"


def test_it_is_a_photograph_of_twelve_megapixels_stored_rotated() -> None:
    image = pyvips.Image.new_from_file(str(SAMPLE), fail_on="error")
    assert (image.width, image.height, image.get("orientation")) == (4032, 3024, 6)
    assert image.get("jpeg-chroma-subsample") == "4:2:0"
    sky, grass = (image.autorot().crop(0, y, 3024, 100).stats() for y in (300, 3900))
    assert sky(4, 3)[0] > sky(4, 2)[0], "the sky is above"
    assert grass(4, 2)[0] > grass(4, 3)[0], "the grass is below"


def test_it_has_every_block_with_private_data_rights_and_words_but_no_alt_text() -> None:
    image = pyvips.Image.new_from_file(str(SAMPLE))
    blocks = {"exif-data", "xmp-data", "iptc-data", "icc-profile-data", "jpeg-thumbnail-data"}
    assert blocks <= set(image.get_fields())
    with Image.open(SAMPLE) as opened:
        exif = opened.getexif()
    shot, place = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.GPSInfo)
    assert "Apache-2.0" in exif[ExifTags.Base.Copyright]
    assert shot[ExifTags.Base.BodySerialNumber] == "IL-0004711"
    assert len(shot[ExifTags.Base.MakerNote]) > 500
    assert [float(number) for number in place[ExifTags.GPS.GPSLatitude]] == [62, 28, 12.34]
    iptc, xmp = image.get("iptc-data"), image.get("xmp-data")
    for words in ("A red and white lighthouse", "Skarvøy", "Leuchtturm"):
        assert words.encode() in iptc
    for words in ("A red and white lighthouse", "Ein rot-weißer", "Segelboot"):
        assert words.encode() in xmp
    assert b"AltText" not in xmp
