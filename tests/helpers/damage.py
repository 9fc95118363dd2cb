"""Files as a failing disk leaves them."""


def flipped(contents: bytes, bit: int) -> bytes:
    """The same bytes but for one bit."""
    damaged = bytearray(contents)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)
