from collections.abc import Callable, Iterable

class NormalCharacters:
    def __init__(
        self,
        form: str,
        make_tables: Callable[[], tuple[bytes | bytearray, Iterable[tuple[int, int]]]],
        max_unaided: int,
    ) -> None: ...
    def runs(self, text: str | bytes) -> list[tuple[int, int]]: ...
