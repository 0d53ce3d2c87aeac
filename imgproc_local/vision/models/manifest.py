"""The manifest of a model: a JSON file beside its two GGUF files that describes them."""

from __future__ import annotations

from msgspec import Struct, field

from imgproc_local.vision.models.model import ChatFormat

MANIFEST_FILE, TEXT_MODEL_FILE, MMPROJ_FILE = "manifest.json", "text.gguf", "mmproj.gguf"


class ModelFile(Struct, frozen=True):
    """One GGUF file. `file` is its original name; in the model's folder it is `TEXT_MODEL_FILE` or `MMPROJ_FILE`."""

    file: str
    size_bytes: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of `MANIFEST_FILE`. `origin` is "REPOSITORY@COMMIT" or "REPOSITORY@BRANCH", "" if unknown.

    Invariant: the names in the JSON file never change, because other versions of the program read it. So the field
    `chat` is still stored as "talk".
    """

    name: str
    text: ModelFile
    mmproj: ModelFile
    chat: ChatFormat = field(default=ChatFormat(), name="talk")
    origin: str = ""
    licence: str = ""
    languages: str = ""
    memory_mb: int = 0

    @property
    def size_bytes(self) -> int:
        """The size of both files together."""
        return self.text.size_bytes + self.mmproj.size_bytes

    def files(self) -> tuple[tuple[str, ModelFile], ...]:
        """For each file, its name in the folder of the model and its description."""
        return (TEXT_MODEL_FILE, self.text), (MMPROJ_FILE, self.mmproj)
