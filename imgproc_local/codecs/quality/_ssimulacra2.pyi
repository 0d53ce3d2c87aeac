from typing import final

@final
class Reference:
    def __new__(
        cls, pixels: bytes | bytearray | memoryview, width: int, height: int, bands: int = 3, background: int = 0
    ) -> Reference: ...
    def norms(self, pixels: bytes | bytearray | memoryview, /) -> tuple[float, ...]: ...
