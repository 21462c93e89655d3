#!/usr/bin/env python3
"""A second decoder of walzip's formats, in one file.

It answers the question "what if walzip is gone?". It gets every WAL file and every base backup out
of a repository directory, and was written from docs/format (README.md says where that was not
enough). It is slow, and writes nothing but what it was asked for.

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
import math
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
CHUNK_EXPANSION_MAX = 8
CONTENT_LEN_BASE = 1 << 20
CONTENT_LEN_FREE = 128 << 20
CONTENT_PACKED_MAX = 4096
STREAMS_MAX = 1 << 20
KINDS_MAX = 65536
KIND_BLOCKS_MAX = 33
KIND_BLOCKS_TOTAL_MAX = 131072
LISTS_COST_MAX = 64 << 20
COMPRESSED_VALUE_MAX, COMPRESSED_LZ4_MAX, COMPRESSED_VALUES_MAX = 16 << 20, (64 << 10) - 1, 256 << 20
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

FOREIGN, WAL, PAGES, DIFFERENCES, WAL_AFTER, INDEX_PAGES, WAL_ALONE = 0, 1, 2, 3, 4, 5, 6

ATTRIBUTES_MAX = 250
KEY_ATTRIBUTES_MAX = 32
ALL_KEY_ATTRIBUTES_MAX = 96
KEPT_MAX = 32
ROWS_MEMORY_MAX = 512 << 20
TUPLES_LEN_MAX = 1 << 30
SORT_KEY_LEN_MAX = 64


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
    """BLAKE3 in plain Python, for where the module is not there: about 0.8 MB/s."""
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
        need(self.version <= 15, f"version {self.version} of the format is a later one than this decoder knows")
        self.kind, references = reader.u8(), reader.u8()
        known = self.kind <= (3 if self.version >= 7 else 1) or self.kind == INDEX_PAGES and self.version >= 10
        replayed = self.kind == WAL_AFTER and self.version >= 7 or self.kind == WAL_ALONE and self.version >= 14
        need(not replayed, "WAL that is told from pages, which this decoder does not replay: walzip decodes it")
        need(known, f"a member of the unknown kind {self.kind}")
        need(references == (self.kind >= DIFFERENCES), "references that are not those of the member's kind")
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


def decode_member(header, body, base, entries=None):
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
        elif header.kind == INDEX_PAGES:
            need(entries is not None, "a member of an index, and the rows of its table are not there")
            original = decode_chunk(header, streams, entries)
        else:
            need(base is not None, "a member of differences, and the bytes that it is told from are not there")
            original = decode_differences(header, streams, base)
        streams.finish()
    need(len(original) == header.original, "the original has another length than the header says")
    need(blake3(original) == header.hash, "the hash of the original does not match")
    return original


def decode_file(data, base=None, entries=None):
    """The originals of all members, and the name in the first header ("" without one)."""
    reader = Reader(data)
    need(data, "the file is empty")
    members, claimed = [], 0
    while reader.at < reader.end:
        header = Header(reader)
        claimed += header.original
        need(claimed <= MEMBER_LEN_MAX, "the members together claim more than 1 GiB")
        members.append((header, reader.take(header.body)))
    need(entries is None or [header.kind for header, _ in members] == [INDEX_PAGES], "no member of an index")
    parts = [decode_member(header, body, base, entries) for header, body in members]
    return b"".join(parts), members[0][0].name


# ---------------------------------------------------------------- streams (docs/format/streams.md)


class Stream:
    """Values of one sort. It is opened when the first value is taken from it."""

    __slots__ = ("owner", "kind", "data", "at", "end", "opened")

    def __init__(self, owner, kind):
        self.owner, self.kind = owner, kind
        self.data, self.at, self.end, self.opened = b"", 0, 0, False

    def open(self):
        if not self.opened:
            self.opened = True
            self.data = self.owner.next_of_kind(self)
            self.end = len(self.data)
        return self

    def take(self, count):
        at = self.at
        if at + count > self.end or not self.opened:
            self.open()
            need(at + count <= self.end, "a stream ends too early")
        self.at = at + count
        return self.data[at : at + count]

    def u8(self):
        at = self.at
        if at >= self.end:
            self.open()
            need(at < self.end, "a stream ends too early")
        self.at = at + 1
        return self.data[at]

    def u16(self):
        return int.from_bytes(self.take(2), "little")

    def u32(self):
        return int.from_bytes(self.take(4), "little")

    def u64(self):
        return int.from_bytes(self.take(8), "little")


class RowsByLength:
    """Strings of known lengths: a stream for each of the first 48 lengths, one for all others."""

    __slots__ = ("streams", "kind", "by_length", "others")

    def __init__(self, streams, kind):
        self.streams, self.kind, self.by_length, self.others = streams, kind, {}, None

    def take(self, length):
        if not length:
            return b""
        stream = self.by_length.get(length)
        if stream is None:
            if len(self.by_length) < 48:
                stream = self.by_length[length] = Stream(self.streams, self.kind)
            else:
                stream = self.others = self.others or Stream(self.streams, self.kind)
        return stream.take(length)


KIND_COUNT = 76


class Streams:
    """The streams of a member, in the order in which the model opens those of a kind."""

    def __init__(self, version):
        self.version = version
        self.opened = []

    @classmethod
    def plain(cls, content, version, most):
        self = cls(version)
        reader = Reader(content)
        entries = self._directory(Reader(reader.take(reader.number())))
        raw = [None] * len(entries)
        for coded in (False, True):
            for n, (_, length, _, layout) in enumerate(entries):
                if (layout >= 4) == coded:
                    raw[n] = reader.take(length)
        need(reader.at == reader.end, "content goes on after its last stream")
        total = reader.end
        rows = []
        for (_, length, width, layout), data in zip(entries, raw):
            if layout >= 4:
                data = decode_bins(data, width, layout == 5, most - total + length)
                total += len(data) - length
            else:
                data = undo_layout(data, width, layout, version)
            rows.append(data)
        self._arrange(entries, rows)
        return self

    @classmethod
    def mixed(cls, directory, data, length, version):
        self = cls(version)
        reader = Reader(directory)
        inner = Reader(reader.take(reader.number()))
        need(reader.at == reader.end, "blocks before a mixed one have more than the directory")
        entries = self._directory(inner)
        need(all(e[3] < 4 for e in entries), "a coded layout together with mixing")
        need(sum(e[1] for e in entries) == length, "a mixed block has another length than its streams")
        raw = Mixing(data, entries, version).decode()
        rows = [undo_layout(d, w, k, version) for (_, _, w, k), d in zip(entries, raw)]
        self._arrange(entries, rows)
        return self

    def _directory(self, reader):
        kinds, last = [], -1
        while True:
            kind = reader.u8()
            if kind == 255:
                break
            need(last < kind < KIND_COUNT, "the kinds of a directory are unknown or out of order")
            last = kind
            count = reader.number()
            need(count, "a kind without streams")
            need(len(kinds) + count <= STREAMS_MAX, "too many streams")
            need(3 * count <= reader.end - reader.at, "more streams than their directory has bytes for")
            kinds += [kind] * count
        lengths = [reader.number() for _ in kinds]
        widths = reader.take(len(kinds))
        layouts = reader.take(len(kinds))
        need(reader.at == reader.end, "bytes left over in a directory")
        most = 5 if self.version >= 6 else 3
        for width, layout in zip(widths, layouts):
            need(width, "a width of 0")
            need(layout <= most, f"the unknown layout {layout}")
            fits = (True, width > 1, width in (2, 4, 8), width > 1, width in (1, 2, 4, 8), width in (2, 4, 8))
            need(fits[layout], "a layout that does not fit its width")
        return list(zip(kinds, lengths, widths, layouts))

    def _arrange(self, entries, rows):
        self.of_kind = {}
        for (kind, _, _, _), data in zip(entries, rows):
            self.of_kind.setdefault(kind, []).append(data)
        self.next = dict.fromkeys(self.of_kind, 0)

    def next_of_kind(self, stream):
        kind = stream.kind
        n = self.next.get(kind, 0)
        have = self.of_kind.get(kind, ())
        need(n < len(have), f"a stream of kind {kind} is opened that does not exist")
        self.next[kind] = n + 1
        self.opened.append(stream)
        return have[n]

    def finish(self):
        for kind, have in self.of_kind.items():
            need(self.next[kind] == len(have), f"a stream of kind {kind} is not opened")
        for stream in self.opened:
            need(stream.at == stream.end, f"a stream of kind {stream.kind} is not taken to its end")


_TYPECODE = {code.itemsize: code.typecode for code in map(array, "BHIQ")}


def _integers(data, width):
    values = array(_TYPECODE[width], data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _integer_bytes(values):
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _undo_zigzag_deltas(values, width):
    mask = (1 << 8 * width) - 1
    last = 0
    out = array(_TYPECODE[width], bytes(width) * len(values))
    for n, z in enumerate(values):
        last = (last + (z >> 1 ^ -(z & 1))) & mask
        out[n] = last
    return out


def undo_layout(data, width, layout, version):
    """The rows of a stream that is not coded."""
    if layout == 0:
        return data
    rows = len(data) // width
    per_block = BLOCK_ROWS if version >= 6 else max(rows, 1)
    out = bytearray()
    for first in range(0, rows, per_block):
        count = min(per_block, rows - first)
        block = bytearray(count * width)
        at = first * width
        for column in range(width):
            plane = data[at + column * count : at + (column + 1) * count]
            if layout == 3:
                plane = bytes(x & 255 for x in accumulate(plane))
            block[column::width] = plane
        if layout == 2:
            block = _integer_bytes(_undo_zigzag_deltas(_integers(bytes(block), width), width))
        out += block
    return bytes(out) + data[rows * width :]


class Bits:
    """Bits of bytes, from the lowest on."""

    def __init__(self, data, at):
        self.data, self.at, self.held, self.count = data, at, 0, 0

    def take(self, n):
        if self.count < n:
            more = self.data[self.at : self.at + 16]
            self.at += len(more)
            self.held |= int.from_bytes(more, "little") << self.count
            self.count += 8 * len(more)
            need(self.count >= n, "bits are missing in a coded stream")
        value = self.held & (1 << n) - 1
        self.held >>= n
        self.count -= n
        return value

    def next_byte(self):
        """Where the next whole byte is."""
        return self.at - self.count // 8


def decode_bins(data, width, delta, most):
    """The rows of a coded stream."""
    reader = Reader(data)
    length = reader.number()
    need(length <= most, "a coded stream stands for more bytes than it may")
    rest = reader.take(length % width)
    rows = length // width
    need(rows <= BIN_ROWS_MAX * len(data), "a coded stream claims more rows than it may")
    count = reader.number()
    need(1 <= count <= BINS_MAX, "a coded stream has no bins, or too many")
    log = reader.u8()
    need(log == 0 if count == 1 else 5 <= log <= 12, "a table log that fits no bins")
    bits = Bits(data, reader.at)
    size, wide = {1: 4, 2: 5, 4: 6, 8: 7}[width], 8 * width
    mask = (1 << wide) - 1
    bins, left, end = [], 1 << log, 0
    for n in range(count):
        gap_bits, offset_bits = bits.take(size), bits.take(size)
        need(gap_bits <= wide and offset_bits <= wide, "a bin of more bits than its integers have")
        gap = bits.take(gap_bits - 1) | 1 << gap_bits - 1 if gap_bits else 0
        lower = end + gap & mask
        end = lower + (1 << offset_bits) & mask
        weight = left
        if n < count - 1:
            own = bits.take(4)
            weight = (1 << own) + bits.take(own)
        left -= weight
        need(left > 0 or (n == count - 1 and weight > 0), "the weight of a bin leaves none for the others")
        bins.append((lower, offset_bits, weight))
    states = 1 << log
    places = [0] * states
    step, n = states // 2 + states // 8 + 3, 0
    for number, (_, _, weight) in enumerate(bins):
        for _ in range(weight):
            places[n * step % states] = number
            n += 1
    table, seen = [], [b[2] for b in bins]
    for number in places:
        x = seen[number]
        seen[number] += 1
        state_bits = log - (x.bit_length() - 1)
        table.append((bins[number][0], bins[number][1], state_bits, (x << state_bits) - states))
    at = bits.next_byte()
    need(at < len(data) and data[at], "the integers of a coded stream begin with no 1")
    bits = Bits(data, at)
    while not bits.take(1):
        pass
    state, other = bits.take(log), bits.take(log)
    values = array(_TYPECODE[width], bytes(width) * rows)
    take = bits.take
    for n in range(rows):
        lower, offset_bits, state_bits, base = table[state]
        state, other = other, base + take(state_bits)
        values[n] = lower + take(offset_bits) & mask
    need(state == other == 0 and bits.count == 0 and bits.at == len(data), "a coded stream does not end as it has to")
    if delta:
        values = _undo_zigzag_deltas(values, width)
    return _integer_bytes(values) + rest


# ---------------------------------------------------------------- mixing (docs/format/mixing.md)


def _mix_hash(a, b, c):
    b = b * 0x85EBCA6B & M32
    c = c * 0xC2B2AE35 & M32
    h = (a * 0x9E3779B1 ^ (b << 13 | b >> 19) ^ (c << 7 | c >> 25)) & M32
    h = (h ^ h >> 15) * 0x2C1B3C6D & M32
    return h ^ h >> 13


_SQUASH_KNOTS = (
    1, 2, 4, 8, 16, 32, 64, 127, 255, 509, 1012, 2000, 3905, 7410, 13424, 22724, 32768, 42812, 52112, 58126, 61631,
    63536, 64524, 65027, 65281, 65409, 65472, 65504, 65520, 65528, 65532, 65534, 65535)


def _squash(w):
    x = min(max(w, -2048), 2047) + 2048
    k, f = x >> 7, x & 127
    return (_SQUASH_KNOTS[k] * (128 - f) + _SQUASH_KNOTS[k + 1] * f + 64) >> 7


def _stretch_table(squash):
    table, w = [], 0
    for p in range(4096):
        while w < 4095 and squash[w] >> 4 < p:
            w += 1
        table.append(w - 2048)
    return table


def _histories():
    """The counts of each state, and the states after a 0 and after a 1."""
    most = (20, 48, 15, 8, 6, 5)

    def states_of(zeros, ones):
        less, more = min(zeros, ones), max(zeros, ones)
        if less > 5 or more > most[less]:
            return 0
        return 2 if less > 0 and zeros + ones <= 17 else 1

    numbers, counts = {}, []
    for total in range(100):
        for ones in range(total + 1):
            for last in range(states_of(total - ones, ones)):
                numbers[total - ones, ones, last] = len(counts)
                counts.append((total - ones, ones))
    assert len(counts) == 255
    follow = ([], [])
    for zeros, ones in counts:
        for bit in (0, 1):
            pair = [zeros, ones]
            larger = 1 if ones > zeros else 0
            pair[bit] += 1
            pair[1 - bit] = sum(n <= pair[1 - bit] for n in (1, 2, 3, 4, 5, 7, 8))
            while not states_of(*pair):
                a, b = pair[larger], pair[1 - larger]
                if b < 2:
                    pair[larger] = a - 1
                else:
                    pair[larger], pair[1 - larger] = (a * (b - 1) + b // 2) // b, b - 1
            last = bit if states_of(*pair) == 2 else 0
            follow[bit].append(numbers[pair[0], pair[1], last])
    return counts, follow


class Mixing:
    """A mixed block: streams that are coded bit by bit. About 0.1 ms for a byte."""

    EVEN = 1 << 31

    def __init__(self, data, entries, version):
        reader = Reader(data)
        self.frame = reader.take(reader.number())
        self.entries, self.version = entries, version
        self.data, self.next, self.end = data, reader.at, reader.end
        self.low, self.high, self.code = 0, M32, 0
        for _ in range(4):
            self.code = self.code << 8 | self._byte()
        self.squash = [_squash(w) for w in range(-2048, 2048)]
        self.stretch = _stretch_table(self.squash)
        counts, self.follow = _histories()
        counts = counts + [(0, 0)]
        start = [((2 * ones + 1 << 21) // (zeros + ones + 1)) << 10 for zeros, ones in counts]
        self.chances = [array("I", start * 6) for _ in range(64)]
        self.repeat_chances = [array("I", [self.EVEN]) * 64 for _ in range(64)]
        self.guess_chances = [array("I", [self.EVEN]) * 768 for _ in range(64)]
        self.slots = [bytearray(16 << 18) for _ in range(6)]
        self.by_column, self.by_tree = {}, {}
        self.refine = {}
        self.refine_start = [_squash(128 * j - 2048) for j in range(33)]
        self.offsets = array("I", bytes(4 << 22))
        self.history = bytearray()
        self.match_at = self.match_len = self.fresh = 0
        self.last_byte, self.last_times = bytearray(65536), bytearray(65536)
        self.mode, self.modes = 0, [[self.EVEN, self.EVEN] for _ in range(3)]
        self.divisors = [32768 // (2 * n + 3) for n in range(1024)]

    def _byte(self):
        at = self.next
        self.next = at + 1
        return self.data[at] if at < self.end else 0

    def _bit(self, p):
        """A bit of the probability p, of 16 bits."""
        low, high, code = self.low, self.high, self.code
        split = low + ((high - low) * p >> 16)
        bit = code <= split
        if bit:
            high = split
        else:
            low = split + 1
        while not (low ^ high) >> 24:
            low = low << 8 & M32
            high = high << 8 & M32 | 255
            code = code << 8 & M32 | self._byte()
        self.low, self.high, self.code = low, high, code
        return int(bit)

    def _even_byte(self):
        value = 0
        for _ in range(8):
            value = value << 1 | self._bit(32768)
        return value

    def _learn(self, chances, at, bit, limit):
        value = chances[at]
        q, n = value >> 10, value & 1023
        q += (((4194303 if bit else 0) - q >> 5) * self.divisors[n]) >> 9
        chances[at] = q << 10 | (n + 1 if n < limit else n)

    def _chance(self, chances, at):
        bit = self._bit(min(max(chances[at] >> 16, 1), 65535))
        self._learn(chances, at, bit, 60)
        return bit

    def decode(self):
        """The streams in their layouts."""
        choices, choice, mixed = [self.EVEN, self.EVEN], 1, []
        for _ in self.entries:
            choice = self._chance(choices, choice)
            mixed.append(choice)
        plain = sum(e[1] for e, m in zip(self.entries, mixed) if not m)
        frame = Reader(zstd_decode(self.frame, plain))
        self.streams = [None if m else frame.take(e[1]) for e, m in zip(self.entries, mixed)]
        for n, (entry, m) in enumerate(zip(self.entries, mixed)):
            if m:
                self.streams[n] = bytes(self._stream(n, *entry))
        need(self.next >= self.end, "bits are left over in a mixed block")
        return self.streams

    def _companion(self, n, rows):
        if rows >= 65:
            for m in range(n - 1, max(n - 17, -1), -1):
                if self.entries[m][1] // self.entries[m][2] == rows:
                    return self.streams[m], self.entries[m][2]
        return None, 1

    def _stream(self, n, kind, length, width, layout):
        number, rows = n + 1, length // width
        beside, beside_width = self._companion(n, rows)
        if layout == 0:
            if width == 1:
                return self._text(number, kind, length, beside, rows)
            return self._rows(number, kind, length, width)
        out = bytearray()
        per_block = BLOCK_ROWS if self.version >= 6 else max(rows, 1)
        first = 0
        while True:
            count = min(per_block, rows - first)
            planes = [b""] * width
            part = beside[first * beside_width :] if beside else b""
            for column in range(width - 1, -1, -1):
                chances = self.modes[self.mode]
                self.mode = mode = 1 if self._chance(chances, 0) else 2 if self._chance(chances, 1) else 0
                if mode == 1:
                    planes[column] = bytes((self._even_byte(),)) * count
                else:
                    above = planes[column + 1] if column + 1 < width else b""
                    upper = planes[column + 2] if column + 2 < width else b""
                    planes[column] = self._plane(number, kind, column, count, above, upper, part, mode == 2)
            out += b"".join(planes)
            first += count
            if first >= rows:
                break
        out += self._text(number, kind, length - rows * width, None, 0)
        return out

    def _plane(self, number, kind, column, count, above, upper, beside, noise):
        self.match_len = self.fresh = 0
        key = _mix_hash(number, column, 0x51)
        above = (above or bytes(count)) + b"\0"
        upper = upper or bytes(count)
        beside = beside[:count].ljust(count, b"\0") if beside else bytes(count)
        out, recent, a, b, d, m = bytearray(), 0, 0, 0, 0, 0
        for r in range(count):
            n, after = above[r], above[r + 1]
            contexts = (
                (key, a, 1), (key, a | n << 8, 2), (key, n | upper[r] << 8, 3),
                (key, a | b << 8 | d << 16, 4), (key, a | n << 8 | m << 16 | after << 24, 5),
                (key, beside[r] | n << 8, 6))
            byte = self._code(kind, key, contexts, recent, noise)
            out.append(byte)
            recent = (recent << 8 | byte) & M64
            a, b, d, m = byte, a, b, n
        return out

    def _rows(self, number, kind, length, width):
        self.match_len = self.fresh = 0
        keys = [_mix_hash(number, column, 0x51) for column in range(width)]
        out, recent, a, b, d = bytearray(2 * width), 0, 0, 0, 0
        for i in range(length):
            key = keys[i % width]
            u, v, x = out[i + width], out[i], out[i + width + 1]
            contexts = (
                (key, u, 1), (key, u | a << 8, 2), (key, a | b << 8, 3),
                (key, u | v << 8 | x << 16, 4), (key, a | b << 8 | d << 16, 5),
                (key, u | a << 8 | b << 16, 6))
            byte = self._code(kind, key, contexts, recent, False)
            out.append(byte)
            recent = (recent << 8 | byte) & M64
            a, b, d = byte, a, b
        return out[2 * width :]

    def _text(self, number, kind, length, beside, rows):
        self.match_len = self.fresh = 0
        key = _mix_hash(number, 0, 0x51)
        out, recent, word = bytearray(), 0, 0
        for i in range(length):
            by = beside[i] if beside and i < rows and i < len(beside) else 0
            r = recent
            contexts = (
                (r & 0xFF, number, 2), (r & 0xFFFF, number, 3), (r & 0xFFFFFF, number, 4),
                (r & M32, 0, 5), (r & M32, r >> 32 & 0xFFFF, 6),
                (by | (r & 0xFF) << 8, number ^ word, 7))
            byte = self._code(kind, key, contexts, recent, False)
            out.append(byte)
            recent = (recent << 8 | byte) & M64
            letter = 65 <= byte <= 90 or 97 <= byte <= 122
            word = (word + byte + 1) * 0x2F0B4C47 & M32 if letter else 0
        return out

    def _code(self, kind, key, contexts, recent, noise):
        """The next byte. A context is what is hashed to one: most bytes are guessed, and need one of the six."""
        history, kind = self.history, kind & 63
        least, z = (4, 0) if noise else (6, recent >> 32 & 0xFFFF)
        if self.fresh >= least:
            place = _mix_hash(recent & M32, z, 9) & 0x3FFFFF
            entry = self.offsets[place]
            size = self.offsets[place] = len(history)
            if not self.match_len and entry:
                same = 0
                while same < 32 and same < entry and history[entry - 1 - same] == history[size - 1 - same]:
                    same += 1
                if same >= least:
                    self.match_len, self.match_at = same, entry
        length = self.match_len
        expected = history[self.match_at] if length else -1
        if length < 16:
            sort = length
        elif length < 32:
            sort = 16 + (length - 16 >> 2)
        else:
            sort = min(20 + (length - 32 >> 5), 31)
        place = _mix_hash(*contexts[1]) >> 8 & 0xFFFF
        guess, times = self.last_byte[place], self.last_times[place]
        situation = min(times, 15) | min(sort, 15) << 4
        if length:
            situation |= (1 if expected == guess else 2) << 8
        guessed = expected if length else guess
        chances = self.guess_chances[kind]
        p = max(chances[situation] >> 16, 1)
        asked = p >= (4096 if noise else 62259)
        byte = -1
        if asked and self._bit(p):
            byte = guessed
        if byte < 0:
            if noise:
                byte = self._even_byte()
            else:
                hashes = [_mix_hash(*context) for context in contexts]
                byte = self._mixed_byte(kind, key, hashes, -1 if asked else expected, sort)
        self._learn(chances, situation, guessed == byte, 255)
        if guess == byte:
            if times < 255:
                self.last_times[place] = times + 1
        elif times > 8:
            self.last_times[place] = 4
        elif times > 1:
            self.last_times[place] = times >> 1
        else:
            self.last_byte[place], self.last_times[place] = byte, 1
        self.match_len = min(length + 1, 65535) if expected == byte else 0
        self.match_at += 1
        self.fresh += 1
        history.append(byte)
        return byte

    def _slot(self, table, h):
        place, check = h & 0x3FFFF, h >> 24
        least, found = 256, 0
        for at in (place << 4, (place ^ 1) << 4, (place ^ 2) << 4):
            if table[at] == check:
                return at
            if table[at + 1] < least:
                least, found = table[at + 1], at
        table[found : found + 16] = bytes((check,)) + bytes(15)
        return found

    def _mixed_byte(self, kind, key, hashes, expected, sort):
        slots, squash, stretch, divisors = self.slots, self.squash, self.stretch, self.divisors
        chances, repeats = self.chances[kind], self.repeat_chances[kind]
        after_0, after_1 = self.follow
        flat = [2048 << 14] * 8
        column = self.by_column.get(key & 0x1FFF)
        if column is None:
            column = self.by_column[key & 0x1FFF] = flat.copy()
        node, half, at = 1, 1, None
        for step in range(8):
            if not step & 3:
                half = 1
                if step:
                    at = [self._slot(t, _mix_hash(h, node, 77)) for t, h in zip(slots, hashes)]
                else:
                    at = [self._slot(t, h) for t, h in zip(slots, hashes)]
            tree_at = (kind << 8 | node) & 0x3FFF
            tree = self.by_tree.get(tree_at)
            if tree is None:
                tree = self.by_tree[tree_at] = flat.copy()
            states = [t[a + half] for t, a in zip(slots, at)]
            inputs = [stretch[chances[256 * n + state] >> 20] for n, state in enumerate(states)]
            repeat_at = -1
            if expected >= 0:
                repeat_at = 2 * sort + (expected >> 7 - step & 1)
                inputs.append(stretch[repeats[repeat_at] >> 20])
            else:
                inputs.append(0)
            inputs.append(256)
            w = 0
            for x, f, g in zip(inputs, column, tree):
                w += x * ((f >> 14) + (g >> 14))
            w = min(max(w >> 14, -2047), 2047)
            p1 = squash[w + 2048]
            row_at = (256 * key + node) & 0xFFFF
            row = self.refine.get(row_at)
            if row is None:
                row = self.refine[row_at] = self.refine_start.copy()
            y = w + 2048
            j, f = y >> 7, y & 127
            p2 = row[j] * (128 - f) + row[j + 1] * f >> 7
            bit = self._bit(min(max(p1 + p2 >> 1, 1), 65535))
            if f >= 64:
                j += 1
            row[j] += (65535 if bit else 0) - row[j] >> 6
            error = (bit << 16) - p1 >> 4
            if not -5 < error < 5:
                for n, x in enumerate(inputs):
                    change = x * error
                    column[n] = min(max(column[n] + change, -536870911), 536870911)
                    tree[n] = min(max(tree[n] + change, -536870911), 536870911)
            goal = 4194303 if bit else 0
            follow = after_1 if bit else after_0
            for n, state in enumerate(states):
                c = 256 * n + state
                value = chances[c]
                q, seen = value >> 10, value & 1023
                q += ((goal - q >> 5) * divisors[seen]) >> 9
                chances[c] = q << 10 | (seen + 1 if seen < 255 else seen)
                slots[n][at[n] + half] = follow[state]
            if repeat_at >= 0:
                self._learn(repeats, repeat_at, bit, 1023)
                if expected >> 7 - step & 1 != bit:
                    expected = -1
            node = node << 1 | bit
            half = half << 1 | bit
        return node & 255


# ---------------------------------------------------------------- the model (docs/format/model)

# The kinds of streams that the model names (docs/format/streams.md).
(SPANS, DEFINITIONS, XID_RANK, XID_NEW, KIND_RANK, KIND_ID, PREV_EXPLICIT, ORIGIN, TOPLEVEL_XID, BLOCK_NUMBER,
 BLOCK_DATA_LEN, MAIN_LEN, MAIN_FIELD, MAIN_ROW, BLOCK_DATA_ROW, MODEL_FLAG, HEAP_FLAGS, HEAP_HEADER, HEAP_BODY,
 HEAP_PART, TUPLE_LEN, INDEX_TID, INDEX_INFO, INDEX_KEY, POSTING_TID, IMAGE_HOLE, IMAGE_CLASS, PAGE_FIELD,
 PAGE_SPECIAL, LINE_POINTER, ITEM_ORDER, ITEM_PADDING, ITEM_BODY, RAW_PAGE, RAW_IMAGE, FRAGMENT, OTHER, POSTING_OFFSET,
 OFFSETS, HEAP_SCHEMA, NULL_BITMAP, VALUE, VALUE_HEADER, TEXT, DICTIONARY_VALUE, VALUE_NUMBER, HEAP_MODEL_FLAG,
 INDEX_ROW, RECIPE_RANK, RECIPE_DEFINITION, JSON_SHAPE, JSON_ENTRY, JSON_NUMBER, BLOCK_RANK, TID_RUN, KEY_SKIP,
 WORD_RUN, WORD_SYMBOL, WORD_LEN, WORD_TEXT, DIGITS, EXTENTS, PAGE_FORM, FILE_BYTES, STALE_RUN, STALE_BYTE,
 DIFFERENCE_FORM, DIFFERENCE_FIELD, DIFFERENCE_RUN, DIFFERENCE_REPLACED, DIFFERENCE_BYTE, FORETOLD_MARK, FORETOLD_FORM,
 ENTRY_START, ENTRY_STEP, ENTRY_COUNT) = range(KIND_COUNT)


class Owner:
    """What has streams of its own: the member, a relation, a record kind, a class of pages."""

    def __init__(self, streams, number=0):
        self.streams, self.number, self._streams, self._rows = streams, number, {}, {}
        self.words = ChangedWords()

    def stream(self, kind, which=0):
        found = self._streams.get((kind, which))
        if found is None:
            found = self._streams[kind, which] = Stream(self.streams, kind)
        return found

    def rows(self, kind, which=0):
        found = self._rows.get((kind, which))
        if found is None:
            found = self._rows[kind, which] = RowsByLength(self.streams, kind)
        return found


def le16(data, at):
    return int.from_bytes(data[at : at + 2], "little")


def le32(data, at):
    return int.from_bytes(data[at : at + 4], "little")


def le16_checked(data, at):
    need(at + 2 <= len(data), "reading beyond the bytes that are there")
    return le16(data, at)


# ---------------------------------------------------------------- values (model/values.md)

TYPE_LENGTH = (None, 1, 2, 4, 8, 16, 16, 64)
TYPE_ALIGN = (None, 1, 2, 4, 8, 1, 8, 1)


class Lists:
    """Counts what the lists of a member's columns cost."""

    def __init__(self):
        self.cost = self.apart = 0

    def take_apart(self, length):
        self.apart += length
        need(self.apart <= COMPRESSED_VALUES_MAX, "the compressed values of columns are longer than they may be")

    def add(self, cost):
        self.cost += cost
        need(self.cost <= LISTS_COST_MAX, "the lists of columns take more memory than they may")


class Varlenas:
    """The values of a variable length column of mode 0 or 2."""

    def __init__(self, streams, choices):
        headers = choices.take(choices.u8())
        self.by_header = {}
        for header in headers:
            stream = Stream(streams, VALUE).open()
            self.by_header.setdefault(header, stream)
        self.header = Stream(streams, VALUE_HEADER).open()
        self.long_header = Stream(streams, VALUE_HEADER).open()
        self.text = Stream(streams, TEXT).open()

    def take(self):
        first = self.header.u8()
        if first & 1:
            head, length = bytes((first,)), 18 if first == 1 else first >> 1
        else:
            head = bytes((first,)) + self.long_header.take(3)
            length = int.from_bytes(head, "little") >> 2
        need(length >= len(head), "a varlena is shorter than its header")
        return head + self.by_header.get(first, self.text).take(length - len(head))


class FixedColumn:
    def __init__(self, streams, choices, length):
        self.length, self.values = length, Stream(streams, VALUE).open()

    def take(self):
        return self.values.take(self.length)


class ScaledColumn:
    def __init__(self, streams, choices, length):
        need(length in (4, 8), "scaled integers of a length that has none")
        self.length, self.mask = length, (1 << 8 * length) - 1
        self.divisor, self.remainder = choices.u64(), choices.u64()
        need(2 <= self.divisor < 1 << 63, "a divisor below 2")
        self.values = Stream(streams, VALUE).open()

    def take(self):
        value = int.from_bytes(self.values.take(self.length), "little", signed=True)
        return (value * self.divisor + self.remainder & self.mask).to_bytes(self.length, "little")


class DecimalColumn:
    def __init__(self, streams, choices, length):
        need(length in (4, 8), "floats of a length that has none")
        digits = choices.u8()
        need(digits <= 9, "floats of more than 9 digits")
        self.length, self.power = length, 10.0**digits
        self.integers, self.others = Stream(streams, VALUE).open(), Stream(streams, VALUE).open()

    def take(self):
        value = int.from_bytes(self.integers.take(self.length), "little", signed=True)
        if value == -(1 << 8 * self.length - 1):
            return self.others.take(self.length)
        return struct.pack("<d" if self.length == 8 else "<f", float(value) / self.power)


class NumericColumn:
    def __init__(self, streams, choices):
        self.scale = choices.u8()
        need(self.scale <= 12, "numerics of a scale above 12")
        self.integers = Stream(streams, VALUE).open()
        self.others = Varlenas(streams, choices)

    def take(self):
        value = int.from_bytes(self.integers.take(8), "little", signed=True)
        if value == -(1 << 63):
            return self.others.take()
        need(abs(value) < 10**15, "the integer of a numeric is too large")
        negative, value = value < 0, abs(value)
        after = (self.scale + 3) // 4
        value *= 10 ** (4 * after - self.scale)
        digits, weight = [], -after
        while value:
            value, digit = divmod(value, 10000)
            if digit or digits:
                digits.insert(0, digit)
            weight += 1
        weight = weight - 1 if digits else 0
        header = 0x8000 | (0x2000 if negative else 0) | self.scale << 7 | weight & 0x7F
        content = struct.pack(f"<{1 + len(digits)}H", header, *digits)
        return bytes((len(content) + 1 << 1 | 1,)) + content


class DictionaryColumn:
    def __init__(self, streams, choices, length, lists):
        count = choices.u16() + 1
        lists.add(count * DICTIONARY_VALUE_COST)
        bytes_of, lengths = Stream(streams, DICTIONARY_VALUE).open(), Stream(streams, VALUE_HEADER).open()
        self.values = []
        for _ in range(count):
            own = length or lengths.u8()
            need(own, "a value of length 0 in a dictionary")
            self.values.append(bytes_of.take(own))
        self.numbers = Stream(streams, VALUE_NUMBER).open()
        self.wide = count > 256

    def take(self):
        number = self.numbers.u16() if self.wide else self.numbers.u8()
        need(number < len(self.values), "the number of no value of a dictionary")
        return self.values[number]


class Tokens:
    """Tokens of one form."""

    UPPER, UUID, KEPT, PLAIN = 1, 2, 4, 8
    KEPT_MAX = 4096

    def __init__(self, flags, digits):
        need(flags <= 7 or flags in (8, 12), "an unknown form of tokens")
        need(1 <= digits <= 128, "tokens of no or too many digits")
        need(not flags & self.UUID or digits == 32, "a uuid of other than 32 digits")
        self.flags, self.digits = flags, digits
        self.length = digits if flags & self.PLAIN else (digits + 1) // 2
        self.kept = []

    def open(self, streams):
        self.contents = Stream(streams, DIGITS).open()
        if self.flags & self.KEPT:
            self.backs = Stream(streams, DIGITS).open()

    def take(self):
        back = self.backs.u16() if self.flags & self.KEPT else 0
        if back:
            need(back <= min(len(self.kept), self.KEPT_MAX), "a token that is not kept")
            return self.kept[-back]
        token = self.contents.take(self.length)
        if not self.flags & self.PLAIN:
            token = token.hex()[-self.digits:].encode()
        if self.flags & self.UPPER:
            token = token.upper()
        if self.flags & self.UUID:
            token = b"-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:]))
        if self.flags & self.KEPT:
            self.kept.append(token)
        return token


class Words:
    """Texts as words."""

    END = 2

    def __init__(self, streams, choices, lists):
        lists.add(WORDS_COST)
        runs = choices.u32()
        self.runs = Stream(streams, WORD_RUN).open()
        self.symbols = Stream(streams, WORD_SYMBOL).open()
        self.lengths = Stream(streams, WORD_LEN).open()
        self.texts = Stream(streams, WORD_TEXT).open()
        self.digits = {n: Stream(streams, DIGITS).open() for n in range(1, 29) if runs >> n & 1}
        self.tokens = []
        if streams.version >= 15 and runs >> 29 & 1:
            self.tokens = self._open_tokens(streams, choices)
        self.words = []
        self.by_two, self.by_one = {}, {}
        self.left, self.full = None, False

    @staticmethod
    def _open_tokens(streams, choices):
        count = choices.u8()
        need(count <= 32, "too many forms of tokens")
        tokens = [Tokens(choices.u8(), choices.u8()) for _ in range(count)]
        for form in tokens:
            form.open(streams)
        return tokens

    def _symbol(self, a, b):
        while True:
            if self.left is None:
                self.left = self.runs.u8()
                self.full = self.left == 255
            if self.left:
                self.left -= 1
                symbol = self.by_two.get(self._slot(a, b), 0)
                break
            self.left = None
            if not self.full:
                symbol = self.symbols.u16() or self.by_one.get(b, 0)
                break
        need(symbol, "a word is foreseen where none is known")
        return symbol

    @staticmethod
    def _slot(a, b):
        return ((a << 16 | b) * 0x9E3779B1 & M32) >> 18

    def take(self):
        out, a, b = [], self.END, self.END
        first = 31 + len(self.tokens)
        while True:
            symbol = self._symbol(a, b)
            if symbol == 1:
                length = self.lengths.u8()
                need(length, "a new word of length 0")
                word = self.texts.take(length)
                out.append(word)
                if len(self.words) < 65505 - len(self.tokens):
                    symbol = first + len(self.words)
                    self.words.append(word)
            elif symbol >= first:
                need(symbol - first < len(self.words), "a word that does not exist")
                out.append(self.words[symbol - first])
            elif symbol > 30:
                out.append(self.tokens[symbol - 31].take())
            elif symbol > 2:
                need(symbol - 2 in self.digits, "a number of digits that has no stream")
                out.append(self.digits[symbol - 2].take(symbol - 2))
            self.by_two[self._slot(a, b)] = symbol
            self.by_one[b] = symbol
            a, b = b, symbol
            if symbol == self.END:
                return b"".join(out)


class HeaderedColumn:
    """Values whose header says only how long it is, or any varlena in their place."""

    def _open_forms(self, streams, choices):
        self.forms = Stream(streams, VALUE_HEADER).open()
        self.others = Varlenas(streams, choices)

    def take(self):
        form = self.forms.u8()
        if form not in (1, 2):
            return self.others.take()
        content = self._content()
        if form == 1:
            need(len(content) < 127, "a value is too long for its header")
            return bytes((len(content) + 1 << 1 | 1,)) + content
        need(len(content) < (1 << 30) - 4, "a value is too long for its header")
        return (len(content) + 4 << 2).to_bytes(4, "little") + content


class WordsColumn(HeaderedColumn):
    def __init__(self, streams, choices, lists):
        self.words = Words(streams, choices, lists)
        self._open_forms(streams, choices)

    def _content(self):
        return self.words.take()


class JsonField:
    def __init__(self, has, elements):
        self.has, self.elements = has, elements
        self.words = self.choices = None

    def open(self, streams):
        kinds = (JSON_ENTRY, JSON_SHAPE, TEXT, JSON_NUMBER, JSON_NUMBER, JSON_NUMBER)
        self.streams = [Stream(streams, kind).open() if self.has >> n & 1 else None for n, kind in enumerate(kinds)]

    def stream(self, n):
        need(self.streams[n], "a stream of a field of jsonb that does not exist")
        return self.streams[n]


class JsonColumn(HeaderedColumn):
    OBJECT = 0x20000000

    def __init__(self, streams, choices, lists, version):
        shapes, fields = choices.u16(), choices.u16()
        need(shapes <= 1024 and fields <= 1024, "too many shapes or fields of jsonb")
        lists.add((shapes + fields) * JSON_ENTRY_COST)
        self.shapes = [self._shape(choices) for _ in range(shapes)]
        self.fields = []
        for _ in range(fields):
            has = choices.u8()
            need(not has & 0x80 and (version >= 4 or not has & 0x40), "a reserved bit of a field of jsonb")
            self.fields.append(JsonField(has, choices.u16()))
        for field in self.fields:
            field.open(streams)
            if field.has & 0x40:
                field.words = Words(streams, choices, lists)
        self._open_forms(streams, choices)

    def _shape(self, choices):
        header = choices.u32()
        if not header & self.OBJECT:
            return header, None
        count = header & 0x0FFFFFFF
        need(count <= 255, "a shape of too many keys")
        keys = []
        for _ in range(count):
            length = choices.u8()
            keys.append((length, choices.u16()))
        return header, [(choices.take(length), field) for length, field in keys]

    def _field(self, number):
        need(number < len(self.fields), "a field of jsonb that does not exist")
        return self.fields[number]

    def _content(self):
        return self._container(self._field(0), 0, 1)

    def _container(self, field, base, depth):
        need(depth <= 16, "containers of jsonb that are too deep")
        number = field.stream(1).u16()
        need(number < len(self.shapes), "a shape of jsonb that does not exist")
        header, keys = self.shapes[number]
        count = header & 0x0FFFFFFF
        children = 2 * count if keys is not None else count
        data, entries = bytearray(), []
        start = base + 4 + 4 * children
        values = [self._field(f) for _, f in keys] if keys is not None else None
        elements = self._field(field.elements) if keys is None and count else None
        for key, _ in keys or ():
            data += key
            self._entry(entries, 0, len(key), len(data))
        for n in range(count):
            child = values[n] if values is not None else elements
            before = len(data)
            code = child.stream(0).u16()
            sort, length = code & 7, code >> 3
            if sort == 0:
                data += child.words.take() if child.words else child.stream(2).take(length)
            elif sort == 1:
                data += bytes(-(start + len(data)) % 4)
                data += (4 * (length + 4)).to_bytes(4, "little")
                data += child.stream(3 if length == 4 else 4 if length == 6 else 5).take(length)
            elif sort == 5:
                data += bytes(-(start + len(data)) % 4)
                data += self._container(child, start + len(data), depth + 1)
            self._entry(entries, sort, len(data) - before, len(data))
        return struct.pack(f"<{1 + len(entries)}I", header, *entries) + data

    @staticmethod
    def _entry(entries, sort, length, end):
        if len(entries) % 32 == 0:
            length = 0x80000000 | end
        entries.append((sort << 28 | length) & M32)


class CompressedColumn:
    """Values that the server has compressed, in their row or in the pieces of a TOAST table."""

    PIECE = 1996

    def __init__(self, streams, choices, lists, version):
        pieces = choices.u8()
        need(pieces <= 1, "a reserved value of a column of compressed values")
        self.lists = lists
        self.forms = Stream(streams, VALUE_HEADER).open()
        self.lengths = Stream(streams, VALUE_HEADER).open()
        self.values = open_column(streams, choices, None, lists, version, False)
        self.pieces = open_column(streams, choices, None, lists, version, False) if pieces else None
        self.begun = {}

    def take(self, before):
        form = self.forms.u8()
        if not form:
            return (self.pieces or self.values).take()
        if form == 4:
            return self._piece(before)
        of_piece = form > 4
        need(of_piece == bool(self.pieces) and form <= 7, "the unknown form of a compressed value")
        data = self._compressed(form - 4 if of_piece else form)
        if not of_piece:
            return (len(data) + 4 << 2 | 2).to_bytes(4, "little") + data
        need(len(before) >= 8, "a piece of a value without its numbers")
        self.begun[before[-8:-4]] = [data, (len(data) + self.PIECE - 1) // self.PIECE]
        return self._piece(before)

    def _compressed(self, method):
        length = self.lengths.u32()
        self.lists.take_apart(length)
        need(length <= (COMPRESSED_LZ4_MAX if method == 3 else COMPRESSED_VALUE_MAX), "a compressed value is too long")
        value = self.values.take()
        # As in a row that begins with the value: one with a header of one byte begins there, and ends there.
        need(len(value) == length + 4, "a compressed value has not its length")
        packed = lz4_compress(value[4:]) if method == 3 else pglz_compress(value[4:], method == 1)
        need(packed is not None, "pglz refuses a value")
        return (length | (0x40000000 if method == 3 else 0)).to_bytes(4, "little") + packed

    def _piece(self, before):
        value = self.begun.get(before[-8:-4])
        need(value, "a piece of a value that is not begun")
        at = int.from_bytes(before[-4:], "little") * self.PIECE
        piece = value[0][at : at + self.PIECE]
        need(piece, "a piece after the end of its value")
        value[1] -= 1
        if not value[1]:
            del self.begun[before[-8:-4]]
        return (len(piece) + 4 << 2).to_bytes(4, "little") + piece


def open_column(streams, choices, length, lists, version, whole=True):
    mode = choices.u8()
    most = 8 if version >= 15 and whole else 7 if version >= 7 else 5 if version >= 4 else 4
    need(mode <= most, f"the unknown mode {mode} of a column")
    if mode == 8:
        need(length is None, "a mode of a column that its type does not have")
        return CompressedColumn(streams, choices, lists, version)
    if mode == 1:
        return DictionaryColumn(streams, choices, length, lists)
    if mode in (3, 5, 7):
        need(length is None, "a mode of a column that its type does not have")
        if mode == 3:
            return JsonColumn(streams, choices, lists, version)
        return WordsColumn(streams, choices, lists) if mode == 5 else NumericColumn(streams, choices)
    if mode in (4, 6):
        need(length, "a mode of a column that its type does not have")
        return (ScaledColumn if mode == 4 else DecimalColumn)(streams, choices, length)
    return FixedColumn(streams, choices, length) if length else Varlenas(streams, choices)


# ---------------------------------------------------------------- heap tuples (model/heap.md)


class Bodies:
    """The bodies of the heap tuples of a relation."""

    def __init__(self, streams, lists, version):
        choices = Stream(streams, HEAP_SCHEMA).open()
        self.columns = []
        self.by_length = {}
        attributes = choices.u8()
        if not attributes:
            for _ in range(choices.u8()):
                length = choices.u16()
                self.by_length.setdefault(length, Stream(streams, HEAP_BODY).open())
            self.others = Stream(streams, HEAP_BODY).open()
            return
        for _ in range(attributes):
            sort = choices.u8()
            need(sort <= 7, "the unknown type of a column")
            self.columns.append((TYPE_ALIGN[sort], open_column(streams, choices, TYPE_LENGTH[sort], lists, version)))
        self.fits = Stream(streams, HEAP_MODEL_FLAG).open()
        self.bitmaps = Stream(streams, NULL_BITMAP).open()
        self.others = Stream(streams, HEAP_BODY).open()

    def take(self, length, infomask2, infomask):
        if not self.columns:
            return self.by_length.get(length, self.others).take(length)
        if not self.fits.u8():
            return self.others.take(length)
        attributes = infomask2 & 0x7FF
        bitmap = self.bitmaps.take((attributes + 7) // 8) if infomask & 1 else None
        out = bytearray(bitmap or b"")
        out += bytes(-(23 + len(out)) % 8)
        start = len(out)
        for number, (align, column) in enumerate(self.columns[:attributes]):
            if bitmap is not None and not bitmap[number >> 3] >> (number & 7) & 1:
                continue
            value = column.take(bytes(out[start:])) if isinstance(column, CompressedColumn) else column.take()
            own = align or (1 if value[0] & 1 else 4)
            out += bytes((start - len(out)) % own)
            out += value
            need(len(out) <= length, "the columns of a tuple end after it")
        need(len(out) == length, "the columns of a tuple do not end with it")
        return bytes(out)


# ---------------------------------------------------------------- what WAL and chunks have in common


class PageModel:
    """Pages, heap tuples, index tuples and GIN, in the streams of relations and classes of pages."""

    def __init__(self, streams):
        self.streams, self.version, self.lists = streams, streams.version, Lists()
        self.member = Owner(streams)
        self.classes = {}
        self.entries = None

    # Heap tuples.

    def body(self, relation, length, infomask2, infomask):
        need(length >= 0, "a tuple that is shorter than its header")
        bodies = getattr(relation, "bodies", None)
        if bodies is None:
            bodies = relation.bodies = Bodies(self.streams, self.lists, self.version)
        return bodies.take(length, infomask2, infomask)

    # The rows that are known, where pages are those of WAL.
    image_rows = None

    def page_tuple(self, relation, length, block, pointer):
        def field(n):
            return relation.stream(HEAP_HEADER, ("page", n))

        flags = relation.stream(HEAP_FLAGS).u8()
        if not flags & 8:
            relation.last_xmin = field(0).u32()
        xmin = getattr(relation, "last_xmin", 0)
        xmax = 0 if flags & 2 else field(1).u32()
        third = 0 if flags & 4 else field(2).u32()
        ctid = struct.pack("<HHH", block >> 16, block & 0xFFFF, pointer) if flags & 1 else field(3).take(6)
        infomask2, infomask = field(4).u16(), field(5).u16()
        hoff = field(6).u8()
        head = struct.pack("<III6sHHB", xmin, xmax, third, ctid, infomask2, infomask, hoff)
        if not self.image_rows:
            return head + self.body(relation, length - 23, infomask2, infomask)
        high, low, target = struct.unpack("<HHH", ctid)
        on_page = target if high << 16 | low == block and target != pointer else 0
        old = self.image_rows.other((relation, block, pointer), on_page)
        mode = relation.stream(MODEL_FLAG, ("page", "versions")).u8() if old else 0
        left = length - 23
        need(left >= 0, "a tuple that is shorter than its header")
        if mode:
            need(mode in (1, 2, 4), "the unknown mode of a tuple of an image")
            front = min(max(hoff - 23, 0), left)
            body = self.version_body(relation, mode, old, left, front, 0, 0, "page")
        else:
            body = self.body(relation, left, infomask2, infomask)
        self.image_rows.add(pointer, body[max(hoff - 23, 0) :], on_page)
        return head + body

    # Index tuples.

    def index_tid(self, relation, place, info):
        """The block and the offset of an index tuple."""
        if place == "leaf" and not info & 0x2000:
            code = relation.stream(TID_RUN).u8()
            run = getattr(relation, "run", (0, 0, False))
            if code < 254:
                block, offset = (run[0], run[1] + 1 + code & 0xFFFF) if code < 250 else (run[0] + 1 & M32, code - 249)
                relation.run = block, offset, False
                return block, offset
            offset = relation.stream(INDEX_TID, (place, 0)).u16()
            block = relation.stream(INDEX_TID, (place, 1)).u32()
            relation.run = (block, offset, True) if run[2] else (run[0], run[1], True)
            return block, offset
        offset = relation.stream(INDEX_TID, (place, 0)).u16()
        return relation.stream(INDEX_TID, (place, 1)).u32(), offset

    def index_tuple(self, relation, place, most):
        info = relation.stream(INDEX_INFO, place).u16()
        length = info & 0x1FFF
        need(8 <= length <= most, "an index tuple of a length that it cannot have")
        block, offset = self.index_tid(relation, place, info)
        out = struct.pack("<HHHH", block >> 16, block & 0xFFFF, offset, info)
        keys = relation.rows(INDEX_KEY, place)
        if info & 0x2000 and offset & 0x2000:
            count = offset & 0xFFF
            end = block + 6 * count
            if 8 <= block and end <= length:
                out += keys.take(block - 8)
                blocks, offsets = relation.stream(POSTING_TID, 0), relation.stream(POSTING_TID, 1)
                for _ in range(count):
                    number = blocks.u32()
                    out += struct.pack("<HHH", number >> 16, number & 0xFFFF, offsets.u16())
                return out + keys.take(length - end)
        return out + keys.take(length - 8)

    # Entries of rows.

    def target(self, relation, step):
        """The TID of a row with a step, and the index tuple of its entry if that was looked for."""
        if step == 248:
            block = relation.stream(INDEX_TID, ("entry", 0)).u32()
            tid = block, relation.stream(INDEX_TID, ("entry", 1)).u16()
            return tid, None
        need(step < 248, "the unknown step of an entry")
        number = relation.next_entry + step
        relation.next_entry = number + 1
        return self.entries.at(number)

    def told_tuples(self, relation, count, most):
        """The tuples of a leaf page that is told from the entries of its index, in their order."""
        start = relation.stream(ENTRY_START).u32()
        relation.next_entry = getattr(relation, "next_entry", 0) + start & M32
        steps = relation.stream(ENTRY_STEP)
        tuples, others, used = [], [], 0
        for n in range(count):
            step = steps.u8()
            if step == 255:
                others.append(n)
                tuples.append(b"")
                continue
            if step in (249, 250):
                rows = relation.stream(ENTRY_COUNT).u16()
                need(0 < rows and 6 * rows <= most - used, "a posting list of an impossible length")
                targets = [self.target(relation, 0 if step == 249 else steps.u8()) for _ in range(rows)]
                own = targets[0][1] or self.entries.of_tid(targets[0][0])
                out = own + b"".join(tid_bytes(tid) for tid, _ in targets)
                out += bytes(-len(out) % 8)
                need(len(out) <= 0x1FFF, "an index tuple that is too long")
                info = le16(own, 6) & 0xE000 | 0x2000 | len(out)
                out = tid_bytes((len(own), 0x2000 + rows)) + struct.pack("<H", info) + out[8:]
            else:
                tid, out = self.target(relation, step)
                out = out or self.entries.of_tid(tid)
            tuples.append(out)
            used += len(out)
            need(used <= most, "index tuples that go beyond their page")
        for n in others:
            tuples[n] = out = self.index_tuple(relation, "leaf", most - used)
            used += len(out) + 7 & ~7
        return tuples

    # GIN.

    def gin_list(self, relation, where, count):
        need(count, "a posting list without targets")
        tids = [relation.stream(POSTING_TID, (where, n)) for n in range(4)]
        offsets = relation.stream(POSTING_OFFSET, where)
        block, offset = tids[0].u32(), tids[1].u16()
        head = struct.pack("<HHH", block >> 16, block & 0xFFFF, offset)
        last = block << 11 | offset & 0x7FF
        out = bytearray()
        for _ in range(count - 1):
            more = tids[2].u16()
            if more == 65535:
                more = tids[3].u32()
            own = offsets.u16()
            offset = own + (offset if not more else 0)
            block += more
            target = block << 11 | offset & 0x7FF
            need(target >= last, "a posting list that does not ascend")
            step, last = target - last, target
            while step > 127:
                out.append(step & 127 | 128)
                step >>= 7
            out.append(step)
        need(len(out) < 65536, "a posting list that is too long")
        return head + struct.pack("<H", len(out)) + out + bytes(len(out) & 1)

    def gin_segments(self, relation, where, space):
        out = b""
        while len(out) < space:
            out += self.gin_list(relation, where, relation.stream(INDEX_INFO, (where, "segment")).u16())
        need(len(out) == space, "posting lists go beyond their space")
        return out

    def gin_entry(self, relation, where, most):
        form = relation.stream(MODEL_FLAG, where).u8()
        keys = relation.rows(INDEX_KEY, ("gin", where))
        if form == 2:
            length = relation.stream(TUPLE_LEN, where).u16()
            need(length <= most, "an entry goes beyond its place")
            return relation.rows(ITEM_BODY, where).take(length)
        need(form < 2, "the unknown form of a GIN entry")
        if form == 0:
            info = relation.stream(INDEX_INFO, (where, "info")).u16()
            length = info & 0x1FFF
            need(8 <= length <= most, "an entry goes beyond its place")
            return relation.stream(INDEX_TID, where).take(6) + struct.pack("<H", info) + keys.take(length - 8)
        count = relation.stream(INDEX_INFO, (where, "count")).u16()
        start = relation.stream(INDEX_INFO, (where, "start")).u16()
        info = relation.stream(INDEX_INFO, (where, "info")).u16()
        need(8 <= start <= most, "an entry goes beyond its place")
        out = keys.take(start - 8)
        out += self.gin_list(relation, where, count)
        out += bytes(-len(out) % 8)
        length = len(out) + 8
        need(length <= min(most, 0x1FFF), "an entry goes beyond its place")
        return struct.pack("<HHHH", 0x8000, start, count, info & 0xE000 | length) + out

    # Pages.

    def page(self, relation, block, hole, hole_length):
        """A page with zeros in its hole."""
        sort = self.member.stream(IMAGE_CLASS).u8()
        need(sort <= 6, f"the unknown class {sort} of a page")
        if sort == 0:
            raw = relation.stream(RAW_PAGE).take(PAGE - hole_length)
            return bytearray(raw[:hole] + bytes(hole_length) + raw[hole:])
        own = self.classes.get(sort)
        if own is None:
            own = self.classes[sort] = Owner(self.streams)
        lsn = own.stream(PAGE_FIELD, "lsn").u64()
        checksum, flags = own.stream(PAGE_FIELD, "checksum").u16(), own.stream(PAGE_FIELD, "flags").u16()
        lower = hole if hole_length else own.stream(PAGE_FIELD, "lower").u16()
        upper = lower + hole_length
        special, size_version = own.stream(PAGE_FIELD, "special").u16(), own.stream(PAGE_FIELD, "version").u16()
        prune = own.stream(PAGE_FIELD, "prune").u32()
        need(24 <= lower and upper <= special <= PAGE, "a page header that no page has")
        page = bytearray(PAGE)
        struct.pack_into("<IIHHHHHHI", page, 0, lsn >> 32, lsn & M32, checksum, flags, lower, upper, special,
                         size_version, prune)
        page[special:] = own.rows(PAGE_SPECIAL).take(PAGE - special)
        if sort == 6:
            page[24:32] = own.stream(PAGE_FIELD, "bound").take(8)
            segments = self.gin_segments(relation, "page", special - hole_length - 32)
            need(lower >= 32, "a page header that no page of posting lists has")
            page[32:lower] = segments[: lower - 32]
            page[upper:special] = segments[lower - 32 :]
        else:
            self._items(page, own, relation, sort, block, lower, upper, special)
        return page

    def _items(self, page, own, relation, sort, block, lower, upper, special):
        if sort in (1, 3):
            relation.stream(TUPLE_LEN, "page").open()
        mode = own.stream(LINE_POINTER, "mode").u8()
        pointers, having = [], []
        for n in range((lower - 24) // 4):
            state = 5 if mode & 1 else own.stream(LINE_POINTER, "state").u8()
            offset = own.stream(LINE_POINTER, "offset").u16() if state & 8 and not state & 4 else 0
            pointers.append((state & 3) << 15 | offset & 0x7FFF)
            if state & 4:
                having.append(n)
        order = list(range(len(having)))
        if sort == 2 and having and le32(page, special + 4):
            order = order[1:] + order[:1]
        if sort == 2 and having:
            need(special + 12 <= PAGE, "the special space of a B-tree page is too short")
        items = [b""] * len(having)
        if sort == 1 and self.image_rows:
            self.image_rows.begin(relation, block, len(pointers))
        most = special - upper
        if self.entries and having and (sort == 4 or sort == 2 and not le32(page, special + 8)):
            for n, item in zip(order, self.told_tuples(relation, len(having), most)):
                items[n] = item
            order = ()
        for n in order:
            item = self._item(page, relation, sort, block, having[n] + 1, special, most)
            need(item, "an item of no bytes")
            items[n] = item
        self._place(page, own, items, pointers, having, upper, special, mode)
        struct.pack_into(f"<{len(pointers)}I", page, 24, *pointers)

    def _item(self, page, relation, sort, block, pointer, special, most):
        if sort == 2:
            return self.index_tuple(relation, "inner" if le32(page, special + 8) else "leaf", most)
        if sort == 4:
            return self.index_tuple(relation, "leaf", most)
        if sort == 5:
            return self.gin_entry(relation, "page", most)
        length = relation.stream(TUPLE_LEN, "page").u16()
        need(length <= most, "an item goes beyond the page")
        if sort == 1:
            return self.page_tuple(relation, length, block, pointer)
        return relation.rows(ITEM_BODY, "other").take(length)

    def _place(self, page, own, items, pointers, having, upper, special, mode):
        count = len(items)
        ordered = own.stream(ITEM_ORDER, "sorted").u16()
        need(ordered <= count, "more items in order than there are items")
        distances = [0] * ordered + [own.stream(ITEM_ORDER, "distance").u16() for _ in range(count - ordered)]
        left, sequence = list(range(count)), [0] * count
        for n in range(count - 1, -1, -1):
            need(distances[n] <= n, "distances that are no permutation")
            sequence[n] = left.pop(n - distances[n])
        at = special
        padding = own.stream(ITEM_PADDING)
        offsets = [0] * count
        for n in sequence:
            at = (at - len(items[n])) & ~7
            need(at >= upper, "items go beyond the page")
            offsets[n] = at
        for n, item in enumerate(items):
            pad = -len(item) % 8
            at_item = offsets[n]
            end = at_item + len(item)
            page[at_item:end] = item
            if mode & 2 and pad:
                end_pad = min(end + pad, special)
                page[end:end_pad] = padding.take(end_pad - end)
            pointers[having[n]] |= at_item | len(item) << 17
        need(not count or at == upper, "items do not end where the hole does")
        need(count or upper == special, "a page without items has bytes for them")


# ---------------------------------------------------------------- rows (model/rows.md)


class Row:
    __slots__ = ("relation", "block", "pointer", "values", "missing", "before", "next", "first", "start")


class Rows:
    """The last rows, numbered from 1."""

    def __init__(self):
        self.kept, self.lowest, self.total, self.dropped = [], 1, 0, 0

    def get(self, number):
        """A row, or None where it is not known."""
        n = number - self.lowest
        return self.kept[n] if number and 0 <= n < len(self.kept) else None

    def add(self, transaction, relation, block, pointer, values, missing, first):
        if self.total - self.dropped >= 2 << 20 or len(self.kept) >= 131072:
            self._drop()
        newest = self.get(transaction.newest)
        row = Row()
        row.relation, row.block, row.pointer, row.values, row.missing = relation, block, pointer, values, missing
        row.before, row.next, row.start = transaction.newest, 0, self.total
        number = self.lowest + len(self.kept)
        row.first = number if first or newest is None else newest.first
        for other in self.back(transaction.newest):
            if other.relation is relation:
                other.next = number
                break
        self.kept.append(row)
        self.total += len(values)
        transaction.newest = number
        return number

    def back(self, number):
        """At most 16 rows of a transaction, from the one with this number back."""
        for _ in range(16):
            row = self.get(number)
            if row is None:
                return
            yield row
            number = row.before

    def _drop(self):
        bound = self.total - (1 << 20)
        n = 0
        while n < len(self.kept) and (self.kept[n].start < bound or len(self.kept) - n > 65536):
            n += 1
        self.dropped = self.kept[n].start if n < len(self.kept) else self.total
        del self.kept[:n]
        self.lowest += n


class Versions:
    """What is known of versions of rows."""

    KEPT_MAX = 16 << 20

    def __init__(self, original, rows):
        slots = min(max(original // 64, 1024), 524288)
        self.count = 1 << (slots - 1).bit_length()
        self.slots = [None] * self.count
        self.rows, self.kept = rows, 0
        self.pages, self.images = set(), None

    def page(self, relation, block):
        """The page of which a record may have told versions."""
        return self._place(relation, block, 0)[1]

    def _place(self, relation, block, pointer):
        product = (relation.number << 32 | block) * 0x9E3779B97F4A7C15
        h = (product ^ product >> 64) & M64
        return h + pointer & M32, (h >> 32) + pointer & self.count - 1

    def _find(self, key):
        check, first = self._place(*key)
        for at in (first, first ^ self.count >> 1):
            if self.slots[at] and self.slots[at][0] == check:
                return at
        return -1

    def known(self, key):
        """(start, bytes, length of all values) of a version, or None."""
        found = self.of_record(key)
        if not found and self.images:
            values = self.images.get(*key)
            found = (0, values, len(values)) if values is not None else None
        return found

    def of_record(self, key):
        at = self._find(key)
        return self._content(self.slots[at]) if at >= 0 else None

    def _content(self, slot):
        if isinstance(slot[1], int):
            row = self.rows.get(slot[1])
            return (0, row.values, len(row.values)) if row else None
        return slot[1]

    def enter(self, key, content):
        self.pages.add(self.page(*key[:2]))
        check, first = self._place(*key)
        old = self.slots[first]
        if old and old[0] != check:
            self.slots[first ^ self.count >> 1] = old
        self.slots[first] = (check, content)

    def update(self, old_key, new_key, prefix, values, suffix):
        total = prefix + len(values) + suffix
        if total > 65535:
            return
        at = self._find(old_key)
        old = self.known(old_key)
        start, data = prefix, values
        if old:
            first, have, length = old
            if first <= prefix <= first + len(have):
                start, data = first, have[: prefix - first] + data
            tail = length - suffix
            if first <= tail <= first + len(have):
                data = data + have[tail - first :]
        room = data[:2048]
        freed = -1
        if at >= 0:
            slot = self.slots[at]
            freed = len(slot[1][1]) if not isinstance(slot[1], int) else -1
            self.slots[at] = None
        if freed != len(room):
            if self.kept + len(room) + 6 > self.KEPT_MAX:
                self.slots = [None] * self.count
                self.kept = 0
            self.kept += len(room) + 6
        self.enter(new_key, (start, room, total))


class ImageRows:
    """The rows on the newest images."""

    HALF, HALF_ROWS = 1 << 21, 1 << 16

    def __init__(self, original, versions):
        slots = min(max(original >> 12, 64), 16384)
        self.count = 1 << (slots - 1).bit_length()
        self.slots, self.versions = {}, versions
        self.newer, self.older, self.kept, self.total = {}, {}, 0, 0
        self.number, self.earlier = 0, {}

    def _slot(self, relation, block):
        product = (relation.number << 32 | block) * 0x9E3779B97F4A7C15
        h = (product ^ product >> 64) & M64
        return (h >> 32) & self.count - 1, h & M32

    def get(self, relation, block, pointer):
        at, check = self._slot(relation, block)
        slot = self.slots.get(at)
        return self._image(slot[1]).get(pointer) if slot and slot[0] == check else None

    def _image(self, number):
        return self.newer.get(number) or self.older.get(number) or {}

    def begin(self, relation, block, count):
        """Begins an image with so many line pointers."""
        if self.total >= self.HALF or self.kept >= self.HALF_ROWS or len(self.newer) >= self.HALF_ROWS:
            self.older, self.newer, self.kept, self.total = self.newer, {}, 0, 0
        self.number += 1
        at, check = self._slot(relation, block)
        slot = self.slots.get(at)
        self.earlier = self._image(slot[1]) if slot and slot[0] == check else {}
        self.slots[at] = check, self.number
        self.image = self.newer[self.number] = {}
        self.from_pointer, self.pointers = {}, count
        self.of_records = self.versions.page(relation, block) in self.versions.pages

    def other(self, key, on_page):
        """The version from which a tuple of the image is told: (start, bytes, length of all), or None."""
        found = self.versions.of_record(key) if self.of_records else None
        if found:
            return found
        values = self.earlier.get(key[2])
        if values is None:
            values = self.image.get(self.from_pointer.get(key[2]))
        if values is None:
            values = self.image.get(on_page)
        return None if values is None else (0, values, len(values))

    def add(self, pointer, values, on_page):
        self.image[pointer] = values
        self.kept += 1
        self.total += len(values)
        if 0 < on_page <= self.pointers:
            self.from_pointer[on_page] = pointer


def signed(n):
    return n >> 1 ^ -(n & 1)


class ChangedWords:
    """The words of a relation's changed rows."""

    def __init__(self):
        self.row, self.offset, self.last, self.size = 0, 0, [], 0

    def begin(self, size, rows):
        row = rows.get(self.row)
        self.row = row.next if row and row.next else self.row + 1 & M32
        self.size = size

    def _at_cursor(self, rows):
        row = rows.get(self.row)
        at = self.offset - row.missing if row else -1
        need(row and at >= 0 and at + 8 <= len(row.values), "a word of a row that is not known")
        return row.values[at : at + 8]

    def word(self, relation, transaction, rows, recent, old, place):
        word = self._word(relation, transaction, rows, recent, old, place)
        if place < 64:
            self.last += [bytes(8)] * (place + 1 - len(self.last))
            self.last[place] = word
        return word

    def _word(self, relation, transaction, rows, recent, old, place):
        operation = relation.stream(MODEL_FLAG, "words").u8()
        need(operation <= 19, "an unknown operation on a word")
        if operation == 0:
            return old
        if operation == 1:
            bytes_ = struct.pack("<Q", relation.stream(HEAP_PART, "words bytes").u64())
            return self._add_recent(recent, bytes(a + b & 255 for a, b in zip(bytes_, old)))
        if operation <= 5:
            if operation in (3, 5):
                back = relation.stream(TUPLE_LEN, "words back").u8()
                self.offset = relation.stream(TUPLE_LEN, "words offset").u16()
                self.row = transaction.newest
                for _ in range(back):
                    row = rows.get(self.row)
                    need(row and back < 40, "a row that is not known")
                    self.row = row.before
            word = self._at_cursor(rows)
            return word if operation <= 3 else self._sum(old, struct.unpack("<d", word)[0])
        if operation == 6:
            which = relation.stream(TUPLE_LEN, "words recent").u8()
            need(which < 8, "a recent word that there is not")
            return recent[which]
        if operation == 7:
            n = signed(relation.stream(HEAP_PART, "words from last").u64())
            base = self.last[place] if place < len(self.last) else old
            return self._add_recent(recent, struct.pack("<Q", int.from_bytes(base, "little") + n & M64))
        if operation <= 12:
            halves = list(struct.unpack("<II", old))
            for half in (0, 1):
                if operation in (8 + half, 10):
                    transaction.amount = signed(relation.stream(HEAP_PART, ("words", min(self.size, 4))).u32())
                if operation in (8 + half, 10, 11 + half):
                    halves[half] = halves[half] + transaction.amount & M32
            return struct.pack("<II", *halves)
        n = signed(relation.stream(HEAP_PART, "words decimal").u64())
        return self._sum(old, float(n) / float(10 ** (operation - 13)))

    @staticmethod
    def _add_recent(recent, word):
        recent.insert(0, word)
        recent.pop()
        return word

    @staticmethod
    def _sum(old, other):
        total = struct.unpack("<d", old)[0] + other
        need(math.isfinite(total), "a sum that is not finite")
        return struct.pack("<d", total)


def values_at(data, at):
    """The values of a tuple that begins at `at` with infomasks and t_hoff, or None."""
    if at + 5 > len(data):
        return None
    start = at + max(data[at + 4] - 23, 0) + 5
    return data[start:] if start <= len(data) else None


# ---------------------------------------------------------------- extracted keys (model/index.md)


def _rotate(value, n):
    return (value << n | value >> 32 - n) & M32


def hash_bytes(data):
    """PostgreSQL's hash_bytes (Bob Jenkins, 2006)."""
    a = b = c = 0x9E3779B9 + len(data) + 3923095 & M32
    at, left = 0, len(data)
    while left >= 12:
        a, b, c = a + le32(data, at) & M32, b + le32(data, at + 4) & M32, c + le32(data, at + 8) & M32
        a = (a - c & M32) ^ _rotate(c, 4)
        c = c + b & M32
        b = (b - a & M32) ^ _rotate(a, 6)
        a = a + c & M32
        c = (c - b & M32) ^ _rotate(b, 8)
        b = b + a & M32
        a = (a - c & M32) ^ _rotate(c, 16)
        c = c + b & M32
        b = (b - a & M32) ^ _rotate(a, 19)
        a = a + c & M32
        c = (c - b & M32) ^ _rotate(b, 4)
        b = b + a & M32
        at, left = at + 12, left - 12
    tail = bytes(data[at:])
    a = a + le32(tail, 0) & M32
    b = b + le32(tail, 4) & M32
    c = c + (le32(tail, 8) << 8) & M32
    c = (c ^ b) - _rotate(b, 14) & M32
    a = (a ^ c) - _rotate(c, 11) & M32
    b = (b ^ a) - _rotate(a, 25) & M32
    c = (c ^ b) - _rotate(b, 16) & M32
    a = (a ^ c) - _rotate(c, 4) & M32
    b = (b ^ a) - _rotate(a, 14) & M32
    return (c ^ b) - _rotate(b, 24) & M32


class NotThis(Exception):
    """Content that has not the form of a source."""


def _that(condition):
    if not condition:
        raise NotThis


class JsonTree:
    """The containers of a jsonb, down to keys and values."""

    def __init__(self, data):
        self.data = data
        _that(len(data) >= 4)
        flags = data[3] >> 4
        _that(flags in (2, 4, 5) and not data[3] & 15)
        self.top, end = self._container(0, len(data), 0)
        _that(end == len(data) and self.top[1])

    def _container(self, at, end, depth):
        """((is an object, children), its end); a child is (sort, content)."""
        data = self.data
        _that(at + 4 <= end)
        header = le32(data, at)
        is_object = bool(header & 0x20000000)
        count = (header & 0x0FFFFFFF) * (2 if is_object else 1)
        base = at + 4 + 4 * count
        _that(base <= end)
        children, position = [], 0
        for n in range(count):
            entry = le32(data, at + 4 + 4 * n)
            length = entry & 0x0FFFFFFF
            stop = length if entry >> 31 else position + length
            _that(stop >= position and base + stop <= end)
            children.append((entry >> 28 & 7, self._child(entry >> 28 & 7, base + position, base + stop, depth)))
            position = stop
        return (is_object, children), base + position

    def _child(self, sort, at, end, depth):
        _that(sort <= 5)
        if sort == 0:
            return self.data[at:end]
        if sort == 1:
            at += -at % 4
            _that(at + 4 <= end)
            return self._number(self.data[at + 4 : end])
        if sort == 5:
            at += -at % 4
            _that(at <= end)
            tree, stop = self._container(at, end, depth + 1)
            return tree
        return b""

    @staticmethod
    def _number(data):
        """(negative, scale, weight, digits)."""
        _that(len(data) >= 2 and len(data) % 2 == 0)
        words = struct.unpack(f"<{len(data) // 2}H", data)
        head = words[0]
        if head & 0xC000 == 0x8000:
            weight = (head & 0x3F) - (head & 0x40)
            return bool(head & 0x2000), head >> 7 & 0x3F, weight, words[1:]
        _that(head & 0xC000 != 0xC000 and len(words) >= 2)
        weight = words[1] - (words[1] >> 15 << 16)
        return bool(head & 0x4000), head & 0x3FFF, weight, words[2:]


def _json_number_hash(number):
    _, _, weight, digits = number
    digits = list(digits)
    while digits and not digits[0]:
        digits.pop(0)
        weight -= 1
    while digits and not digits[-1]:
        digits.pop()
    if not digits:
        return M32
    return hash_bytes(struct.pack(f"<{len(digits)}H", *digits)) ^ weight & M32


def _json_path_keys(tree, path, out):
    is_object, children = tree
    half = len(children) // 2 if is_object else 0
    for n, (sort, content) in enumerate(children[half:]):
        own = path
        if is_object:
            own = _rotate(path, 1) ^ hash_bytes(children[n][1])
        if sort == 5:
            _json_path_keys(content, own, out)
            continue
        if sort == 0:
            value = hash_bytes(content)
        elif sort == 1:
            value = _json_number_hash(content)
        else:
            value = {4: 1, 3: 2, 2: 4}[sort]
        out.add(_rotate(own, 1) ^ value)


def _json_decimal(number):
    negative, scale, weight, digits = number
    _that(weight <= 1000)
    whole = "".join(f"{digits[n] if n < len(digits) else 0:04}" for n in range(weight + 1)) if weight >= 0 else ""
    text = whole.lstrip("0") or "0"
    groups = (scale + 3) // 4
    fraction = ""
    for n in range(weight + 1, weight + 1 + groups) if weight >= 0 else range(weight + 1, weight + 1 + groups):
        fraction += f"{digits[n] if 0 <= n < len(digits) else 0:04}"
    fraction = fraction[:scale].rstrip("0")
    return (("-" if negative else "") + text + ("." + fraction if fraction else "")).encode()


def _json_text_keys(tree, out):
    is_object, children = tree
    half = len(children) // 2 if is_object else 0
    for n, (sort, content) in enumerate(children):
        if is_object and n < half:
            out.add(_json_text(1, content))
        elif sort == 0:
            out.add(_json_text(5 if is_object else 1, content))
        elif sort == 1:
            out.add(_json_text(4, _json_decimal(content)))
        elif sort == 4:
            out.add(_json_text(2, b""))
        elif sort in (2, 3):
            out.add(_json_text(3, b"t" if sort == 3 else b"f"))
        else:
            _json_text_keys(content, out)


def _json_text(kind, text):
    if len(text) > 125:
        kind, text = kind | 16, b"%08x" % hash_bytes(text)
    return bytes((kind,)) + text


def _signed(value):
    return value - (value >> 31 << 32)


def keys_of_jsonb_paths(data):
    out = set()
    _json_path_keys(JsonTree(data).top, 0, out)
    return [v.to_bytes(4, "little") for v in sorted(out, key=_signed)]


def keys_of_jsonb(data):
    out = set()
    _json_text_keys(JsonTree(data).top, out)
    return sorted(out)


def keys_of_tsvector(data):
    _that(len(data) >= 4)
    count = le32(data, 0)
    _that(0 < count < len(data) / 4)
    base = 4 + 4 * count
    _that(base <= len(data))
    keys, end = [], 0
    for n in range(count):
        entry = le32(data, 4 + 4 * n)
        offset, length = entry >> 12, entry >> 1 & 0x7FF
        _that(offset >= end if n else offset == 0)
        end = offset + length
        _that(base + end <= len(data))
        keys.append(data[base + offset : base + end])
    return keys


ARRAY_TYPES = {21: 2, 23: 4, 1082: 4, 20: 8, 1114: 8, 1184: 8, 2950: 16, 25: 0, 1042: 0, 1043: 0}


def keys_of_array(data):
    _that(len(data) >= 12)
    dimensions, offset, sort = le32(data, 0), le32(data, 4), le32(data, 8)
    _that(1 <= dimensions <= 6 and sort in ARRAY_TYPES)
    head = 12 + 8 * dimensions
    _that(head <= len(data))
    count = 1
    for n in range(dimensions):
        count *= le32(data, 12 + 4 * n)
    _that(count <= 8 * len(data))
    present = [True] * count
    if offset:
        at = offset - 4
        _that(head + (count + 7) // 8 <= at <= len(data))
        present = [data[head + (n >> 3)] >> (n & 7) & 1 for n in range(count)]
    else:
        at = (head + 4 + 7 & ~7) - 4
    length = ARRAY_TYPES[sort]
    align = 1 if length == 16 else length or 4
    out = set()
    for have in present:
        if not have:
            continue
        if length:
            at += -(at + 4) % align
            size, skip = length, 0
        else:
            _that(at < len(data))
            if not data[at] & 1:
                at += -(at + 4) % 4
                _that(at + 4 <= len(data) and not data[at] & 3)
                size, skip = le32(data, at) >> 2, 4
            else:
                size, skip = data[at] >> 1, 1
            _that(size >= skip)
        _that(at + size <= len(data))
        out.add(data[at + skip : at + size])
        at += size
    at += -(at + 4) % align
    _that(at == len(data) or (at >= len(data) and at - len(data) < align))
    if length in (2, 4, 8):
        return sorted(out, key=lambda v: int.from_bytes(v, "little", signed=True))
    return sorted(out)


def keys_of_text(data):
    _that(all(b >= 32 or b in (9, 10, 12, 13) for b in data))
    out = set()
    for word in re.findall(rb"[A-Za-z0-9\x80-\xff]+", data):
        word = b"  " + word.lower() + b" "
        for n in range(len(word) - 2):
            if max(word[n : n + 3]) < 128:
                out.add(word[n] << 16 | word[n + 1] << 8 | word[n + 2])
    return [v.to_bytes(4, "little") for v in sorted(out)]


EXTRACT = {1: keys_of_jsonb_paths, 2: keys_of_jsonb, 3: keys_of_tsvector, 4: keys_of_array, 5: keys_of_text}


class Extraction:
    """Takes the keys of a source out of what is known of a row."""

    def __init__(self, original):
        self.left = EXTRACTION_MAX * original + CONTENT_LEN_BASE

    def keys(self, form, number, start, data):
        """(keys, whether they have variable length), or None."""
        need(form in EXTRACT, "the unknown form of a source of keys")
        data = bytes(data[:8192])
        need(self.left >= 0, "more is taken apart for keys than may be")
        self.left -= len(data) // 8
        at = 0
        while at < len(data):
            size, head = 0, 1
            if data[at] & 1:
                size = data[at] >> 1
            elif not data[at] & 3 and not (start + at) & 3 and at + 4 <= len(data):
                size, head = le32(data, at) >> 2, 4
            keys = None
            if head < size <= len(data) - at:
                content = data[at + head : at + size]
                try:
                    keys = EXTRACT[form](content)
                    self.left -= len(content)
                except (NotThis, RecursionError):
                    keys = None
            if keys is None:
                at += 1
                continue
            if not number:
                variable = form in (2, 3) or (form == 4 and ARRAY_TYPES[le32(content, 8)] == 0)
                return (keys, variable) if keys else None
            number -= 1
            at += size
        return None


# ---------------------------------------------------------------- records (model/records.md)

XLOG_XACT, XLOG_HEAP2, XLOG_HEAP, XLOG_BTREE, XLOG_GIN, XLOG_GIST, XLOG_SPGIST = 1, 9, 10, 11, 13, 14, 16

MAIN_FIELDS = {
    (XLOG_XACT, 0x00): (8, 4), (XLOG_XACT, 0x20): (8, 4),
    (XLOG_HEAP, 0x00): (2, 1),
    (XLOG_HEAP, 0x10): (4, 2, 1, 1), (XLOG_HEAP, 0x60): (4, 2, 1, 1),
    (XLOG_HEAP, 0x20): (4, 2, 1, 1, 4, 2), (XLOG_HEAP, 0x40): (4, 2, 1, 1, 4, 2),
    (XLOG_HEAP, 0x50): (2,), (XLOG_HEAP, 0x70): (2,),
    (XLOG_HEAP2, 0x50): (1, 1, 2), (XLOG_HEAP2, 0x40): (4, 1), (XLOG_HEAP2, 0x60): (4, 2, 1, 1),
    (XLOG_BTREE, 0x00): (2,), (XLOG_BTREE, 0x10): (2,), (XLOG_BTREE, 0x20): (2,), (XLOG_BTREE, 0x50): (2,),
    (XLOG_BTREE, 0x30): (4, 2, 2, 2), (XLOG_BTREE, 0x40): (4, 2, 2, 2), (XLOG_BTREE, 0x60): (2,)}
SPGIST_LEAF_FIELDS = (1, 1, 2, 2, 2, 2, 4, 2, 4, 2)

HAS_IMAGE, HAS_DATA, SAME_REL = 0x10, 0x20, 0x80


class Block:
    __slots__ = ("id", "flags", "image_flags", "relation", "owner")


class Kind:
    """What records have in common."""

    def __init__(self, streams, number, definition, wal):
        self.owner = Owner(streams)
        self.context = number + 1
        self.manager, self.info, self.flags, self.main_length = (definition.u8() for _ in range(4))
        need(not self.flags & ~31, "reserved flags of a record kind")
        count = definition.u8()
        need(count <= KIND_BLOCKS_MAX, "too many block references of a record kind")
        wal.kind_blocks += count
        need(wal.kind_blocks <= KIND_BLOCKS_TOTAL_MAX, "too many block references of record kinds")
        self.blocks = []
        for _ in range(count):
            block = Block()
            block.id, block.flags, block.image_flags = definition.u8(), definition.u8(), definition.u8()
            block.relation, block.owner = wal.relation(definition), Owner(streams)
            self.blocks.append(block)
        by_operation = self.manager in (XLOG_XACT, XLOG_HEAP, XLOG_HEAP2)
        self.type = self.info & (0x70 if by_operation else 0xF0)
        self.fields = MAIN_FIELDS.get((self.manager, self.type), ())
        if (self.manager, self.type) == (XLOG_SPGIST, 0x10) and wal.version >= 2:
            self.fields = SPGIST_LEAF_FIELDS
        self.is_update = self.manager == XLOG_HEAP and self.type in (0x20, 0x40)
        for block in self.blocks:
            block_model = self._model(block.id, wal.version)
            block.owner.model = block_model

    def _model(self, number, version):
        manager, sort = self.manager, self.type
        if manager == XLOG_HEAP and number == 0:
            return "tuple" if sort == 0 else "update" if sort in (0x20, 0x40) else None
        if manager == XLOG_HEAP2 and number == 0:
            return "tuples" if sort == 0x50 else "offsets" if sort in (0x10, 0x20, 0x30) else None
        if manager == XLOG_BTREE:
            if sort in (0x30, 0x40) and number in (0, 1) or sort == 0xA0 and number == 0:
                return "moved"
            if number == 0:
                return {0: "new", 0x10: "upper", 0x20: "upper", 0x60: "offsets", 0x70: "offsets",
                        0xC0: "offsets"}.get(sort)
        if manager == XLOG_GIN:
            if (sort, number) in ((0x60, 1), (0x70, 0)):
                return "extracted"
            if (sort, number) == (0x40, 0):
                return "gin recompression" if version >= 11 else None
            return {(0x20, 0): "gin insertion", (0x90, 0): "gin recompression"}.get((sort, number))
        if manager == XLOG_GIST and version >= 2:
            return "gist update" if (sort, number) == (0, 0) else "gist split" if sort == 0x30 and number else None
        return None


class Transaction:
    __slots__ = ("xid", "context", "newest", "amount")

    def __init__(self, xid):
        self.xid, self.context, self.newest, self.amount = xid, 0, 0, 0


class WalModel(PageModel):
    """A segment, or a part of one."""

    def __init__(self, header, streams, content_length):
        super().__init__(streams)
        self.header, self.content_length = header, content_length
        self.transactions, self.highest = [], 0
        self.kinds, self.followers, self.kind_blocks = [], {}, 0
        self.relations = []
        self.rows, self.recent = Rows(), [bytes(8)] * 8
        self.versions = Versions(header.original, self.rows)
        if self.version >= 15:
            self.image_rows = self.versions.images = ImageRows(header.original, self.versions)
        self.extraction = Extraction(header.original)
        self.extracted = None
        self.previous = 0
        self.out = bytearray()

    # The segment and its pages.

    def decode(self):
        spans = self.member.stream(SPANS)
        while True:
            sort = spans.u8()
            if sort == 0:
                return bytes(self.out)
            need(sort < 3, "the unknown sort of a span")
            if sort == 1:
                self._run(spans)
            else:
                length, zeros = spans.u32(), spans.u32()
                need(len(self.out) + length + zeros <= self.header.original, "a span goes beyond the original")
                if length:
                    self.out += self.member.stream(OTHER).take(length)
                self.out += bytes(zeros)

    def _run(self, spans):
        need(len(self.out) % PAGE == 0, "a run of pages does not begin with a page")
        self.flags, self.timeline, remaining = spans.u16(), spans.u32(), spans.u32()
        lead, whole, records, tail = spans.u32(), spans.u8(), spans.u32(), spans.u32()
        self.changes = {}
        last = -1
        for _ in range(spans.u32()):
            page = spans.u32()
            need(page > last, "changes of pages that do not ascend")
            last = page
            self.changes[page] = spans.u16(), spans.u32()
        need(lead <= remaining, "a lead is longer than what remains of its record")
        self.page_header(remaining)
        if remaining:
            self.put(self.member.stream(FRAGMENT).take(lead), remaining)
            if whole:
                self.align()
        for _ in range(records):
            if len(self.out) % PAGE == 0:
                self.page_header(0)
            position = self.header.start + len(self.out)
            self.put(self.record())
            self.previous = position
            self.align()
        if tail:
            data = self.member.stream(FRAGMENT).take(tail)
            need(tail >= 4 and tail <= le32(data, 0), "a tail that is longer than its record")
            self.put(data, le32(data, 0))

    def page_header(self, remaining):
        page = len(self.out) // PAGE
        if page in self.changes:
            self.flags, self.timeline = self.changes[page]
        header = self.header
        first = page == 0 and header.offset == 0
        info = self.flags | (1 if remaining else 0) | (2 if first else 0)
        self.out += struct.pack("<HHIQI4x", header.magic, info, self.timeline, header.start + len(self.out), remaining)
        if first:
            self.out += struct.pack("<QII", header.system, header.segment, PAGE)

    def put(self, data, remaining=None):
        remaining = len(data) if remaining is None else remaining
        at = 0
        while at < len(data):
            if len(self.out) % PAGE == 0:
                self.page_header(remaining - at if at else 0)
            part = data[at : at + PAGE - len(self.out) % PAGE]
            self.out += part
            at += len(part)
        need(len(self.out) <= self.header.original, "records go beyond the original")

    def align(self):
        self.out += bytes(-len(self.out) % 8)

    # Records.

    def transaction(self):
        rank = self.member.stream(XID_RANK).u8()
        if rank == 255:
            xid = self.member.stream(XID_NEW).u32() + self.highest & M32
            if not self.highest or 0 < (xid - self.highest & M32) < 1 << 31:
                self.highest = xid
            found = Transaction(xid)
            del self.transactions[63:]
        else:
            need(rank < len(self.transactions), "a rank of no transaction")
            found = self.transactions.pop(rank)
        self.transactions.insert(0, found)
        return found

    def kind(self, transaction):
        followers = self.followers.setdefault(transaction.context, [])
        rank = self.member.stream(KIND_RANK).u8()
        if rank == 255:
            number = self.member.stream(KIND_ID).u32()
            need(number <= len(self.kinds), "the number of no record kind")
            if number == len(self.kinds):
                need(number < KINDS_MAX, "too many record kinds")
                self.kinds.append(Kind(self.streams, number, self.member.stream(DEFINITIONS), self))
            del followers[249:]
        else:
            need(rank < len(followers), "a rank of no record kind")
            number = followers.pop(rank)
        followers.insert(0, number)
        transaction.context = number + 1
        return self.kinds[number]

    def relation(self, definition):
        number = definition.u32()
        need(number <= len(self.relations), "the number of no relation")
        if number == len(self.relations):
            relation = Owner(self.streams, number)
            relation.name, relation.fork = definition.take(12), definition.u8()
            relation.blocks, relation.last_row, relation.recipes, relation.sources = [], 0, [], []
            relation.last_key = None
            self.relations.append(relation)
        return self.relations[number]

    def block_number(self, relation):
        rank = relation.stream(BLOCK_RANK).u8()
        blocks = relation.blocks
        if rank < len(blocks):
            block = blocks.pop(rank)
        elif rank == 254:
            block = blocks[0] + 1 & M32 if blocks else 0
        else:
            need(rank == 255, "a rank of no block")
            block = relation.stream(BLOCK_NUMBER).u32()
        blocks.insert(0, block)
        del blocks[32:]
        return block

    def record(self):
        transaction = self.transaction()
        kind = self.kind(transaction)
        own, member = kind.owner, self.member
        previous = member.stream(PREV_EXPLICIT).u64() if kind.flags & 16 else self.previous
        origin = member.stream(ORIGIN).take(2) if kind.flags & 1 else b""
        toplevel = member.stream(TOPLEVEL_XID).take(4) if kind.flags & 2 else b""
        numbers, lengths, holes = [], [], []
        for block in kind.blocks:
            numbers.append(self.block_number(block.relation))
            lengths.append(block.owner.stream(BLOCK_DATA_LEN).u16() if block.flags & HAS_DATA else 0)
            hole = (0, 0)
            if block.flags & HAS_IMAGE and block.image_flags & 1:
                hole = member.stream(IMAGE_HOLE, "offset").u16(), member.stream(IMAGE_HOLE, "length").u16()
                need(sum(hole) <= PAGE, "a hole goes beyond its page")
            holes.append(hole)
        main_length = kind.main_length
        if main_length == 255:
            main_length = own.stream(MAIN_LEN).u32()
            need(main_length <= self.header.original, "main data is longer than the original")
        main = self.main_data(kind, main_length)
        heads, datas = [], []
        for n, block in enumerate(kind.blocks):
            head = struct.pack("<BBH", block.id, block.flags, lengths[n])
            if block.flags & HAS_IMAGE:
                image = self.image(block.relation, numbers[n], block.image_flags, *holes[n])
                head += struct.pack("<HHB", len(image), holes[n][0], block.image_flags)
                if block.image_flags & 1 and self.compression(block.image_flags) is not None:
                    head += struct.pack("<H", holes[n][1])
                datas.append(image)
                if n == 0 and not block.flags & HAS_DATA and self.image_rows:
                    self.remember_image(transaction, kind, numbers[0], main)
            if not block.flags & SAME_REL:
                head += block.relation.name
            heads.append(head + struct.pack("<I", numbers[n]))
            if block.flags & HAS_DATA:
                data = self.block_data(transaction, kind, block, numbers, main, lengths[n])
                datas.append(data)
                if n == 0:
                    self.remember(transaction, kind, numbers, main, data)
        if origin:
            heads.append(b"\xfd" + origin)
        if toplevel:
            heads.append(b"\xfc" + toplevel)
        if kind.flags & 4:
            if kind.flags & 8:
                heads.append(struct.pack("<BI", 254, main_length))
            else:
                need(main_length < 256, "main data is too long for its header")
                heads.append(bytes((255, main_length)))
        rest = b"".join(heads + datas) + main
        head = struct.pack("<IIQBB2x", 24 + len(rest), transaction.xid, previous, kind.info, kind.manager)
        return head + struct.pack("<I", crc32c(head, crc32c(rest))) + rest

    def main_data(self, kind, length):
        out = []
        left = length
        for n, width in enumerate(kind.fields):
            if width > left:
                break
            out.append(kind.owner.stream(MAIN_FIELD, n).take(width))
            left -= width
        out.append(kind.owner.rows(MAIN_ROW).take(left))
        return b"".join(out)

    # Images.

    def compression(self, flags):
        if self.header.major <= 14:
            return "pglz" if flags & 2 else None
        sort = flags & ~3
        return {0: None, 4: "pglz", 8: "lz4", 16: "zstd"}.get(sort, "unknown")

    def image(self, relation, block, flags, hole, hole_length):
        compression = self.compression(flags)
        form = 0
        if compression:
            form = self.member.stream(MODEL_FLAG, "image").u8()
            if form == 0:
                length = self.member.stream(IMAGE_HOLE, "opaque").u16()
                return self.member.stream(RAW_IMAGE).take(length)
            forms = {"pglz": 2, "zstd": 2, "lz4": 1}.get(compression, 0)
            need(form <= forms, "the unknown form of a compressed image")
        page = self.page(relation, block, hole, hole_length)
        del page[hole : hole + hole_length]
        if not compression:
            return bytes(page)
        if compression == "pglz":
            image = pglz_compress(bytes(page), form == 1)
            need(image is not None, "pglz refuses a page")
            return image
        return zstd_compress(page, form) if compression == "zstd" else lz4_compress(page)

    # Block data.

    def block_data(self, transaction, kind, block, numbers, main, length):
        own, relation = block.owner, block.relation
        model = own.model
        if not model or not own.stream(MODEL_FLAG).u8():
            return own.rows(BLOCK_DATA_ROW).take(length)
        if model == "tuple":
            data = self.record_tuple(relation, length)
        elif model == "update":
            data = self.update_data(kind, block, numbers, main, length)
        elif model == "tuples":
            data = self.tuples(own, relation, main, length)
        elif model == "offsets":
            data = own.stream(OFFSETS).take(length)
        elif model in ("moved", "upper"):
            data = self.fill(b"", length, lambda most: self.index_tuple(relation, model, most))
        elif model in ("new", "extracted"):
            data = self.new_tuples(transaction, relation, b"", length, model == "extracted")
        elif model == "gist update":
            data = own.stream(OFFSETS).take(2 * le16_checked(main, 0))
            data = self.new_tuples(transaction, relation, data, length, False)
        elif model == "gist split":
            data = own.stream(MAIN_FIELD, "count").take(4)
            data = self.fill(data, length, lambda most: self.index_tuple(relation, "moved", most))
        elif model == "gin insertion" and not le16_checked(main, 0) & 1:
            data = own.stream(OFFSETS).take(2) + own.stream(MAIN_FIELD, "delete").take(2)
            data += self.gin_entry(relation, "record", length - 4)
        else:
            data = self.gin_recompression(relation, length)
        need(len(data) == length, "block data has another length than its record says")
        return data

    @staticmethod
    def fill(data, length, take):
        parts, left = [data], length - len(data)
        while left > 0:
            parts.append(take(left))
            left -= len(parts[-1])
        return b"".join(parts)

    def new_tuples(self, transaction, relation, data, length, extracted):
        return self.fill(data, length, lambda most: self.new_index_tuple(transaction, relation, most, extracted))

    def record_header(self, relation):
        infomask2 = relation.stream(HEAP_HEADER, ("record", 0)).u16()
        infomask = relation.stream(HEAP_HEADER, ("record", 1)).u16()
        return infomask2, infomask, relation.stream(HEAP_HEADER, ("record", 2)).u8()

    def record_tuple(self, relation, length):
        infomask2, infomask, hoff = self.record_header(relation)
        head = struct.pack("<HHB", infomask2, infomask, hoff)
        return head + self.body(relation, length - 5, infomask2, infomask)

    def tuples(self, own, relation, main, length):
        data = b""
        for _ in range(le16_checked(main, 2)):
            if len(data) & 1:
                data += own.stream(ITEM_PADDING).take(1)
            body = own.stream(TUPLE_LEN).u16()
            need(len(data) + 7 + body <= length, "a tuple goes beyond its block data")
            data += struct.pack("<H", body) + self.record_tuple(relation, body + 5)
        return data + own.rows(BLOCK_DATA_ROW).take(length - len(data))

    def update_data(self, kind, block, numbers, main, length):
        own, relation = block.owner, block.relation
        need(len(main) >= 8, "reading beyond the bytes that are there")
        flags, data, shared = main[7], b"", []
        for bit in (0x20, 0x40):
            if flags & bit:
                data += own.stream(TUPLE_LEN, len(data)).take(2)
                shared.append(le16(data, len(data) - 2))
            else:
                shared.append(0)
        prefix, suffix = shared
        infomask2, infomask, hoff = self.record_header(relation)
        data += struct.pack("<HHB", infomask2, infomask, hoff)
        left = length - len(data)
        need(left >= 0, "block data is too short for its tuple")
        mode = 0
        if self.version >= 3:
            old = self.old_version(kind, numbers, main)
            if old:
                mode = relation.stream(MODEL_FLAG, "versions").u8()
                modes = 5 if self.version >= 15 else 4 if self.version >= 8 else 3
                need(mode < modes, "the unknown mode of a version")
        if mode == 0:
            if flags & 0x60:
                return data + relation.rows(HEAP_PART).take(left)
            return data + self.body(relation, left, infomask2, infomask)
        front = min(max(hoff - 23, 0), left)
        return data + self.version_body(relation, mode, old, left, front, prefix, suffix)

    def version_body(self, relation, mode, old, left, front, prefix, suffix, where=""):
        """A body that is told from a version. Tuples of pages have streams of their own."""
        if mode == 1:
            return self.differences(relation, old, left, front, prefix, suffix, where)
        if mode == 3:
            return self.changed_words(relation, old, left, front, prefix, suffix)
        if mode == 4:
            return self.same_values(relation, old, left, front, prefix, suffix, where)
        return self.copies(relation, old, left, front, prefix, where)

    def old_version(self, kind, numbers, main):
        """What is known of the version that an update replaces: (start, bytes, length of all)."""
        if main[7] & 4:
            values = values_at(main, 14)
            if values is not None:
                return 0, values, len(values)
        return self.versions.known(self.old_key(kind, numbers, main))

    @staticmethod
    def old_key(kind, numbers, main):
        return kind.blocks[0].relation, numbers[-1], le16(main, 4)

    @staticmethod
    def same_values(relation, old, left, front, prefix, suffix, where):
        start, known, total = old
        size = left - front
        need(total == prefix + size + suffix, "the values of a version of another length")
        need(start <= prefix and start + len(known) >= prefix + size, "values that are not known")
        head = relation.rows(HEAP_PART, "same front" + where).take(front)
        return head + known[prefix - start : prefix - start + size]

    @staticmethod
    def differences(relation, old, left, front, prefix, suffix, where):
        start, known, total = old
        body = bytearray(relation.rows(HEAP_PART, "differences" + where).take(left))
        size = left - front
        need(total == prefix + size + suffix, "differences from a version of another length")
        need(start <= prefix + size and start + len(known) >= prefix, "differences from what is not known")
        for n in range(size):
            at = prefix + n - start
            if 0 <= at < len(known):
                body[front + n] = body[front + n] + known[at] & 255
        return bytes(body)

    def changed_words(self, relation, old, left, front, prefix, suffix):
        start, known, total = old
        size = left - front
        need(size > 0 and total == prefix + size + suffix, "words of a version of another length")
        first = prefix - prefix % 8
        end = min((prefix + size + 7) // 8 * 8, total)
        need(start <= first and end <= start + len(known), "words of a version that is not known")
        base = known[first - start : end - start]
        head = relation.rows(HEAP_PART, "words front").take(front)
        words = relation.words
        words.begin(size, self.rows)
        whole, new = len(base) // 8 * 8, b""
        for at in range(0, whole, 8):
            new += words.word(relation, self.transactions[0], self.rows, self.recent, base[at : at + 8], (first + at) // 8)
        rest = relation.rows(HEAP_PART, "words rest").take(len(base) - whole)
        new += bytes(a + b & 255 for a, b in zip(rest, base[whole:]))
        return head + new[prefix - first : prefix - first + size]

    @staticmethod
    def copies(relation, old, left, front, prefix, where):
        start, known, _ = old
        count = relation.stream(MODEL_FLAG, "copies" + where).u8()
        copies = []
        for _ in range(count):
            copies.append(tuple(relation.stream(TUPLE_LEN, ("copy" + where, n)).u16() for n in range(3)))
        copied = sum(c[1] for c in copies)
        need(copied <= left, "copies of more bytes than the body has")
        own = Reader(relation.rows(HEAP_PART, "copies" + where).take(left - copied))
        body, expected = own.take(front), prefix
        for before, length, shift in copies:
            body += own.take(before)
            offset = expected + before + shift & 0xFFFF
            at = offset - start
            need(0 <= at and at + length <= len(known), "a copy of bytes that are not known")
            body += known[at : at + length]
            expected = offset + length
        return body + own.take(own.end - own.at)

    def gin_recompression(self, relation, length):
        count = relation.stream(TUPLE_LEN, "record").u16()
        data = struct.pack("<H", count)
        for _ in range(count):
            action = relation.stream(INDEX_INFO, ("record", "info")).take(2)
            data += action
            if action[1] in (2, 3):
                items = relation.stream(INDEX_INFO, ("record", "segment")).u16()
                data += self.gin_list(relation, "record", items)
            elif action[1] == 4:
                items = relation.stream(INDEX_INFO, ("record", "count")).u16()
                data += struct.pack("<H", items) + relation.stream(INDEX_TID, "record").take(6 * items)
            need(len(data) <= length, "a recompression goes beyond its data")
        return data

    # Rows and versions of rows.

    def remember(self, transaction, kind, numbers, main, data):
        """What the data of a record's first block adds to the rows and their versions."""
        manager, sort = kind.manager, kind.type
        relation, block = kind.blocks[0].relation, numbers[0]
        if manager == XLOG_HEAP2 and sort == 0x50:
            at = 0
            for n in range(le16(main, 2)):
                at += at & 1
                if at + 7 > len(data) or at + 7 + le16(data, at) > len(data):
                    break
                end = at + 7 + le16(data, at)
                pointer = n + 1 if kind.info & 0x80 else le16(main, 4 + 2 * n)
                values = values_at(data[:end], at + 2)
                if values is not None:
                    self.add_row(transaction, relation, block, pointer, values, not n)
                at = end
        elif manager == XLOG_HEAP and sort == 0:
            values = values_at(data, 0)
            if values is not None:
                self.add_row(transaction, relation, block, le16(main, 0), values, True)
        elif kind.is_update:
            flags = main[7] if len(main) > 7 else 0
            at = 2 * bool(flags & 0x20) + 2 * bool(flags & 0x40)
            prefix = le16(data, 0) if flags & 0x20 else 0
            suffix = le16(data, at - 2) if flags & 0x40 else 0
            values = values_at(data, at)
            if values is None:
                return
            new_key = relation, block, le16(main, 12)
            self.versions.update(self.old_key(kind, numbers, main), new_key, prefix, values, suffix)
            if sort == 0x20:
                self.rows.add(transaction, relation, block, le16(main, 12), values, prefix, True)

    def remember_image(self, transaction, kind, block, main):
        """The row of a record whose first block has an image in place of data."""
        if kind.manager == XLOG_HEAP and kind.type in (0, 0x20):
            pointer = le16(main, 12 if kind.type else 0)
            relation = kind.blocks[0].relation
            values = self.image_rows.get(relation, block, pointer)
            if values is not None:
                self.rows.add(transaction, relation, block, pointer, values, 0, True)

    def add_row(self, transaction, relation, block, pointer, values, first):
        number = self.rows.add(transaction, relation, block, pointer, values, 0, first)
        self.versions.enter((relation, block, pointer), number)

    # New index tuples.

    def expected_row(self, transaction, relation):
        """The number of the row that a new index tuple is expected to be for."""
        rows = self.rows
        last = rows.get(relation.last_row)
        found = rows.get(transaction.newest)
        if last:
            if last.next:
                return last.next
            for row in rows.back(transaction.newest):
                if row.relation is last.relation:
                    found = row
                    break
        return found.first if found else 0

    def index_row(self, transaction, relation):
        """The number of a new index tuple's row, or 0 where it has none."""
        code = relation.stream(INDEX_ROW).u8()
        if code == 1:
            return 0
        if code == 0:
            number = self.expected_row(transaction, relation)
        elif code == 2:
            number = relation.last_row
        else:
            number = transaction.newest
            for _ in range(code - 3):
                row = self.rows.get(number)
                number = row.before if row else 0
        need(self.rows.get(number), "a row that is not known")
        return number

    def new_index_tuple(self, transaction, relation, most, extracted):
        number = self.index_row(transaction, relation)
        if not number:
            return self.index_tuple(relation, "record", most)
        relation.last_row = number
        row = self.rows.get(number)
        tid = struct.pack("<HHH", row.block >> 16, row.block & 0xFFFF, row.pointer)
        if extracted and self.version >= 4:
            rank = relation.stream(RECIPE_RANK, "source").u8()
            if rank != 255:
                return tid + self.extracted_key(relation, number, row, rank, most)
        info = relation.stream(INDEX_INFO, "record").u16()
        length = info & 0x1FFF
        need(8 <= length <= most, "an index tuple of a length that it cannot have")
        rank = 255
        if not extracted and not info & 0xA000:
            rank = relation.stream(RECIPE_RANK, "recipe").u8()
        if rank == 255:
            key = relation.rows(INDEX_KEY, "record").take(length - 8)
        else:
            key = self.recipe_key(self.recipe(relation, rank), row, length - 8)
        return tid + struct.pack("<H", info) + key

    def recipe(self, relation, rank):
        if rank == 254:
            definition = relation.stream(RECIPE_DEFINITION, "recipe")
            pieces = definition.u8()
            need(pieces <= 8, "a recipe of too many pieces")
            found = [(definition.u8(), definition.u16()) for _ in range(pieces)]
        else:
            need(rank < len(relation.recipes), "a rank of no recipe")
            found = relation.recipes.pop(rank)
        relation.recipes.insert(0, found)
        del relation.recipes[32:]
        return found

    @staticmethod
    def recipe_key(pieces, row, length):
        key, values = b"", row.values
        for form, at in pieces:
            need(1 <= form <= 5, "the unknown form of a piece of a key")
            at -= row.missing
            need(0 <= at < len(values), "a piece of a key that its row does not have")
            if form < 4:
                size = 1 << form
                key += bytes(-len(key) % size)
            elif form == 4:
                size = 16
            else:
                size = values[at] >> 1
                need(values[at] & 1 and values[at] > 3, "a piece of a key that is no short varlena")
            need(at + size <= len(values), "a piece of a key that its row does not have")
            key += values[at : at + size]
        need(len(key) <= length, "the pieces of a key are longer than it")
        return key.ljust(length, b"\0")

    def extracted_key(self, relation, number, row, rank, most):
        """What comes after t_tid of an index tuple whose key follows from a value of its row."""
        if rank == 254:
            definition = relation.stream(RECIPE_DEFINITION, "source")
            source = definition.u8(), definition.u8(), definition.u16()
        else:
            need(rank < len(relation.sources), "a rank of no source")
            source = relation.sources.pop(rank)
        relation.sources.insert(0, source)
        del relation.sources[4:]
        form, which, column = source
        wanted = relation, number, source
        if not self.extracted or self.extracted[0] != wanted:
            known = self.versions.known((row.relation, row.block, row.pointer))
            if known is None:
                known = (0, row.values, 0) if not row.missing else (0, b"", 0)
            self.extracted = wanted, self.extraction.keys(form, which, known[0], known[1])
        need(self.extracted[1], "a source that gives no keys for its row")
        keys, variable = self.extracted[1]
        place = 0
        if relation.last_key and relation.last_key[0] == number:
            place = relation.last_key[1] + 1
        place = (place + relation.stream(KEY_SKIP).u16()) % len(keys)
        relation.last_key = number, place
        key = keys[place]
        out = struct.pack("<H", column) if column else b""
        if not variable:
            out += bytes(-len(out) % (len(key) if len(key) < 16 else 1)) + key
        elif len(key) < 127:
            out += bytes((len(key) + 1 << 1 | 1,)) + key
        else:
            out += bytes(-len(out) % 4) + (len(key) + 4 << 2).to_bytes(4, "little") + key
        out += bytes(-len(out) % 8)
        length = len(out) + 8
        need(length <= min(most, 0x1FFF), "an index tuple goes beyond its data")
        return struct.pack("<H", length | (0x4000 if variable else 0)) + out


# ---------------------------------------------------------------- chunks of pages (docs/format/pages.md)

CHECKSUM_BASES = (
    0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
    0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
    0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
    0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756)


def page_checksum(page, block):
    """PostgreSQL's checksum of a page, whose own field counts as 0."""
    page = bytes(page[:8]) + b"\0\0" + bytes(page[10:])
    words = _integers(page, 4)
    result = block
    for column, s in enumerate(CHECKSUM_BASES):
        for v in words[column::32]:
            s ^= v
            s = s * 16777619 & M32 ^ s >> 17
        for _ in range(2):
            s = s * 16777619 & M32 ^ s >> 17
        result ^= s
    return result % 65535 + 1


class Extents:
    """The extents of a chunk: (relation, first block, pages) or (None, 0, bytes)."""

    def __init__(self, header, streams):
        self.header, self.stream, self.relations = header, Stream(streams, EXTENTS), []
        self.streams = streams

    def __iter__(self):
        left = self.header.original
        while True:
            sort = self.stream.u8()
            if sort == 0:
                return
            need(sort < 3, "the unknown sort of an extent")
            relation, first = None, 0
            if sort == 1:
                number, first = self.stream.u32(), self.stream.u32()
                need(number <= len(self.relations), "the number of no relation of a chunk")
                if number == len(self.relations):
                    self.relations.append(Owner(self.streams, number))
                relation = self.relations[number]
            count = self.stream.u32()
            need(count, "an empty extent")
            left -= count * PAGE if relation else count
            need(left >= 0, "an extent goes beyond the original")
            yield relation, first, count


class ChunkModel(PageModel):
    def __init__(self, streams, entries=None):
        super().__init__(streams)
        self.entries = entries

    def decode(self, header):
        out = bytearray()
        for relation, first, count in Extents(header, self.streams):
            if relation is None:
                out += self.member.stream(FILE_BYTES).take(count)
                continue
            for n in range(count):
                out += self.whole_page(relation, first + n & M32)
        return bytes(out)

    def whole_page(self, relation, block):
        form = relation.stream(PAGE_FORM).u8()
        need(form < 8 and form != 4, "the unknown form of a page")
        sort, checked = form & 3, form & 4
        if sort == 0:
            return bytes(PAGE)
        hole = length = 0
        if sort < 3:
            hole, length = relation.stream(IMAGE_HOLE, "offset").u16(), relation.stream(IMAGE_HOLE, "length").u16()
            need(hole >= 24 and length and hole + length <= PAGE, "a hole that no page has")
        page = self.page(relation, block, hole, length)
        if sort == 2:
            self.stale(relation, page, hole, hole + length)
        if checked:
            struct.pack_into("<H", page, 8, page_checksum(page, block))
        return page

    @staticmethod
    def stale(relation, page, start, end):
        """Fills a hole."""
        at, last = start, 0
        while at < end:
            count = relation.stream(STALE_RUN, "literals").u16()
            need(count <= end - at, "stale bytes go beyond their hole")
            page[at : at + count] = relation.stream(STALE_BYTE).take(count)
            at += count
            if at == end:
                return
            length = relation.stream(STALE_RUN, "length").u16()
            distance = relation.stream(STALE_RUN, "distance").u16()
            need(0 < length <= end - at, "a copy of stale bytes that goes beyond its hole")
            need(distance < PAGE, "a copy of stale bytes from nowhere")
            if distance == 1:
                distance = last
            if distance:
                last = distance
                source = (at - distance) % PAGE
                need(source < at or (source >= end and source + length <= PAGE), "a copy of bytes that are not there")
                for n in range(length):
                    page[at + n] = page[source + n]
            at += length


def decode_chunk(header, streams, entries=None):
    return ChunkModel(streams, entries).decode(header)


# ---------------------------------------------------------------- tables (docs/format/model/table.md)

TYPES_OF_VALUES = ("varlena", "fixed1", "fixed2", "fixed4", "fixed8", "uuid", "fixed16", "name")
TYPE_LENGTHS = (None, 1, 2, 4, 8, 16, 16, 64)
TYPE_MULTIPLES = (None, 1, 2, 4, 8, 1, 8, 1)
ORDERS = {"signed": (1, 2, 3, 4), "unsigned": (1, 2, 3, 4), "float": (3, 4), "bytes": (0, 5, 6, 7), "numeric": (0,),
          "unknown": tuple(range(8))}


def tid_bytes(tid):
    block, pointer = tid
    return struct.pack("<HHH", block >> 16, block & 0xFFFF, pointer)


class KeyAttribute:
    __slots__ = ("number", "order", "descending", "nullable", "nulls_first")


class Table:
    """A line of the index about a table: where its pages are, and its shape."""

    def __init__(self, value, what):
        self.first, self.count = field(value, "first_chunk", int, what), field(value, "chunks", int, what)
        names = field(value, "attributes", list, what)
        need(len(names) <= ATTRIBUTES_MAX and all(n in TYPES_OF_VALUES for n in names), f"{what} has unknown attributes")
        self.types = [TYPES_OF_VALUES.index(n) for n in names]
        keys = field(value, "indexes", list, what)
        need(all(isinstance(k, list) and 1 <= len(k) <= KEY_ATTRIBUTES_MAX for k in keys), f"{what} has a key that is none")
        need(sum(map(len, keys)) <= ALL_KEY_ATTRIBUTES_MAX, f"{what} has too many keys")
        self.keys = [[self._attribute(a, what) for a in key] for key in keys]
        self.kept = sorted({a.number for key in self.keys for a in key})
        need(len(self.kept) <= KEPT_MAX, f"{what} has keys of too many attributes")
        need(all(len({a.number for a in key}) == len(key) for key in self.keys), f"{what} has an attribute twice in a key")

    def _attribute(self, value, what):
        need(isinstance(value, dict), f"{what} has a key that is none")
        a = KeyAttribute()
        a.number, a.order = field(value, "attribute", int, what), field(value, "order", str, what)
        need(a.number < len(self.types), f"{what} has a key of an attribute that is not there")
        need(self.types[a.number] in ORDERS.get(a.order, ()), f"{what} has an order that its attribute cannot have")
        for name in ("descending", "nullable", "nulls_first"):
            flag = value.get(name, False)
            need(isinstance(flag, bool), f"{what}: {name} is no truth value")
            setattr(a, name, flag)
        return a


class TableRows:
    """The kept values of each row, by its TID, in the order of the TIDs."""

    def __init__(self, table):
        self.table, self.rows, self.blocks, self.memory = table, {}, 0, 4

    def add(self, pages):
        bits = (len(self.table.kept) + 7) // 8
        for at in range(0, len(pages), PAGE):
            page = pages[at : at + PAGE]
            self.memory += 4
            for pointer, data in self.tuples(page):
                values = self.values(data)
                if values is not None:
                    self.rows[self.blocks, pointer] = values
                    self.memory += 44 + 2 * (bits + sum(len(v) for v in values if v is not None))
                    need(self.memory <= ROWS_MEMORY_MAX, "a table with too many rows")
            self.blocks += 1
        need(self.memory <= ROWS_MEMORY_MAX, "a table with too many rows")

    @staticmethod
    def tuples(page):
        """Line pointers that have a row, and its tuple."""
        lower, special = le16(page, 12), le16(page, 16)
        if special != PAGE or not 24 <= lower <= PAGE:
            return
        pointers = struct.unpack_from(f"<{(lower - 24) // 4}I", page, 24)
        for n, bits in enumerate(pointers):
            offset, state, length = bits & 0x7FFF, bits >> 15 & 3, bits >> 17
            if state == 2:
                if not 1 <= offset <= len(pointers) or pointers[offset - 1] >> 15 & 3 != 1:
                    continue
                other = pointers[offset - 1]
                offset, length = other & 0x7FFF, other >> 17
            elif state != 1:
                continue
            if offset + length > PAGE or length < 23:
                continue
            if state == 1 and page[offset + 19] & 0x80:
                continue
            yield n + 1, page[offset : offset + length]

    def values(self, data):
        """The kept values of a tuple, null as None. None if it is no row."""
        has = min((data[18] | data[19] << 8) & 0x7FF, len(self.table.types))
        nulls = data[20] & 1
        start, end = data[22], len(data)
        if start > end:
            return None
        kept, at = {}, 0
        for number in range(has):
            if nulls:
                byte = 23 + number // 8
                if byte >= end:
                    return None
                if not data[byte] >> number % 8 & 1:
                    continue
            sort = self.table.types[number]
            if sort:
                length, multiple = TYPE_LENGTHS[sort], TYPE_MULTIPLES[sort]
                at += -at % multiple
            else:
                if start + at >= end:
                    return None
                if not data[start + at] & 1:
                    at += -at % 4
                length = self.varlena_length(data[start + at : start + at + 4])
                if length is None:
                    return None
            if number in self.table.kept:
                if start + at + length > end:
                    return None
                kept[number] = data[start + at : start + at + length]
            at += length
        return tuple(kept.get(number) for number in self.table.kept)

    @staticmethod
    def varlena_length(head):
        if not head:
            return None
        if head[0] == 1:
            return 18 if len(head) > 1 and head[1] == 18 else None
        if head[0] & 1:
            return head[0] >> 1
        length = le32(head, 0) >> 2 if len(head) == 4 else 0
        return length if length >= 4 else None


class Entries:
    """The index tuples that an index has for the rows of its table."""

    def __init__(self, rows, key):
        self.rows, self.key = rows, key
        table = rows.table
        self.slots = [table.kept.index(a.number) for a in key]
        self.types = [table.types[a.number] for a in key]
        needed = [slot for slot, a in zip(self.slots, key) if not a.nullable]
        made, total = [], 0
        for tid, values in rows.rows.items():
            if any(values[slot] is None for slot in needed):
                continue
            data = self.make(tid, values)
            if data is not None:
                made.append((self.sort_key(values), tid, data))
                total += len(data)
                need(total <= TUPLES_LEN_MAX, "an index with too many entries")
        made.sort()
        self.entries = [(tid, data) for _, tid, data in made]

    def at(self, number):
        need(number < len(self.entries), "an entry that the index does not have")
        return self.entries[number]

    def of_tid(self, tid):
        values = self.rows.rows.get(tid)
        need(values is not None, "an entry of a row that is not there")
        data = self.make(tid, values)
        need(data is not None, "an index tuple that is too long")
        return data

    def make(self, tid, values):
        own = [values[slot] for slot in self.slots]
        flags, out = 0, bytearray(8)
        if None in own:
            flags |= 0x8000
            bits = sum(1 << n for n, value in enumerate(own) if value is not None)
            out += bits.to_bytes(4, "little") + bytes(4)
        for sort, value in zip(self.types, own):
            if value is None:
                continue
            if sort:
                multiple = TYPE_MULTIPLES[sort]
            else:
                flags |= 0x4000
                multiple = 1 if value[0] & 1 else 4
            out += bytes(-len(out) % multiple) + value
        out += bytes(-len(out) % 8)
        if len(out) > 0x1FFF:
            return None
        out[:6] = tid_bytes(tid)
        struct.pack_into("<H", out, 6, flags | len(out))
        return bytes(out)

    def sort_key(self, values):
        """Bytes that are compared; those behind the last one are zeros."""
        out = b""
        for a, slot, sort in zip(self.key, self.slots, self.types):
            if a.order == "unknown":
                continue
            value = values[slot]
            if value is None:
                out += b"\0" if a.nulls_first else b"\2"
                continue
            if a.nullable:
                out += b"\1"
            part = self.ordered(a.order, sort, value)
            out += bytes(b ^ 255 for b in part) if a.descending else part
            if len(out) >= SORT_KEY_LEN_MAX:
                break
        return out[:SORT_KEY_LEN_MAX].ljust(SORT_KEY_LEN_MAX, b"\0")

    @staticmethod
    def ordered(order, sort, value):
        content = value if sort else value[1 if value[0] & 1 else 4 :]
        if order == "bytes":
            return content if sort else content + b"\0"
        if order == "numeric":
            return numeric_order(content)
        number, length = int.from_bytes(value, "little"), len(value)
        top = 1 << 8 * length - 1
        if order == "float" and number & top:
            number ^= 2 * top - 1
        elif order != "unsigned":
            number ^= top
        return number.to_bytes(length, "big")


def numeric_order(content):
    """The bytes of a numeric, by whose order it is ordered."""
    header = le16(content[:2].ljust(2, b"\0"), 0)
    if header & 0xC000 == 0xC000:
        return bytes([{0xF: 0, 0xD: 4}.get(header >> 12, 5)])
    if header & 0x8000:
        negative, weight, digits = header & 0x2000, header & 0x7F, content[2:]
        weight -= 128 if weight & 64 else 0
    else:
        negative, digits = header & 0x4000, content[4:]
        weight = le16(content, 2) if len(content) >= 4 else 0
    if not digits:
        return b"\2"
    out = [weight + 0x8000]
    out += [le16(digits, n) + 1 for n in range(0, len(digits) - 1, 2)]
    out = b"".join((word & 0xFFFF).to_bytes(2, "big") for word in out + [0])
    return b"\1" + bytes(b ^ 255 for b in out) if negative else b"\3" + out


# ---------------------------------------------------------------- differences (docs/format/differences.md)


def decode_differences(header, streams, base):
    need(len(base) == header.original, "the bytes that a chunk is told from have another length")
    need(blake3(base) == header.base_hash, "the bytes that a chunk is told from have another hash")
    out, others = bytearray(), Owner(streams)
    for relation, first, count in Extents(header, streams):
        if relation is None:
            need(count % PAGE == 0, "changed blocks that are no whole blocks")
        for n in range(count if relation else count // PAGE):
            old = base[len(out) : len(out) + PAGE]
            if relation is None:
                page = bytearray()
                copy_blocks(others, page, old)
            else:
                page = difference_page(relation, old, first + n & M32)
            out += page
    return bytes(out)


def difference_page(relation, old, block):
    form = relation.stream(DIFFERENCE_FORM).u8()
    need(form < 3, "the unknown form of a changed page")
    checksum = relation.stream(DIFFERENCE_FIELD, "checksum").u16() if form == 2 else 0
    high_or_low = [relation.stream(DIFFERENCE_FIELD, ("lsn", n)).u32() for n in range(2)]
    fields = []
    for n, at in enumerate((10, 12, 14, 16, 18)):
        fields.append(relation.stream(DIFFERENCE_FIELD, n).u16() + le16(old, at) & 0xFFFF)
    prune = relation.stream(DIFFERENCE_FIELD, "prune").u32()
    page = bytearray(struct.pack("<IIHHHHHHI", *high_or_low, checksum, *fields, prune))
    copy_blocks(relation, page, old)
    if form == 1:
        struct.pack_into("<H", page, 8, page_checksum(page, block))
    return page


def copy_blocks(owner, page, old):
    """Makes the rest of a block of literals and copies."""
    last_source, last_distance = 0, 0
    runs = [owner.stream(DIFFERENCE_RUN, n) for n in range(3)]
    while len(page) < PAGE:
        literals = runs[0].u16()
        left = PAGE - len(page)
        need(literals <= left, "literals go beyond their block")
        if literals == left:
            page += owner.stream(DIFFERENCE_BYTE).take(literals)
            return
        length, source = runs[1].u16(), runs[2].u16()
        if source == 2:
            source = last_distance + 2 if last_distance else 0
        replaced = source == last_source
        if literals:
            page += owner.stream(DIFFERENCE_REPLACED if replaced else DIFFERENCE_BYTE).take(literals)
        at = len(page)
        need(0 < length <= PAGE - at, "a copy goes beyond its block")
        last_source = source
        if source == 1:
            page += bytes(length)
        elif source <= 8193:
            distance = source - 2 if source else 0
            if distance:
                last_distance = distance
            begin = (at + distance) % PAGE
            need(begin + length <= PAGE, "a copy goes beyond the block that it is told from")
            page += old[begin : begin + length]
        else:
            distance = source - 8194
            need(8195 <= source <= 16385 and distance <= at, "a copy from nowhere")
            for n in range(length):
                page.append(page[at - distance + n])


# ---------------------------------------------------------------- the repository (docs/format/repository.md)

MAX_WAL_OBJECT_BYTES = (1 << 30) + (1 << 20)
MAX_SMALL_JSON_BYTES = 65536
MAX_BACKUP_JSON_BYTES = 268435456
MAX_OBJECT_BYTES = 167772160000
LABEL = re.compile(r"[0-9]{8}-[0-9]{6}[FDI]\Z")
OBJECT_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")
SEGMENT_NAME = re.compile(r"[0-9A-F]{24}(\.|\Z)")
TYPES = {"F": "full", "D": "diff", "I": "incr"}


def parse_json(data, what, text=False):
    try:
        value = json.loads(data if text else data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is no JSON: {error}") from None
    need(isinstance(value, dict), f"{what} is no JSON object")
    return value


def field(value, name, sort, what):
    found = value.get(name)
    need(isinstance(found, sort) and not (sort is int and (isinstance(found, bool) or found < 0)),
         f"{what}: the field {name} is missing or wrong")
    return found


class Repository:
    """The objects below a directory."""

    def __init__(self, directory):
        self.directory = directory
        need(os.path.isdir(directory), f"{directory} is no directory")
        self.clusters = self._clusters()

    def path(self, key):
        """The path of an object; links on the way are errors."""
        path = self.directory
        for part in key.split("/"):
            path = os.path.join(path, part)
            need(not os.path.islink(path), f"{path} is a symbolic link")
        return path

    def open(self, key):
        path = self.path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            raise Damaged(f"{key} is not in the repository") from None
        opened = os.fdopen(descriptor, "rb")
        if not os.path.isfile(path):
            opened.close()
            raise Damaged(f"{key} is no regular file")
        return opened

    def read(self, key, most):
        with self.open(key) as opened:
            data = opened.read(most + 1)
        need(len(data) <= most, f"{key} is longer than it may be")
        return data

    def names(self, key):
        path = self.path(key)
        if not os.path.isdir(path):
            return []
        return sorted(n for n in os.listdir(path) if not n.startswith("."))

    def _record(self, key):
        record = parse_json(self.read(key, MAX_SMALL_JSON_BYTES), key)
        version = field(record, "format", int, key)
        need(version == 1, f"{key} has the format {version}, which this decoder does not know")
        system, major = field(record, "system_identifier", str, key), field(record, "major", int, key)
        need(system.isdigit() and str(int(system)) == system and int(system) <= M64, f"{key}: no system identifier")
        return f"{major}-{system}"

    def _clusters(self):
        clusters = [self._record("repository.json")]
        numbers = [n[:-5] for n in self.names("cluster") if re.fullmatch(r"[1-9][0-9]*\.json", n)]
        for n in range(2, 2 + len(numbers)):
            need(str(n) in numbers, f"cluster/{n}.json is missing")
            clusters.append(self._record(f"cluster/{n}.json"))
        need(len(set(clusters)) == len(clusters), "two records have the same cluster")
        return clusters

    def wal_names(self, cluster):
        for name in self.names(f"wal/{cluster}"):
            key = f"wal/{cluster}/{name}"
            if os.path.isdir(self.path(key)):
                for inner in self.names(key):
                    if inner.endswith(".wz") and NAME.match(inner[:-3]) and SEGMENT_NAME.match(inner[:-3]):
                        if inner.startswith(name) and len(name) == 16:
                            yield inner[:-3]
            elif name.endswith(".wz") and NAME.match(name[:-3]) and not SEGMENT_NAME.match(name[:-3]):
                yield name[:-3]

    def labels(self):
        return [n for n in self.names("backup")
                if LABEL.match(n) and os.path.isfile(self.path(f"backup/{n}/backup.json"))]

    def wal(self, name, cluster):
        need(NAME.match(name), f"{name} is no name of a WAL file")
        directory = f"{name[:16]}/" if SEGMENT_NAME.match(name) else ""
        found = [c for c in self.clusters if not cluster or c == cluster]
        need(found, f"the repository has no cluster {cluster}")
        found = [f"wal/{c}/{directory}{name}.wz" for c in found]
        found = [k for k in found if os.path.lexists(self.path(k))]
        need(found, f"{name} is not in the repository")
        need(len(found) == 1, f"several clusters have {name}; say --cluster: " + ", ".join(k.split("/")[1] for k in found))
        try:
            data, own = decode_file(self.read(found[0], MAX_WAL_OBJECT_BYTES))
            need(own in ("", name), f"the object is {own}: it is in the wrong place")
        except Damaged as error:
            raise Damaged(f"{found[0]}: {error}") from None
        return data


# ---------------------------------------------------------------- backups (docs/format/backup.md)


class ZstdStream:
    """Decompresses one frame that is fed in pieces."""

    def __init__(self):
        if _ZSTANDARD:
            self.object = _ZSTANDARD.ZstdDecompressor(max_window_size=1 << WINDOW_LOG_MAX).decompressobj()
        else:
            need(_ZSTD_API, "no module for zstd: install `zstandard` or `backports.zstd`")
            self.object = _ZSTD_API[0].ZstdDecompressor()

    def feed(self, data):
        need(not self.object.eof, "bytes after the end of a compressed stream")
        try:
            out = self.object.decompress(data)
        except Exception as error:
            raise Damaged(f"zstd: {error}") from None
        need(not self.object.unused_data, "bytes after the end of a compressed stream")
        return out

    def finish(self):
        need(self.object.eof, "a compressed stream is cut off")


def hexadecimal(value, length, what):
    need(isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{2 * length}}}", value), f"{what} is no hash")
    return bytes.fromhex(value)


class Chunk:
    __slots__ = ("pack", "offset", "size", "length", "hash", "original_hash", "start", "base", "index")


class Entry:
    """A directory or a file of the index."""

    __slots__ = ("path", "mode", "size", "ranges", "number")


def safe_path(path):
    parts = path.split(b"/")
    need(path and b"\0" not in path and not any(p in (b"", b".", b"..") for p in parts),
         f"{path!r} leads out of its directory")
    return path


def description_is_as_written(text):
    """Whether a backup.json matches the hash with which it ends, if it ends with one."""
    before, key, after = text.rpartition(b',\n  "blake3": "')
    return not key or after == blake3(before).hex().encode() + b'"\n}\n'


class Backup:
    """A backup as its backup.json describes it."""

    CACHED = 48

    def __init__(self, repository, label, needed_by=None):
        self.repository, self.label = repository, label
        self.prefix = f"backup/{label}/"
        self.what = what = self.prefix + "backup.json"
        need(LABEL.match(label), f"{label} is no label of a backup")
        need(label in repository.labels(), f"the backup {label} is not in the repository"
             + (f", and {needed_by} needs it" if needed_by else ""))
        text = repository.read(what, MAX_BACKUP_JSON_BYTES)
        need(description_is_as_written(text), f"{what} does not match its hash")
        self.json = d = parse_json(text, what)
        self.format = field(d, "format", int, what)
        need(1 <= self.format <= 5, f"{what} has the format {self.format}, which this decoder does not know")
        need(field(d, "label", str, what) == label, f"{what} is of another backup")
        self.cluster = f"{field(d, 'major', int, what)}-{field(d, 'system_identifier', str, what)}"
        need(self.cluster in repository.clusters, f"{what} is of a cluster that the repository does not have")
        self.type = d.get("type", "full")
        need(("type" in d) == (self.format >= 3), f"{what} has a type, or has none, against its format")
        need(("block_hashes" in d) == (self.format >= 3), f"{what} has block hashes, or has none, against its format")
        need(("files" in d) == (self.format > 1), f"{what} has files, or has none, against its format")
        attempts = field(d, "attempts", int, what) if "attempts" in d else 1
        need(attempts > 1 or "attempts" not in d, f"{what} has too few attempts")
        need(self.format == 5 or (attempts > 1) == (self.format == 4), f"{what} has attempts, or has none, against its format")
        need(self.type == TYPES[label[-1]], f"the type of {what} is not that of its label")
        self.references = d.get("references", [])
        if self.type == "full":
            need("prior" not in d and "references" not in d, f"{what} is full, and refers to others")
        else:
            field(d, "prior", str, what)
            names = field(d, "references", list, what)
            need(names and label not in names and len(set(names)) == len(names) <= 4096,
                 f"{what} refers to backups as none does")
        self.tablespaces = [field(t, "oid", int, what) for t in field(d, "tablespaces", list, what)]
        self.new_tablespaces = [field(t, "oid", int, what) for t in d.get("new_tablespaces", [])]
        self.chunks, self.tables, self.entries, self.others = [], [], [], []
        self.rows_of_table = self.entries_of_index = (None, None)
        self.pack_ends = {}
        self.cache = OrderedDict()
        if self.format > 1:
            self.files = field(d, "files", dict, what)
            self.packs = [self._object(p) for p in field(self.files, "packs", list, what)]

    def _object(self, value):
        need(isinstance(value, dict), f"{self.what}: no description of an object")
        name, size = field(value, "name", str, self.what), field(value, "size_bytes", int, self.what)
        need(len(name) <= 200 and all(OBJECT_PART.match(p) for p in name.split("/")),
             f"{self.what}: {name} is no name of an object")
        return self.prefix + name, size, hexadecimal(value.get("blake3"), 32, f"{self.what}: {name}")

    def stored_objects(self, objects):
        """The bytes of each object, whose hashes are right."""
        for value in objects:
            key, size, digest = self._object(value)
            need(size <= MAX_OBJECT_BYTES, f"{key} is too long")
            data = self.repository.read(key, size)
            need(len(data) == size and blake3(data) == digest, f"{key} is damaged: its size or its hash differs")
            yield data

    def stored_stream(self, value, most=None):
        """The pieces of a stored stream, decompressed."""
        need(isinstance(value, dict), f"{self.what}: no description of a stream")
        length = field(value, "original_bytes", int, self.what)
        stream, total, stored = ZstdStream(), 0, 0
        need(most is None or length <= most, f"{self.what}: a stream is too long")
        for data in self.stored_objects(field(value, "objects", list, self.what)):
            stored += len(data)
            for at in range(0, len(data), 4096):
                part = stream.feed(data[at : at + 4096])
                total += len(part)
                need(total <= length, f"{self.what}: a stream has more bytes than its description says")
                need(most is None or total <= 200 * field_sum(value) + (1 << 20), f"{self.what}: a stream expands too far")
                yield part
        stream.finish()
        need(total == length, f"{self.what}: a stream has fewer bytes than its description says")

    # The index.

    def load(self):
        """Reads the index, and the backups that it refers to."""
        for n, label in enumerate(self.references):
            other = Backup(self.repository, label, self.label)
            need(other.cluster == self.cluster, f"{label} is of another cluster, and {self.label} needs it")
            need((other.type == "full") == (n == 0), f"{label} has not the type with which {self.label} refers to it")
            need(other.format > 1, f"{label} has no stream, and {self.label} refers to it")
            need(not other.references or other.references[0] == self.references[0],
                 f"{label} refers to another full backup than {self.label}")
            other.load_chunks(self.others[:1])
            self.others.append(other)
        self._load(True)

    def load_chunks(self, others):
        self.others = others
        self._load(False)

    def _load(self, files):
        value = field(self.files, "index", dict, self.what)
        rest, self.position, self.ended = b"", [0, 0], False
        self.expected, self.piece_count = [], 0
        self.own = self.changed = None
        self.shared, self.first_at, self.open_file, self.file_bytes = [], {}, None, 0
        for part in self.stored_stream(value, 4 << 30):
            lines = (rest + part).split(b"\n")
            rest = lines.pop()
            for line in lines:
                need(len(line) < 16384, f"{self.label}: a line of the index is too long")
                self._line(line, files)
            need(len(rest) < 16384, f"{self.label}: a line of the index is too long")
        need(not rest, f"{self.label}: the index ends within a line")
        self._chunks_end()
        if files:
            need(self.open_file is None, f"{self.label}: a file has not all its pieces")
            need(self.position == [self.own, self.changed], f"{self.label}: chunks have not as many bytes as files")
            need(self.file_bytes == field(self.files, "original_bytes", int, self.what),
                 f"{self.label}: files have not as many bytes as {self.what} says")

    def _line(self, line, files):
        value = parse_json(line, f"{self.label}: a line of the index")
        need(len(value) == 1, f"{self.label}: a line of the index has not one field")
        name, inner = next(iter(value.items()))
        if name == "chunk":
            need(not self.tables and self.own is None and isinstance(inner, dict), f"{self.label}: a chunk behind a file")
            self._chunk(inner)
            return
        if name == "table":
            need(self.own is None and isinstance(inner, dict), f"{self.label}: a table behind a file")
            self.tables.append(Table(inner, f"{self.label}: a table of the index"))
            return
        self._chunks_end()
        if not files:
            return
        if name == "pieces" and isinstance(inner, list):
            self._pieces(inner)
            return
        need(self.open_file is None, f"{self.label}: a file has not all its pieces")
        need(name in ("directory", "file") and isinstance(inner, dict), f"{self.label}: no line of an index")
        entry = self._entry(inner)
        entry.number = len(self.entries)
        if name == "file":
            self._file(inner, entry)
        self.entries.append(entry)

    def _chunk(self, value):
        what = f"{self.label}: a chunk of the index"
        c = Chunk()
        c.pack, c.offset = field(value, "pack", int, what), field(value, "offset", int, what)
        c.size, c.length = field(value, "size_bytes", int, what), field(value, "original_bytes", int, what)
        c.hash = hexadecimal(value.get("blake3"), 32, what)
        c.original_hash = hexadecimal(value.get("original_blake3"), 32, what)
        need(c.pack < len(self.packs), f"{what} is in a pack that is not there")
        need(0 < c.length <= 16 << 20 and 0 < c.size <= 17 << 20, f"{what} has an impossible size")
        c.base = value.get("base")
        before = self.chunks[-1] if self.chunks else None
        if c.base is None:
            need(not before or before.base is None, f"{what} stands behind changed blocks")
        else:
            need(self.references, f"{what} is told from another backup, and there is none")
            need(isinstance(c.base, list) and all(
                isinstance(r, list) and len(r) == 2 and all(isinstance(x, int) for x in r) and r[0] >= 0 and r[1] > 0
                for r in c.base), f"{what} has a base that is none")
            need(not c.base or sum(r[1] for r in c.base) == c.length, f"{what} has a base of another length")
        c.index = value.get("index")
        if c.index is not None:
            need(c.base is None and isinstance(c.index, list) and len(c.index) == 2 and all(
                isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in c.index), f"{what} is of no index")
        end = self.pack_ends.get((c.pack, c.base is None), 0)
        need(end <= c.offset, f"{what} does not lie behind the last in its pack")
        self.pack_ends[c.pack, c.base is None] = c.offset + c.size
        need(c.offset >= 16, f"{what} lies in the header of its pack")
        c.start = before.start + before.length if before else 0
        self.chunks.append(c)

    def _chunks_end(self):
        if self.own is None:
            self.own = sum(c.length for c in self.chunks if c.base is None)
            self.changed = sum(c.length for c in self.chunks) - self.own
            self.starts = [c.start for c in self.chunks]
            self._check_tables()

    def _check_tables(self):
        end, what = 0, f"{self.label}: a table of the index"
        for table in self.tables:
            need(end <= table.first and 0 < table.count <= len(self.chunks) - table.first, f"{what} is not where it says")
            end = table.first + table.count
            for c in self.chunks[table.first : end]:
                need(c.base is None and c.index is None and c.length % PAGE == 0, f"{what} has chunks that are none of it")
        last, before = -1, [0, 0]
        for number, c in enumerate(self.chunks):
            while last + 1 < len(self.tables) and self.tables[last + 1].first <= number:
                last += 1
            if c.index is not None:
                need(c.index[0] == last, f"{self.label}: a chunk is not behind the table that it is told from")
                need(before <= c.index, f"{self.label}: a chunk is of an index that came before")
                table, before = self.tables[last], c.index
                need(number >= table.first + table.count and c.index[1] < len(table.keys),
                     f"{self.label}: a chunk is told from an index that is none")

    def _entry(self, value):
        what = f"{self.label}: an entry of the index"
        entry = Entry()
        if "encoded_path" in value:
            need(re.fullmatch("([0-9a-f]{2})*", field(value, "encoded_path", str, what)), f"{what} has no path")
            path = bytes.fromhex(value["encoded_path"])
        else:
            path = field(value, "path", str, what).encode("utf-8", "surrogatepass")
        entry.path = safe_path(path)
        if "tablespace_oid" in value:
            oid = field(value, "tablespace_oid", int, what)
            need(oid in self.tablespaces, f"{what} lies in a tablespace that the backup does not have")
            entry.path = b"pg_tblspc/%d/" % oid + path
        entry.mode, entry.size, entry.ranges = field(value, "mode", int, what) & 0o7777, None, None
        return entry

    def _file(self, value, entry):
        what = f"{self.label}: {os.fsdecode(entry.path)}"
        size = entry.size = field(value, "size_bytes", int, what)
        offset = value.get("offset")
        if value.get("in_pieces"):
            need(size and offset is None, f"{what} is in pieces, and is empty or shared")
            entry.ranges, self.open_file, self.open_left = [], entry, size
        elif offset is not None:
            need(0 < size <= 1 << 20 and self.first_at.get(offset) == size, f"{what} shares bytes of no other file")
            entry.ranges = [(0, offset, size)]
        else:
            at = self.position[0]
            entry.ranges = [(0, at, size)] if size else []
            self.first_at[at] = size
            self.position[0] += size
            need(self.position[0] <= self.own, f"{what} has more bytes than there are")
        self.file_bytes += size

    def _pieces(self, pieces):
        what = f"{self.label}: pieces of a file"
        need(self.open_file is not None, f"{what} without one")
        for piece in pieces:
            need(isinstance(piece, list) and 1 <= len(piece) <= 3 and all(
                isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in piece), f"{what} are none")
            length, stream = piece[0], piece[1] if len(piece) > 1 else 0
            need(0 < length <= self.open_left, f"{what} have not as many bytes as it")
            self.piece_count += 1
            need(self.piece_count <= 1 << 26, f"{what}: too many")
            if stream < 2:
                need(len(piece) < 3, f"{what} say where they begin in their own stream")
                at = self.position[stream] + (self.own if stream else 0)
                self.position[stream] += length
                need(self.position[stream] <= (self.changed if stream else self.own), f"{what} have more bytes than there are")
                which = 0
            else:
                need(stream - 2 < len(self.others), f"{what} are of a stream that is not there")
                which = stream - 1
                # A stream is stepped from the first piece of it, or of one with a higher number, on.
                self.expected += [0] * (which - len(self.expected))
                at = piece[2] if len(piece) > 2 else self.expected[which - 1]
                self.expected[which - 1] = at
                other = self.others[stream - 2]
                need(at + length <= other.own + other.changed, f"{what} are bytes that {other.label} does not have")
            self.expected = [at + length for at in self.expected]
            self.open_file.ranges.append((which, at, length))
            self.open_left -= length
        if not self.open_left:
            self.open_file = None

    # The stream of files.

    def chunk(self, number):
        found = self.cache.get(number)
        if found is not None:
            self.cache.move_to_end(number)
            return found
        c = self.chunks[number]
        key = self.packs[c.pack][0]
        what = f"{key}: the chunk at {c.offset}"
        with self.repository.open(key) as pack:
            header = pack.read(16)
            need(header == b"WZPK\x01\x01" + bytes(10), f"{key} is damaged: no header of a pack, or one of a later version")
            pack.seek(c.offset)
            data = pack.read(c.size)
        need(len(data) == c.size, f"{key} is cut off")
        need(blake3(data) == c.hash, f"{what} is damaged: its hash differs")
        base = None
        if c.base:
            base = b"".join(b"".join(self.others[0].read(at, length)) for at, length in c.base)
        try:
            entries = None if c.index is None else self._entries(*c.index)
            original, _ = decode_file(data, base, entries)
        except Damaged as error:
            raise Damaged(f"{what}: {error}") from None
        need(len(original) == c.length and blake3(original) == c.original_hash, f"{what} has other bytes than it should")
        self.cache[number] = original
        if len(self.cache) > self.CACHED:
            self.cache.popitem(last=False)
        return original

    def _entries(self, number, index):
        """The entries of an index, of which the last ones are kept."""
        if self.entries_of_index[0] != (number, index):
            if self.rows_of_table[0] != number:
                self.rows_of_table = self.entries_of_index = (None, None)
                table = self.tables[number]
                rows = TableRows(table)
                for chunk in range(table.first, table.first + table.count):
                    rows.add(self.chunk(chunk))
                self.rows_of_table = number, rows
            rows = self.rows_of_table[1]
            self.entries_of_index = (None, None)
            self.entries_of_index = (number, index), Entries(rows, rows.table.keys[index])
        return self.entries_of_index[1]

    def read(self, at, length):
        """The bytes of this backup's own stream, in pieces."""
        need(at + length <= self.own + self.changed, f"bytes that the stream of {self.label} does not have")
        number = bisect.bisect_right(self.starts, at) - 1
        while length:
            c = self.chunks[number]
            begin = at - c.start
            part = self.chunk(number)[begin : begin + length]
            yield part
            at, length, number = at + len(part), length - len(part), number + 1

    def content(self, entry):
        for which, at, length in entry.ranges:
            yield from (self if which == 0 else self.others[which - 1]).read(at, length)

    # Getting the files.

    def manifest(self):
        data = b"".join(self.stored_stream(field(self.json, "manifest", dict, self.what), 4 << 30))
        return data, Manifest(data, self.label)

    def get(self, out):
        data, manifest = self.manifest()
        if self.format == 1:
            self._get_archives(out, manifest)
        else:
            self.load()
            for entry in self.entries:
                if entry.size is None:
                    make_directory(out, entry.path)
                else:
                    manifest.write(out, entry.path, entry.size, entry.mode, self.content(entry))
            for entry in reversed(self.entries):
                if entry.size is None:
                    os.chmod(os.path.join(out, entry.path), entry.mode)
        manifest.finish()
        for oid in self.tablespaces:
            make_directory(out, b"pg_tblspc/%d" % oid)
        with open(os.path.join(out, b"backup_manifest"), "wb") as f:
            f.write(data)
        os.chmod(os.path.join(out, b"backup_manifest"), 0o600)

    def _get_archives(self, out, manifest):
        known = set(self.tablespaces) | set(self.new_tablespaces)
        for archive in field(self.json, "archives", list, self.what):
            oid = archive.get("tablespace_oid")
            prefix = b"" if oid is None else b"pg_tblspc/%d/" % oid
            need(oid is None or oid in self.tablespaces, f"{self.what}: an archive of no tablespace")
            pipe = Pipe(self.stored_stream(archive))
            try:
                with tarfile.open(fileobj=pipe, mode="r|") as tar:
                    for member in tar:
                        self._get_member(out, manifest, prefix, tar, member, known)
            except tarfile.TarError as error:
                raise Damaged(f"{self.label}: an archive is damaged: {error}") from None
            while pipe.read(1 << 20):
                pass

    def _get_member(self, out, manifest, prefix, tar, member, known):
        path = os.fsencode(member.name)
        while path.startswith(b"./"):
            path = path[2:]
        if path in (b"", b".") and member.isdir():
            return
        path = prefix + safe_path(path.rstrip(b"/"))
        if member.isdir():
            make_directory(out, path)
            os.chmod(os.path.join(out, path), member.mode & 0o7777 | 0o700)
        elif member.issym() or member.islnk():
            need(re.fullmatch(rb"pg_tblspc/[0-9]+", path) and int(path[10:]) in known,
                 f"{self.label}: an archive has a link that no tablespace has")
        else:
            need(member.isreg(), f"{self.label}: an archive has an entry that is no file and no directory")
            content = tar.extractfile(member)
            manifest.write(out, path, member.size, member.mode & 0o7777, iter(lambda: content.read(1 << 20), b""))


def field_sum(value):
    return sum(o["size_bytes"] for o in value["objects"])


class Pipe(io.RawIOBase):
    """Pieces of bytes as a file that can be read once."""

    def __init__(self, parts):
        self.parts, self.held = parts, b""

    def readable(self):
        return True

    def read(self, size=-1):
        while size < 0 or len(self.held) < size:
            part = next(self.parts, None)
            if part is None:
                break
            self.held += part
        size = len(self.held) if size < 0 else size
        out, self.held = self.held[:size], self.held[size:]
        return out


def make_directory(out, path):
    os.makedirs(os.path.join(out, path), mode=0o700, exist_ok=True)


class Manifest:
    """PostgreSQL's backup_manifest, against which files are written."""

    def __init__(self, data, label):
        self.label, self.files, self.written = label, {}, set()
        value = parse_json(data, f"the manifest of {label}")
        end = data.rfind(b'"Manifest-Checksum"')
        digest = hashlib.sha256(data[:end]).hexdigest()
        need(end > 0 and value.get("Manifest-Checksum") == digest, f"the manifest of {label} is damaged: its checksum differs")
        for f in field(value, "Files", list, f"the manifest of {label}"):
            if "Path" in f:
                path = f["Path"].encode("utf-8")
            else:
                path = bytes.fromhex(f["Encoded-Path"])
            self.files[path] = f

    def write(self, out, path, size, mode, parts):
        what = f"{self.label}: {os.fsdecode(path)}"
        listed = self.files.get(path)
        need(listed is not None, f"{what} is not in the manifest")
        need(path not in self.written, f"{what} is there twice")
        self.written.add(path)
        need(listed["Size"] == size, f"{what} has another size than the manifest says")
        algorithm = listed.get("Checksum-Algorithm", "NONE")
        known = {"CRC32C": None, "NONE": None}
        need(algorithm in known or algorithm in ("SHA224", "SHA256", "SHA384", "SHA512"), f"{what}: unknown checksum")
        digest = None if algorithm in known else hashlib.new(algorithm.lower())
        crc, total = 0, 0
        make_directory(out, os.path.dirname(path))
        full = os.path.join(out, path)
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as f:
            for part in parts:
                f.write(part)
                total += len(part)
                if digest:
                    digest.update(part)
                elif algorithm == "CRC32C":
                    crc = crc32c(part, crc)
        need(total == size, f"{what} has another size than the index says")
        os.chmod(full, mode)
        # The manifest has the bytes of a CRC from the lowest on.
        found = digest.hexdigest() if digest else crc.to_bytes(4, "little").hex()
        need(algorithm == "NONE" or found == listed.get("Checksum"), f"{what} is not what the manifest says")

    def finish(self):
        missing = sorted(set(self.files) - self.written)
        need(not missing, f"{self.label}: {len(missing)} files of the manifest are missing, "
             f"such as {os.fsdecode(missing[0]) if missing else ''}")


# ---------------------------------------------------------------- the command line


def write_whole(path, data):
    """Writes a file that has its name only when it is complete."""
    need(not os.path.lexists(path), f"{path} exists already")
    temporary = f"{path}.incomplete-{os.getpid()}"
    try:
        with open(temporary, "xb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.link(temporary, path)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def command_file(path, out, base):
    if out is None:
        need(path.endswith(".wz"), "say with -o where the output goes")
        out = path[:-3]
    with open(path, "rb") as f:
        data = f.read()
    if base is not None:
        with open(base, "rb") as f:
            base = f.read()
    try:
        original, name = decode_file(data, base)
    except Damaged as error:
        raise Damaged(f"{path}: {error}") from None
    write_whole(out, original)
    print(f"{out}: {len(original)} bytes" + (f", archived as {name}" if name else ""))


def command_list(repository):
    for cluster in repository.clusters:
        print(f"cluster {cluster}")
        for name in repository.wal_names(cluster):
            print(f"  wal {name}")
        for label in repository.labels():
            backup = Backup(repository, label)
            if backup.cluster == cluster:
                needs = f", needs {' '.join(backup.references)}" if backup.references else ""
                print(f"  backup {label} {backup.type}, format {backup.format}{needs}")


def command_backup(repository, label, out):
    need(not os.path.lexists(out), f"{out} exists already")
    backup = Backup(repository, label)
    temporary = f"{out.rstrip('/')}.incomplete-{os.getpid()}"
    os.mkdir(temporary, 0o700)
    done = False
    try:
        backup.get(os.fsencode(temporary))
        need(not os.path.lexists(out), f"{out} exists already")
        os.rename(temporary, out)
        done = True
    finally:
        if not done:
            shutil.rmtree(temporary, ignore_errors=True)
    wal = backup.json.get("required_wal") or []
    print(f"{out}: the backup {label} of cluster {backup.cluster}")
    for r in wal:
        print(f"to become consistent it needs the WAL from {r['first_segment']} to {r['last_segment']}")
    for t in backup.json["tablespaces"]:
        print(f"pg_tblspc/{t['oid']} was a link to {t['location']}: move it, put a link in its place, "
              "and remove tablespace_map if there is one")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A second decoder of walzip's formats.")
    parser.add_argument("what", nargs="+", help="FILE.wz; with --repo: list, wal NAME or backup LABEL")
    parser.add_argument("--repo", metavar="DIR", help="the repository")
    parser.add_argument("--cluster", metavar="CLUSTER", help="the cluster of a WAL file, as `list` shows it")
    parser.add_argument("--base", metavar="FILE", help="what a file of differences is told from")
    parser.add_argument("-o", metavar="OUT", help="the file or the directory that is made")
    args = parser.parse_args(arguments)
    what = args.what
    sort = (what[0] if args.repo else "file", len(what))
    if sort not in (("file", 1), ("list", 1), ("wal", 2), ("backup", 2)) or (sort[1] == 2 and not args.o):
        parser.error("FILE.wz [-o OUT], or --repo DIR and list, wal NAME -o OUT or backup LABEL -o DIR")
    try:
        if sort[0] == "file":
            command_file(what[0], args.o, args.base)
        elif sort[0] == "list":
            command_list(Repository(args.repo))
        elif sort[0] == "wal":
            data = Repository(args.repo).wal(what[1], args.cluster)
            write_whole(args.o, data)
            print(f"{args.o}: {len(data)} bytes")
        else:
            command_backup(Repository(args.repo), what[1], args.o)
    except Damaged as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename or ''}: {error.strerror or error}"
    except Exception as error:  # What hostile input gets to, and no check has named.
        message = f"damaged input: {type(error).__name__}: {error}"
    else:
        return 0
    print("walzip_decode: " + " ".join(message.split()), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
