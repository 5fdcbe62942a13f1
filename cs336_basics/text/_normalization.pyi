from collections.abc import Callable, Iterable

class NormalCharacters:
    def __init__(
        self,
        form: str,
        make_tables: Callable[[], tuple[bytes | bytearray, Iterable[tuple[int, int]]]],
    ) -> None: ...
    def runs(self, text: str | bytes) -> list[tuple[int, int]]: ...
