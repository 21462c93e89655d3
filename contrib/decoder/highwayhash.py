"""HighwayHash with 64 bits in plain Python, after the portable form of its authors' repository
(github.com/google/highwayhash, c/highwayhash.c). Only the test of the block hashes needs it: a
reader of a repository does not.
"""

import struct

LOW_32, LOW_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
MULTIPLIERS_0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
MULTIPLIERS_1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)


def halves_exchanged(word):
    return word >> 32 | (word & LOW_32) << 32


def zipper_merge(even, odd):
    """The bytes of two lanes, 3 12 2 5 14 1 15 0 and 11 4 10 13 9 6 8 7 of the sixteen."""
    return (
        even >> 24 & 0xFF | odd >> 24 & 0xFF00 | even & 0xFF0000 | even >> 16 & 0xFF000000
        | odd >> 16 & 0xFF00000000 | even << 32 & 0xFF0000000000 | odd >> 8 & 0xFF000000000000
        | even << 56 & LOW_64,
        odd >> 24 & 0xFF | even >> 24 & 0xFF00 | odd & 0xFF0000 | odd >> 16 & 0xFF000000
        | odd << 24 & 0xFF00000000 | even >> 8 & 0xFF0000000000 | odd << 48 & 0xFF000000000000
        | even & 0xFF00000000000000,
    )


def update(state, packet):
    v0, v1, mul0, mul1 = state
    for i in range(4):
        v1[i] = v1[i] + mul0[i] + packet[i] & LOW_64
        mul0[i] ^= (v1[i] & LOW_32) * (v0[i] >> 32)
        v0[i] = v0[i] + mul1[i] & LOW_64
        mul1[i] ^= (v0[i] & LOW_32) * (v1[i] >> 32)
    for to, of in ((v0, v1), (v1, v0)):
        for i in (0, 2):
            even, odd = zipper_merge(of[i], of[i + 1])
            to[i] = to[i] + even & LOW_64
            to[i + 1] = to[i + 1] + odd & LOW_64


def last_packet(rest):
    """What is left after the last 32 bytes, spread over 32: 4 at a time, and up to 3 more."""
    whole = len(rest) & ~3
    odd = rest[whole:]
    packet = bytearray(rest[:whole].ljust(32, b"\0"))
    if len(rest) & 16:
        packet[28:] = rest[-4:]
    elif odd:
        packet[16:19] = odd[0], odd[len(odd) >> 1], odd[-1]
    return packet


def highwayhash64(data, key):
    """The hash of `data` with a key of 32 bytes, as 8 bytes in little-endian order."""
    key = struct.unpack("<4Q", key)
    v0 = [m ^ k for m, k in zip(MULTIPLIERS_0, key)]
    v1 = [m ^ halves_exchanged(k) for m, k in zip(MULTIPLIERS_1, key)]
    state = v0, v1, list(MULTIPLIERS_0), list(MULTIPLIERS_1)
    left = len(data) % 32
    for packet in struct.iter_unpack("<4Q", data[: len(data) - left]):
        update(state, packet)
    if left:
        for i in range(4):
            v0[i] = v0[i] + (left << 32) + left & LOW_64
            low, high = ((half << left | half >> 32 - left) & LOW_32 for half in (v1[i] & LOW_32, v1[i] >> 32))
            v1[i] = high << 32 | low
        update(state, struct.unpack("<4Q", last_packet(data[-left:])))
    for _ in range(4):
        update(state, [halves_exchanged(v0[i]) for i in (2, 3, 0, 1)])
    return (sum(words[0] for words in state) & LOW_64).to_bytes(8, "little")
