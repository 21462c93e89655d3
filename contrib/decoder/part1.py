#!/usr/bin/env python3
"""A second decoder of walzip's formats, in one file.

It answers the question "what if walzip is gone?". It gets every WAL file and every base backup out
of a repository directory, and was written from docs/format alone. It is slow, and writes nothing
but what it was asked for.

    walzip_decode.py FILE.wz [-o OUT]              decode a file
    walzip_decode.py --repo DIR list               what the repository has
    walzip_decode.py --repo DIR wal NAME -o OUT    one WAL file
    walzip_decode.py --repo DIR backup LABEL -o DIR
                                                   a backup; tablespaces go to pg_tblspc/OID

It needs Python 3.11, and a module for zstd: that of Python 3.14, `backports.zstd`, `zstandard` or
`pyzstd`. `blake3` makes it faster. Images that a server compressed are compressed again, by the
library that made them: zstd by libzstd 1.5.6 (`zstandard==0.23.0` has it) or by 1.5.7, lz4 by
liblz4 (`lz4`, or the system's library). Where the library is not there, the file is refused.

Exit codes: 0, and the output is what was encoded; 1, and one line says what is wrong; 2, wrong
usage. The output has its name only when its hash is right.
"""

import argparse
import bisect
import ctypes
import ctypes.util
import hashlib
import importlib
import io
import json
import os
import re
import shutil
import struct
import sys
import tarfile
from array import array
from collections import OrderedDict
from itertools import accumulate

MEMBER_LEN_MAX = 1 << 30
CHUNK_LEN_MAX = 16 << 20
NAME_LEN_MAX = 64
CONTENT_EXPANSION_MAX = 16
CHUNK_EXPANSION_MAX = 2
CONTENT_LEN_BASE = 1 << 20
CONTENT_LEN_FREE = 128 << 20
CONTENT_PACKED_MAX = 4096
STREAMS_MAX = 1 << 20
KINDS_MAX = 65536
KIND_BLOCKS_MAX = 33
KIND_BLOCKS_TOTAL_MAX = 131072
LISTS_COST_MAX = 64 << 20
DICTIONARY_VALUE_COST = 8
JSON_ENTRY_COST = 128
WORDS_COST = 65536
EXTRACTION_MAX = 4
BLOCK_ROWS = 65536
BINS_MAX = 512
BIN_ROWS_MAX = 256
WINDOW_LOG_MAX = 27
ZSTD_EXPANSION_MAX = 32768
PAGE = 8192
M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF

MAJORS = {0xD106: 13, 0xD10D: 14, 0xD110: 15, 0xD113: 16, 0xD116: 17, 0xD118: 18, 0xD122: 19}

FOREIGN, WAL, PAGES, DIFFERENCES = 0, 1, 2, 3


class Damaged(Exception):
    """The input is not what an encoder writes, or needs a library that is not here."""


def need(condition, message):
    if not condition:
        raise Damaged(message)


# ---------------------------------------------------------------- checksums and hashes


def _crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    wide = array("I", bytes(4 * 65536))
    for n in range(65536):
        c = table[n & 255] ^ n >> 8
        wide[n] = table[c & 255] ^ c >> 8
    return table, wide


_CRC_BYTE, _CRC_WORD = _crc32c_table()


def crc32c(data, crc=0):
    """CRC-32C, two bytes at a time."""
    crc ^= M32
    wide = _CRC_WORD
    even = len(data) & ~1
    words = array("H", bytes(data[:even]))
    if sys.byteorder == "big":
        words.byteswap()
    for word in words:
        crc = wide[(crc ^ word) & 0xFFFF] ^ crc >> 16
    if len(data) & 1:
        crc = _CRC_BYTE[(crc ^ data[-1]) & 255] ^ crc >> 8
    return crc ^ M32


_B3_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_B3_PERMUTE = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_B3_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
               (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_B3_START, _B3_END, _B3_PARENT, _B3_ROOT, _B3_KEYED = 1, 2, 4, 8, 16


def _b3_compress(cv, words, counter, length, flags):
    v = list(cv) + list(_B3_IV[:4]) + [counter & M32, counter >> 32 & M32, length, flags]
    m = words
    for turn in range(7):
        for n, (a, b, c, d) in enumerate(_B3_COLUMNS):
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = va + vb + m[2 * n] & M32
            vd ^= va
            vd = vd >> 16 | vd << 16 & M32
            vc = vc + vd & M32
            vb ^= vc
            vb = vb >> 12 | vb << 20 & M32
            va = va + vb + m[2 * n + 1] & M32
            vd ^= va
            vd = vd >> 8 | vd << 24 & M32
            vc = vc + vd & M32
            vb ^= vc
            v[a], v[b], v[c], v[d] = va, vb >> 7 | vb << 25 & M32, vc, vd
        if turn < 6:
            m = [m[p] for p in _B3_PERMUTE]
    return [v[n] ^ v[n + 8] for n in range(8)]


def _b3_chunk(key, data, counter, flags, root):
    cv = key
    blocks = max(1, (len(data) + 63) // 64)
    for n in range(blocks):
        block = data[64 * n : 64 * n + 64]
        words = struct.unpack("<16I", block.ljust(64, b"\0"))
        own = flags | (_B3_START if n == 0 else 0) | ((_B3_END | root) if n == blocks - 1 else 0)
        cv = _b3_compress(cv, words, counter, len(block), own)
    return cv


def _b3_tree(key, data, counter, flags, root):
    if len(data) <= 1024:
        return _b3_chunk(key, data, counter, flags, root)
    chunks = (len(data) + 1023) // 1024
    left = 1 << (chunks - 1).bit_length() - 1
    words = _b3_tree(key, data[: 1024 * left], counter, flags, 0)
    words = words + _b3_tree(key, data[1024 * left :], counter + left, flags, 0)
    return _b3_compress(key, words, 0, 64, flags | _B3_PARENT | root)


def blake3_slow(data, key=None):
    """BLAKE3 in plain Python, for where the module is not there: about 0.2 MB/s."""
    start, flags = _B3_IV, 0
    if key is not None:
        start, flags = struct.unpack("<8I", key), _B3_KEYED
    return struct.pack("<8I", *_b3_tree(start, bytes(data), 0, flags, _B3_ROOT))


try:
    import blake3 as _blake3

    def blake3(data, key=None):
        return (_blake3.blake3(data) if key is None else _blake3.blake3(data, key=key)).digest()

except ImportError:
    blake3 = blake3_slow


# ---------------------------------------------------------------- compressors


def _module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_ZSTANDARD = _module("zstandard")
_ZSTD_API = [m for m in map(_module, ("compression.zstd", "backports.zstd", "pyzstd")) if m]
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def zstd_frame_end(data, at, magicless):
    """Where the frame ends that begins at `at`, and how large a window it wants."""
    try:
        if not magicless:
            need(data[at : at + 4] == ZSTD_MAGIC, "zstd: no frame")
            at += 4
        descriptor = data[at]
        at += 1
        need(not descriptor & 0x08, "zstd: a reserved bit is set")
        single = descriptor >> 5 & 1
        window = 0
        if not single:
            log = 10 + (data[at] >> 3)
            window = (1 << log) + ((1 << log) >> 3) * (data[at] & 7)
            at += 1
        need(not descriptor & 3, "zstd: a dictionary is needed")
        at += (single, 2, 4, 8)[descriptor >> 6]
        while True:
            header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            sort = header >> 1 & 3
            need(sort != 3, "zstd: a reserved kind of block")
            at += 3 + (1 if sort == 1 else header >> 3)
            if header & 1:
                break
        at += 4 if descriptor & 4 else 0
    except IndexError:
        raise Damaged("zstd: a frame is cut off") from None
    need(at <= len(data), "zstd: a frame is cut off")
    return at, window


def zstd_decode_frame(frame, most):
    """The content of one whole frame with its magic number, of at most `most` bytes."""
    try:
        if _ZSTANDARD:
            reader = _ZSTANDARD.ZstdDecompressor(max_window_size=1 << WINDOW_LOG_MAX).stream_reader(frame)
            parts, left = [], most + 1
            while left:
                part = reader.read(left)
                if not part:
                    break
                parts.append(part)
                left -= len(part)
            out = b"".join(parts)
        elif _ZSTD_API:
            out = _ZSTD_API[0].ZstdDecompressor().decompress(frame, max_length=most + 1)
        else:
            raise Damaged("no module for zstd: install `zstandard` or `backports.zstd`")
    except Damaged:
        raise
    except Exception as error:
        raise Damaged(f"zstd: {error}") from None
    need(len(out) <= most, "zstd: a frame stands for more bytes than it may")
    return out


def zstd_decode(data, length, magicless=True):
    """Frames one after the other that stand for exactly `length` bytes."""
    need(length <= ZSTD_EXPANSION_MAX * len(data), "zstd: content that its data cannot reach")
    out, at = [], 0
    left = length
    while at < len(data):
        end, window = zstd_frame_end(data, at, magicless)
        need(window <= 1 << WINDOW_LOG_MAX, "zstd: the window is too large")
        part = zstd_decode_frame((ZSTD_MAGIC if magicless else b"") + data[at:end], left)
        left -= len(part)
        out.append(part)
        at = end
    need(left == 0, "zstd: the frames have another length than the header says")
    return b"".join(out)


def _system_library(name, soname):
    for candidate in (soname, ctypes.util.find_library(name)):
        try:
            if candidate:
                return ctypes.CDLL(candidate)
        except OSError:
            pass
    return None


def _zstd_compressors():
    """Version and function of each compressor that is here: level 3, content size, no checksum."""
    found = []
    if _ZSTANDARD:
        found.append((tuple(_ZSTANDARD.ZSTD_VERSION), lambda d: _ZSTANDARD.ZstdCompressor(level=3).compress(d)))
    for module in _ZSTD_API:
        found.append((tuple(module.zstd_version_info), lambda d, m=module: m.compress(d, 3)))
    library = _system_library("zstd", "libzstd.so.1")
    if library:
        library.ZSTD_createCCtx.restype = ctypes.c_void_p
        library.ZSTD_compressCCtx.restype = ctypes.c_size_t
        library.ZSTD_compressCCtx.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                              ctypes.c_size_t, ctypes.c_int]
        context = library.ZSTD_createCCtx()

        def compress(data):
            room = ctypes.create_string_buffer(2 * len(data) + 512)
            size = library.ZSTD_compressCCtx(context, room, len(room), bytes(data), len(data), 3)
            need(size <= len(room), "libzstd refuses a page")
            return room.raw[:size]

        number = library.ZSTD_versionNumber()
        found.append(((number // 10000, number // 100 % 100, number % 100), compress))
    return found


# The versions of libzstd whose bytes are the same (docs/format/model/pages.md).
ZSTD_FORM_1 = ((1, 5, 6), (1, 5, 5), (1, 5, 4), (1, 5, 2))
ZSTD_FORM_2 = ((1, 5, 7),)
_zstd_found = None


def zstd_compress(data, form):
    global _zstd_found
    if _zstd_found is None:
        _zstd_found = _zstd_compressors()
    wanted = ZSTD_FORM_1 if form == 1 else ZSTD_FORM_2
    for version in wanted:
        for have, compress in _zstd_found:
            if have == version:
                return compress(bytes(data))
    have = ", ".join(".".join(map(str, v)) for v, _ in _zstd_found) or "none"
    hint = "zstandard==0.23.0" if form == 1 else "backports.zstd==1.0.0"
    raise Damaged(f"this file has images that libzstd {'.'.join(map(str, wanted[0]))} made, and that only it makes "
                  f"again; here is {have}: pip install {hint}")


def lz4_compress(data):
    """LZ4_compress_default of liblz4 1.9.4 and 1.10.0, for less than 64 KiB."""
    data, out = bytes(data), bytearray()
    length = len(data)
    words = [int.from_bytes(data[n : n + 4], "little") for n in range(length - 3)]
    table = [0] * 8192
    anchor, at, last = 0, 1, length - 11

    def token(literals, match):
        out.append(min(literals, 15) << 4 | min(match, 15))
        if literals >= 15:
            out.extend(b"\xff" * ((literals - 15) // 255) + bytes(((literals - 15) % 255,)))
        out.extend(data[anchor : anchor + literals])

    def place(n):
        return (words[n] * 2654435761 & M32) >> 19

    found = False
    while length >= 13:
        if not found:
            ahead, step, tries = at, 1, 64
            while True:
                at = ahead
                ahead += step
                step, tries = tries >> 6, tries + 1
                if ahead > last:
                    break
                h = place(at)
                match, table[h] = table[h], at
                if words[match] == words[at]:
                    break
            if ahead > last:
                break
            while at > anchor and match and data[at - 1] == data[match - 1]:
                at, match = at - 1, match - 1
        distance, size = at - match, 4
        while at + size < length - 5 and data[at + size] == data[match + size]:
            size += 1
        token(at - anchor, size - 4)
        out.extend(distance.to_bytes(2, "little"))
        if size >= 19:
            out.extend(b"\xff" * ((size - 19) // 255) + bytes(((size - 19) % 255,)))
        at += size
        anchor = at
        if at >= last:
            break
        table[place(at - 2)] = at - 2
        h = place(at)
        match, table[h] = table[h], at
        found = words[match] == words[at]
        if not found:
            at += 1
    token(length - anchor, 0)
    return bytes(out)


def pglz_compress(data, signed):
    """pglz_compress of PostgreSQL with PGLZ_strategy_default; None where it gives up."""
    length = len(data)
    if length < 32:
        return None
    most = length * 75 // 100
    mask = 511 if length < 128 else 1023 if length < 256 else 2047 if length < 512 else 4095 if length < 1024 else 8191
    chars = [b - 256 if b > 127 else b for b in data] if signed else list(data)
    keys = [(chars[n] << 6 ^ chars[n + 1] << 4 ^ chars[n + 2] << 2 ^ chars[n + 3]) & mask for n in range(length - 3)]
    keys += [c & mask for c in chars[length - 3 :]]
    newest = [-1] * (mask + 1)
    older = [-1] * length
    out = bytearray()
    control_at, control, bit = -1, 0, 256
    at, matched = 0, False
    while at < length:
        if len(out) >= most or (not matched and len(out) >= 1024):
            return None
        best, distance, good = 0, 0, 128
        hit = newest[keys[at]]
        room = min(273, length - at)
        while hit >= 0 and at - hit < 4095:
            # A match that is not longer than the best one does not count.
            if best < room and data[hit : hit + best + 1] == data[at : at + best + 1]:
                size = best + 1
                while size < room and data[hit + size] == data[at + size]:
                    size += 1
                best, distance = size, at - hit
            hit = older[hit]
            if hit >= 0:
                if best >= good:
                    break
                good -= good * 10 // 100
        if bit == 256:
            if control_at >= 0:
                out[control_at] = control
            control_at, control, bit = len(out), 0, 1
            out.append(0)
        if best > 2:
            control |= bit
            if best > 17:
                out += bytes((distance >> 4 & 0xF0 | 15, distance & 255, best - 18))
            else:
                out += bytes((distance >> 4 & 0xF0 | best - 3, distance & 255))
            matched = True
        else:
            out.append(data[at])
            best = 1
        bit <<= 1
        for n in range(at, at + best):
            key = keys[n]
            older[n] = newest[key]
            newest[key] = n
        at += best
    if control_at >= 0:
        out[control_at] = control
    return bytes(out) if len(out) < most else None


# ---------------------------------------------------------------- numbers and the container


class Reader:
    """Bytes that are taken from the front."""

    def __init__(self, data, at=0, end=None):
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def take(self, count):
        at = self.at
        need(count <= self.end - at, "cut off")
        self.at = at + count
        return self.data[at : at + count]

    def u8(self):
        return self.take(1)[0]

    def u16(self):
        return int.from_bytes(self.take(2), "little")

    def u32(self):
        return int.from_bytes(self.take(4), "little")

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def number(self):
        value = 0
        for n in range(10):
            byte = self.u8()
            value |= (byte & 127) << 7 * n
            if byte < 128:
                need(byte or not n, "a number is longer than it needs to be")
                need(value <= M64, "a number has more than 64 bits")
                return value
        raise Damaged("a number has more than 64 bits")


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.]{0,63}\Z")


class Header:
    """The header of a member (docs/format/container.md)."""

    def __init__(self, reader):
        start = reader.at
        need(reader.take(4) == b"WALZ", "not a file of walzip, or damaged: the magic number is missing")
        self.version = reader.u8()
        need(self.version, "version 0 of the format does not exist")
        need(self.version <= 7, f"version {self.version} of the format is a later one than this decoder knows")
        self.kind, references = reader.u8(), reader.u8()
        need(self.kind <= (3 if self.version >= 7 else 1), f"a member of the unknown kind {self.kind}")
        need(references == (self.kind == DIFFERENCES), "references that are not those of the member's kind")
        self.hash = reader.take(32)
        self.base_hash = reader.take(32) if self.kind == DIFFERENCES else None
        identity = reader.take(26) if self.kind == WAL else None
        name = reader.take(self._name_length(reader)) if self.version >= 5 else b""
        self.original = reader.number()
        self.body = reader.number()
        end = reader.at
        need(reader.u32() == crc32c(reader.data[start:end]), "the checksum of a header does not match")
        need(self.original <= MEMBER_LEN_MAX, "a member is longer than 1 GiB")
        need(self.kind < PAGES or self.original <= CHUNK_LEN_MAX, "a chunk is longer than 16 MiB")
        self.name = name.decode("latin-1")
        need(not name or NAME.match(self.name), "the name of a WAL file in a header is none")
        if identity:
            self._identity(identity)

    @staticmethod
    def _name_length(reader):
        length = reader.number()
        need(length <= NAME_LEN_MAX, "the name in a header is too long")
        return length

    def _identity(self, identity):
        self.magic, self.system, self.timeline, self.start, self.segment = struct.unpack("<HQIQI", identity)
        need(self.magic in MAJORS, f"WAL of an unknown version of PostgreSQL: page magic {self.magic:04X}")
        self.major = MAJORS[self.magic]
        size = self.segment
        need(size & size - 1 == 0 and 1 << 20 <= size <= 1 << 30, "a segment size that PostgreSQL does not have")
        self.offset = self.start % size
        need(self.offset + self.original <= size, "WAL goes beyond the end of its segment")
        need(self.offset % PAGE == 0, "a part of a segment does not begin with a page")
        need(self.offset == 0 or self.version >= 5, "a part of a segment in a version that has none")

    def content_most(self):
        if self.kind == FOREIGN:
            return self.original
        expansion = CONTENT_EXPANSION_MAX if self.kind == WAL else CHUNK_EXPANSION_MAX
        most = expansion * self.original + CONTENT_LEN_BASE
        if self.version >= 5:
            most = min(most, max(CONTENT_LEN_FREE, CONTENT_PACKED_MAX * self.body))
        return most


def decode_member(header, body, base):
    """The original of a member, whose hash is right."""
    reader = Reader(body)
    parts, length, streams = [], 0, None
    most = header.content_most()
    while reader.at < reader.end:
        need(streams is None, "a block after a mixed one")
        coding = reader.u8()
        content_length, data_length = reader.number(), reader.number()
        checksum = reader.u32()
        data = reader.take(data_length)
        need(checksum == crc32c(data), "the checksum of a block does not match")
        length += content_length
        need(length <= most, "a member claims more content than it may have")
        if coding == 0:
            need(content_length == data_length, "a stored block has another length than it says")
            parts.append(data)
        elif coding == 1:
            parts.append(zstd_decode(data, content_length))
        elif coding == 2:
            need(header.kind != FOREIGN, "a mixed block in a foreign member")
            need(content_length <= ZSTD_EXPANSION_MAX * data_length, "mixed content that its data cannot reach")
            streams = Streams.mixed(b"".join(parts), data, content_length, header.version)
        else:
            raise Damaged(f"a block of the unknown coding {coding}")
    content = b"".join(parts)
    if header.kind == FOREIGN:
        original = content
    else:
        streams = streams or Streams.plain(content, header.version, most)
        if header.kind == WAL:
            original = WalModel(header, streams, length).decode()
        elif header.kind == PAGES:
            original = decode_chunk(header, streams)
        else:
            need(base is not None, "a member of differences, and the bytes that it is told from are not there")
            original = decode_differences(header, streams, base)
        streams.finish()
    need(len(original) == header.original, "the original has another length than the header says")
    need(blake3(original) == header.hash, "the hash of the original does not match")
    return original


def decode_file(data, base=None):
    """The originals of all members, and the name in the first header ("" without one)."""
    reader = Reader(data)
    need(data, "the file is empty")
    members, claimed = [], 0
    while reader.at < reader.end:
        header = Header(reader)
        claimed += header.original
        need(claimed <= MEMBER_LEN_MAX, "the members together claim more than 1 GiB")
        members.append((header, reader.take(header.body)))
    parts = [decode_member(header, body, base) for header, body in members]
    return b"".join(parts), members[0][0].name


