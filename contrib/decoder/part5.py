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


def decode_chunk(header, streams):
    return ChunkModel(streams).decode(header)


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


