# ---------------------------------------------------------------- the model (docs/format/model)

# The kinds of streams that the model names (docs/format/streams.md).
(SPANS, DEFINITIONS, XID_RANK, XID_NEW, KIND_RANK, KIND_ID, PREV_EXPLICIT, ORIGIN, TOPLEVEL_XID, BLOCK_NUMBER,
 BLOCK_DATA_LEN, MAIN_LEN, MAIN_FIELD, MAIN_ROW, BLOCK_DATA_ROW, MODEL_FLAG, HEAP_FLAGS, HEAP_HEADER, HEAP_BODY,
 HEAP_PART, TUPLE_LEN, INDEX_TID, INDEX_INFO, INDEX_KEY, POSTING_TID, IMAGE_HOLE, IMAGE_CLASS, PAGE_FIELD,
 PAGE_SPECIAL, LINE_POINTER, ITEM_ORDER, ITEM_PADDING, ITEM_BODY, RAW_PAGE, RAW_IMAGE, FRAGMENT, OTHER, POSTING_OFFSET,
 OFFSETS, HEAP_SCHEMA, NULL_BITMAP, VALUE, VALUE_HEADER, TEXT, DICTIONARY_VALUE, VALUE_NUMBER, HEAP_MODEL_FLAG,
 INDEX_ROW, RECIPE_RANK, RECIPE_DEFINITION, JSON_SHAPE, JSON_ENTRY, JSON_NUMBER, BLOCK_RANK, TID_RUN, KEY_SKIP,
 WORD_RUN, WORD_SYMBOL, WORD_LEN, WORD_TEXT, DIGITS, EXTENTS, PAGE_FORM, FILE_BYTES, STALE_RUN, STALE_BYTE,
 DIFFERENCE_FORM, DIFFERENCE_FIELD, DIFFERENCE_RUN, DIFFERENCE_REPLACED, DIFFERENCE_BYTE) = range(KIND_COUNT)


class Owner:
    """What has streams of its own: the member, a relation, a record kind, a class of pages."""

    def __init__(self, streams, number=0):
        self.streams, self.number, self._streams, self._rows = streams, number, {}, {}

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
        self.cost = 0

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
        self.words = []
        self.by_two, self.by_one = {}, {}
        self.left, self.full = None, False

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
        while True:
            symbol = self._symbol(a, b)
            if symbol == 1:
                length = self.lengths.u8()
                need(length, "a new word of length 0")
                word = self.texts.take(length)
                out.append(word)
                if len(self.words) < 65505:
                    symbol = 31 + len(self.words)
                    self.words.append(word)
            elif symbol > 30:
                need(symbol - 31 < len(self.words), "a word that does not exist")
                out.append(self.words[symbol - 31])
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


def open_column(streams, choices, length, lists, version):
    mode = choices.u8()
    need(mode <= (7 if version >= 7 else 5 if version >= 4 else 4), f"the unknown mode {mode} of a column")
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
            value = column.take()
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

    # Heap tuples.

    def body(self, relation, length, infomask2, infomask):
        need(length >= 0, "a tuple that is shorter than its header")
        bodies = getattr(relation, "bodies", None)
        if bodies is None:
            bodies = relation.bodies = Bodies(self.streams, self.lists, self.version)
        return bodies.take(length, infomask2, infomask)

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
        head = struct.pack("<III6sHHB", xmin, xmax, third, ctid, infomask2, infomask, field(6).u8())
        return head + self.body(relation, length - 23, infomask2, infomask)

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
        keys, rest = relation.rows(INDEX_KEY, (place, "key")), relation.rows(INDEX_KEY, (place, "rest"))
        if info & 0x2000 and offset & 0x2000:
            count = offset & 0xFFF
            end = block + 6 * count
            if 8 <= block and end <= length:
                out += keys.take(block - 8)
                blocks, offsets = relation.stream(POSTING_TID, 0), relation.stream(POSTING_TID, 1)
                for _ in range(count):
                    number = blocks.u32()
                    out += struct.pack("<HHH", number >> 16, number & 0xFFFF, offsets.u16())
                return out + rest.take(length - end)
        return out + keys.take(length - 8)

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
        keys = relation.rows(INDEX_KEY, where)
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
        most = special - upper
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


