"""Ways to damage a file."""

from __future__ import annotations


def encrypted(content: bytes) -> bytes:
    """A zip file that says that its members are encrypted: bit 0 of both kinds of headers."""
    changed = bytearray(content)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = changed.find(signature)
        while place >= 0:
            changed[place + flags] |= 1
            place = changed.find(signature, place + 4)
    return bytes(changed)
