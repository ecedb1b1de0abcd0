"""The wire format of protobuf: fields and their sizes, varints, and messages that are a head and items. Pure.

Unknown fields are skipped by their wire type. Reading beyond the end raises `IndexError`, anything else that is wrong
`Malformed`.
"""

from collections.abc import Iterator

from runtally.otlp.values import MAX_FIELDS, MAX_GROUPS, Malformed

# A tag combines a field's number and its wire type: 0 varint, 1 fixed 8 bytes, 2 length-delimited, 5 fixed 4 bytes.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MORE = 0x80
"""The bit that every byte of a varint but the last one has."""
MIN_TAG, MAX_TAG = 1 << 3, 2**32 - 1
UINT64 = 2**64 - 1
_MAX_VARINT_BYTES = 10
_GROUP_HEAD, _GROUP_ITEM = 1 << 3 | BYTES, 2 << 3 | BYTES


def fields(body: bytes, pos: int, end: int, *, most: int = MAX_FIELDS) -> Iterator[tuple[int, int, int]]:
    """Yield the fields of a message: tag, and where the content begins and ends."""
    while pos < end:
        most -= 1
        if most < 0:
            raise Malformed
        tag = body[pos]
        pos += 1
        if tag >= MORE:
            tag, pos = varint(body, pos - 1)
        begin = pos
        kind = tag & 7
        if kind == BYTES:
            size, begin = varint(body, pos)
            pos = begin + size
        else:
            pos = skip(body, tag, pos)
        if pos > end or tag < MIN_TAG or tag > MAX_TAG:
            raise Malformed
        yield tag, begin, pos


def skip(body: bytes, tag: int, pos: int) -> int:
    """Return where a field ends that has no length prefix."""
    kind = tag & 7
    if kind == VARINT:
        return varint(body, pos)[1]
    if kind == FIXED64:
        return pos + 8
    if kind == FIXED32:
        return pos + 4
    raise Malformed


def varint(body: bytes, pos: int) -> tuple[int, int]:
    """Read a varint, and return it with its end."""
    byte = body[pos]
    if byte < MORE:
        return byte, pos + 1
    number, shift = byte & 0x7F, 7
    for at in range(pos + 1, pos + _MAX_VARINT_BYTES):
        byte = body[at]
        number |= (byte & 0x7F) << shift
        if byte < MORE:
            return number & UINT64, at + 1
        shift += 7
    raise Malformed


def group(body: bytes, pos: int, end: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Split a message into its head (field 1) and its items (field 2): the head's bytes, and where the items are."""
    head, items = b"", []
    for tag, begin, stop in fields(body, pos, end, most=MAX_GROUPS + 1):
        if tag == _GROUP_ITEM:
            items.append((begin, stop))
        elif tag == _GROUP_HEAD:
            head += body[begin:stop]
    return head, items
