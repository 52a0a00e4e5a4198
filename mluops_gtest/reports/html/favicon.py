"""The picture in the browser's tab: a dot in the colour of the verdict."""

import base64
import struct
import zlib

_SIZE = 32


def favicon(red: int, green: int, blue: int) -> str:
    """A PNG of a dot as a data address; a page without an icon makes browsers ask the server for one."""
    centre, radius = (_SIZE - 1) / 2, _SIZE / 2 - 1.5
    rows = bytearray()
    for y in range(_SIZE):
        rows.append(0)  # the row's filter: none
        for x in range(_SIZE):
            distance = ((x - centre) ** 2 + (y - centre) ** 2) ** 0.5
            opacity = min(max(radius + 0.5 - distance, 0.0), 1.0)
            rows += bytes((red, green, blue, round(255 * opacity)))
    header = struct.pack(">IIBBBBB", _SIZE, _SIZE, 8, 6, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
