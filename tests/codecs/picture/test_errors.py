"""Every error of an image library becomes a domain error with a message for people."""

from __future__ import annotations

import errno
import struct
import zlib
from pathlib import Path

import pytest
import pyvips
from PIL import Image, UnidentifiedImageError

from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.libvips import translate, translate_errors
from imgproc_local.domain.errors import BrokenImage, ServiceError, StageCancelled, StageFailed, TooManyPixels
from imgproc_local.domain.image import Format
from tests.codecs import pictures
from tests.codecs.operations import CONVERT, to_avif, to_webp
from tests.codecs.pictures import never_stop
from tests.support.reading import encode_file, optimize_file, probe, read_embedded

LIBRARY_ERRORS = [
    (pyvips.Error("unable to call jpegload", "/data/blobs/ab/cd: premature end of JPEG image"), BrokenImage),
    (pyvips.Error("unable to call heifsave", "out of memory --- size == 3GB"), StageFailed),
    (pyvips.Error("unable to call pngsave", "write error: No space left on device"), StageFailed),
    (pyvips.Error("unable to call webpsave_buffer", "webpsave: unable to encode\nwbuffer_write: failed"), StageFailed),
    (pyvips.Error("", 'VipsImage: unable to write to "/data/vips-0-1.v"\nsystem error: No such file'), StageFailed),
    (RecursionError("maximum recursion depth exceeded"), BrokenImage),
    (UnidentifiedImageError("cannot identify image file '/data/blobs/ab/cd'"), BrokenImage),
    (Image.DecompressionBombError("Image size exceeds limit"), TooManyPixels),
    (OSError("image file is truncated"), BrokenImage),
    (OSError(errno.ENOSPC, "No space left on device", "/data/tmp/x"), StageFailed),
    (OSError(errno.ENOENT, "No such file or directory", "/data/blobs/ab/cd"), StageFailed),
    (struct.error("unpack requires a buffer of 4 bytes"), BrokenImage),
    (zlib.error("Error -3 while decompressing data"), BrokenImage),
    (ValueError("bad value"), BrokenImage),
    (MemoryError(), StageFailed),
]


@pytest.mark.parametrize(("library_error", "domain_error"), LIBRARY_ERRORS)
def test_a_library_error_becomes_a_domain_error_whose_message_holds_no_path(
    library_error: Exception, domain_error: type[ServiceError]
) -> None:
    @translate_errors("The picture can't be read")
    def failing() -> None:
        raise library_error

    with pytest.raises(domain_error) as raised:
        failing()
    assert raised.value.message.startswith("The picture can't be read: ")
    assert "/data" not in raised.value.message
    assert raised.value.__cause__ is library_error


def test_domain_errors_and_programming_errors_are_not_translated() -> None:
    for error in (StageCancelled("The job was cancelled."), TypeError("a mistake"), AttributeError("a mistake")):

        @translate_errors("The picture can't be read")
        def failing(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as same:
            failing()
        assert same.value is error
    assert translate(TypeError("a mistake"), "x") is None


@pytest.mark.parametrize("name", pictures.WITH_METADATA)
def test_damaged_files_give_a_result_or_a_domain_error_in_every_operation(tmp_path: Path, name: str) -> None:
    undamaged = pictures.WITH_METADATA[name]()
    # 4 wrong bytes at each of 40 positions between the signature and the last 40 bytes
    first, last, count = 20, len(undamaged) - 40, 40
    for number in range(count):
        position = first + number * (last - first) // count
        data = undamaged[:position] + b"\x5a\x00\xff\xa5" + undamaged[position + 4 :]
        path = pictures.write(tmp_path, data)
        try:
            info = probe(path, 10**6)
        except ServiceError:
            continue
        for call in (
            lambda path=path, info=info: decode.thumbnail(path, info, 64, never_stop),
            lambda path=path, info=info: read_embedded(path, info),
            lambda path=path, info=info: (encode_file if info.format is Format.TIFF else optimize_file)(
                path, info, never_stop
            ),
            lambda path=path, info=info: to_webp(path, info, never_stop),
        ):
            try:
                call()
            except ServiceError as error:
                raised = error.message
                assert str(tmp_path) not in raised


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "AVIF", "GIF"])
def test_a_truncated_picture_fails_in_every_operation(tmp_path: Path, file_format: str) -> None:
    whole = pictures.saved(pictures.scene(640, 480), file_format)
    path = pictures.write(tmp_path, whole)
    info = probe(path, 10**9)
    path.write_bytes(whole[: len(whole) // 2])
    for call in (optimize_file, to_webp, to_avif):
        with pytest.raises(BrokenImage):
            call(path, info, never_stop)
    with pytest.raises(BrokenImage):
        decode.thumbnail(path, info, 256, never_stop)


@pytest.mark.parametrize("file_format", ["WEBP", "AVIF"])
def test_a_picture_too_large_for_the_format_is_refused_with_its_size(tmp_path: Path, file_format: str) -> None:
    path = pictures.write(tmp_path, pictures.saved(pictures.scene(16400, 2), "PNG"))
    convert = CONVERT[file_format]
    with pytest.raises(StageFailed, match="16,400 × 2"):
        convert(path, probe(path, 10**9), never_stop)
