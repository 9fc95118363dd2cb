"""Text files of users."""

from pathlib import Path

from llmchecker.errors import ConfigError

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_text(
    path: Path,
    place: str = "",
    *,
    max_bytes: int | None = None,
    error_type: type[Exception] = ConfigError,
) -> str:
    """Read a text file in UTF-8, with or without a byte order mark; line ends stay as they are.

    Args:
        path: the file.
        place: its name in messages, by default its path.
        max_bytes: largest number of bytes; None for no limit.
        error_type: the type of errors.

    Raises:
        ConfigError: the file is unreadable, too large or no UTF-8; another error of `error_type`.
    """
    place = place or str(path)
    try:
        with path.open("rb") as file:
            # one more byte than allowed is enough to detect a file that is too large
            content = file.read(-1 if max_bytes is None else max_bytes + 1)
    except OSError as error:
        raise error_type(f"{place}: cannot be read: {error.strerror}; check the path") from error
    if max_bytes is not None and len(content) > max_bytes:
        raise error_type(f"{place}: larger than the maximum of {max_bytes} bytes; shorten it")
    # zero bytes at the beginning reveal UTF-16 and UTF-32 without a byte order mark
    if content.startswith(_UTF16_MARKS) or b"\0" in content[:4]:
        raise error_type(f"{place}: encoded in UTF-16 or UTF-32; save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise error_type(
            f"{place}, line {line}: the byte 0x{content[error.start]:02X} is not UTF-8; save the "
            "file in UTF-8"
        ) from error
