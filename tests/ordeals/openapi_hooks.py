"""Hooks of Schemathesis, which loads this file by its path: real pictures in the uploads that it generates.

A schema can't describe a picture or say which projects exist, so valid requests get both here. Requests that are meant
to be invalid are not changed, because the image may be what is invalid.
"""

from __future__ import annotations

import io
import os
import random
from typing import Any

import schemathesis
from PIL import Image
from schemathesis.transport.serialization import Binary

_random = random.Random(int(os.environ["ORDEAL_SEED"]))
PROJECT_ID = os.environ["ORDEAL_PROJECT_ID"]
FORMATS = {
    "analyze": ("JPEG", "PNG", "GIF", "WEBP"),
    "optimize": ("JPEG", "PNG", "GIF", "WEBP", "AVIF"),
    "convert": ("JPEG", "PNG"),
    "process": ("JPEG", "PNG", "GIF", "WEBP"),
}


def _picture(name: str, width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.frombytes("RGB", (width, height), _random.randbytes(width * height * 3)).save(file, name)
    return file.getvalue()


PICTURES = {name: [_picture(name, *size) for size in ((1, 1), (24, 16), (61, 47))] for name in FORMATS["optimize"]}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Put a real picture and the id of a project that exists into valid uploads."""
    operation = case.operation.path.rpartition("/")[2]
    if operation not in FORMATS or not isinstance(case.body, dict) or "image" not in case.body:
        return
    if case.meta is None or case.meta.generation.mode.is_positive:
        case.body["image"] = Binary(_random.choice(PICTURES[_random.choice(FORMATS[operation])]))
        if case.body.get("project_id"):
            case.body["project_id"] = PROJECT_ID
        case._record_starting_state()  # Schemathesis calls a body with bytes that a hook put in invalid
