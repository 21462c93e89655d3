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
        at = self._find(key)
        return self._content(self.slots[at]) if at >= 0 else None

    def _content(self, slot):
        if isinstance(slot[1], int):
            row = self.rows.get(slot[1])
            return (0, row.values, len(row.values)) if row else None
        return slot[1]

    def enter(self, key, content):
        check, first = self._place(*key)
        old = self.slots[first]
        if old and old[0] != check:
            self.slots[first ^ self.count >> 1] = old
        self.slots[first] = (check, content)

    def update(self, old_key, new_key, prefix, values, suffix, old=None):
        total = prefix + len(values) + suffix
        if total > 65535:
            return
        at = self._find(old_key)
        old = self._content(self.slots[at]) if at >= 0 else None
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
        self.left -= len(data) // 8
        need(self.left >= 0, "more is taken apart for keys than may be")
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
                self.left -= len(content)
                try:
                    keys = EXTRACT[form](content)
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
            return {(0x20, 0): "gin insertion", (0x90, 0): "gin recompression"}.get((sort, number))
        if manager == XLOG_GIST and version >= 2:
            return "gist update" if (sort, number) == (0, 0) else "gist split" if sort == 0x30 and number else None
        return None


class Transaction:
    __slots__ = ("xid", "context", "newest")

    def __init__(self, xid):
        self.xid, self.context, self.newest = xid, 0, 0


class WalModel(PageModel):
    """A segment, or a part of one."""

    def __init__(self, header, streams, content_length):
        super().__init__(streams)
        self.header, self.content_length = header, content_length
        self.transactions, self.highest = [], 0
        self.kinds, self.followers, self.kind_blocks = [], {}, 0
        self.relations = []
        self.rows = Rows()
        self.versions = Versions(header.original, self.rows)
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
        return data + own.rows(BLOCK_DATA_ROW, "rest").take(length - len(data))

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
                need(mode < 3, "the unknown mode of a version")
        if mode == 0:
            if flags & 0x60:
                return data + relation.rows(HEAP_PART).take(left)
            return data + self.body(relation, left, infomask2, infomask)
        front = min(max(hoff - 23, 0), left)
        if mode == 1:
            return data + self.differences(relation, old, left, front, prefix, suffix)
        return data + self.copies(relation, old, left, front, prefix)

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
    def differences(relation, old, left, front, prefix, suffix):
        start, known, total = old
        body = bytearray(relation.rows(HEAP_PART, "differences").take(left))
        size = left - front
        need(total == prefix + size + suffix, "differences from a version of another length")
        need(start <= prefix + size and start + len(known) >= prefix, "differences from what is not known")
        for n in range(size):
            at = prefix + n - start
            if 0 <= at < len(known):
                body[front + n] = body[front + n] + known[at] & 255
        return bytes(body)

    @staticmethod
    def copies(relation, old, left, front, prefix):
        start, known, _ = old
        count = relation.stream(MODEL_FLAG, "copies").u8()
        copies = []
        for _ in range(count):
            copies.append(tuple(relation.stream(TUPLE_LEN, ("copy", n)).u16() for n in range(3)))
        copied = sum(c[1] for c in copies)
        need(copied <= left, "copies of more bytes than the body has")
        own = Reader(relation.rows(HEAP_PART, "copies").take(left - copied))
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
            key = relation.rows(INDEX_KEY, ("record", "key")).take(length - 8)
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


