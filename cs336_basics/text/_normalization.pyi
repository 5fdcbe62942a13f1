from collections.abc import Iterable

class NormalCharacters:
    def __init__(
        self, classes: bytes | bytearray, pairs: Iterable[tuple[int, int]]
    ) -> None: ...
    def runs(self, text: str | bytes) -> list[tuple[int, int]]: ...
