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


KIND_COUNT = 71


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
    """A mixed block: streams that are coded bit by bit. About 0.3 ms for a byte."""

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
                _mix_hash(key, a, 1), _mix_hash(key, a | n << 8, 2), _mix_hash(key, n | upper[r] << 8, 3),
                _mix_hash(key, a | b << 8 | d << 16, 4), _mix_hash(key, a | n << 8 | m << 16 | after << 24, 5),
                _mix_hash(key, beside[r] | n << 8, 6))
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
                _mix_hash(key, u, 1), _mix_hash(key, u | a << 8, 2), _mix_hash(key, a | b << 8, 3),
                _mix_hash(key, u | v << 8 | x << 16, 4), _mix_hash(key, a | b << 8 | d << 16, 5),
                _mix_hash(key, u | a << 8 | b << 16, 6))
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
                _mix_hash(r & 0xFF, number, 2), _mix_hash(r & 0xFFFF, number, 3), _mix_hash(r & 0xFFFFFF, number, 4),
                _mix_hash(r & M32, 0, 5), _mix_hash(r & M32, r >> 32 & 0xFFFF, 6),
                _mix_hash(by | (r & 0xFF) << 8, number ^ word, 7))
            byte = self._code(kind, key, contexts, recent, False)
            out.append(byte)
            recent = (recent << 8 | byte) & M64
            letter = 65 <= byte <= 90 or 97 <= byte <= 122
            word = (word + byte + 1) * 0x2F0B4C47 & M32 if letter else 0
        return out

    def _code(self, kind, key, contexts, recent, noise):
        """The next byte."""
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
        place = contexts[1] >> 8 & 0xFFFF
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
                byte = self._mixed_byte(kind, key, contexts, -1 if asked else expected, sort)
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

    def _mixed_byte(self, kind, key, contexts, expected, sort):
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
                    at = [self._slot(t, _mix_hash(h, node, 77)) for t, h in zip(slots, contexts)]
                else:
                    at = [self._slot(t, h) for t, h in zip(slots, contexts)]
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


