//! Pages of a table and of its indexes, as PostgreSQL lays them out.

use walzip_codec::table::{Attribute, KeyAttribute, Order, TableShape};

pub const PAGE: usize = 8192;
/// Line pointers: `LP_NORMAL`, `LP_REDIRECT`, `LP_DEAD`.
const NORMAL: u32 = 1;
const REDIRECT: u32 = 2;
const DEAD: u32 = 3;

/// A row: an int, a text, and a bigint.
#[derive(Clone, Debug)]
pub struct Row {
    pub number: i32,
    pub text: Option<String>,
    pub long: i64,
    /// What its line pointer is.
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Normal,
    /// It points to a heap-only tuple.
    Redirected,
    /// The row is gone.
    Dead,
}

/// Where a row is: block and line pointer.
pub type Tid = (u32, u16);

/// The shape of the table and of two indexes: on the text and the int, and on the bigint, descending.
pub fn shape() -> TableShape {
    let key = |attribute, order| KeyAttribute {
        attribute,
        order,
        descending: false,
        nullable: false,
        nulls_first: false,
    };
    let text = KeyAttribute {
        nullable: true,
        ..key(1, Order::Bytes)
    };
    let long = KeyAttribute {
        descending: true,
        ..key(2, Order::Signed)
    };
    TableShape {
        attributes: vec![Attribute::Fixed4, Attribute::Varlena, Attribute::Fixed8],
        indexes: vec![vec![text, key(0, Order::Signed)], vec![long]],
    }
}

/// Numbers that look random.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// Rows of a seed.
pub fn rows(count: usize, seed: u64) -> Vec<Row> {
    let mut random = Random(seed);
    let row = |_| Row {
        number: random.below(1 << 20) as i32 - (1 << 19),
        text: (random.below(10) > 0).then(|| format!("key {}", random.below(500))),
        long: random.below(300) as i64 - 100,
        state: match random.below(20) {
            0 => State::Redirected,
            1 => State::Dead,
            _ => State::Normal,
        },
    };
    (0..count).map(row).collect()
}

fn varlena(text: &str) -> Vec<u8> {
    let mut bytes = vec![(text.len() as u8 + 1) << 1 | 1];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

fn heap_tuple(row: &Row, is_heap_only: bool) -> Vec<u8> {
    let mut tuple = vec![0; 23];
    tuple[0] = 9;
    let infomask2: u16 = 3 | if is_heap_only { 0x8000 } else { 0 };
    tuple[18..20].copy_from_slice(&infomask2.to_le_bytes());
    tuple[20] = u8::from(row.text.is_none());
    if row.text.is_none() {
        tuple.push(0b101);
    }
    align(&mut tuple, 8);
    tuple[22] = tuple.len() as u8;
    tuple.extend_from_slice(&row.number.to_le_bytes());
    if let Some(text) = &row.text {
        tuple.extend(varlena(text));
    }
    align(&mut tuple, 8);
    tuple.extend_from_slice(&row.long.to_le_bytes());
    tuple
}

/// A page that is being filled from both ends.
struct Page {
    bytes: Vec<u8>,
    pointers: usize,
    upper: usize,
}

impl Page {
    fn new(special: usize) -> Page {
        let mut bytes = vec![0; PAGE];
        let upper = PAGE - special;
        bytes[16..18].copy_from_slice(&(upper as u16).to_le_bytes());
        bytes[18..20].copy_from_slice(&0x2004u16.to_le_bytes());
        Page {
            bytes,
            pointers: 0,
            upper,
        }
    }

    fn has_room(&self, len: usize) -> bool {
        24 + 4 * (self.pointers + 2) + len.next_multiple_of(8) + 64 <= self.upper
    }

    fn add_pointer(&mut self, offset: usize, state: u32, len: usize) -> u16 {
        let at = 24 + 4 * self.pointers;
        let bits = offset as u32 | state << 15 | (len as u32) << 17;
        self.bytes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
        self.pointers += 1;
        self.pointers as u16
    }

    fn add(&mut self, item: &[u8]) -> u16 {
        self.upper -= item.len().next_multiple_of(8);
        self.bytes[self.upper..self.upper + item.len()].copy_from_slice(item);
        self.add_pointer(self.upper, NORMAL, item.len())
    }

    fn finish(mut self) -> Vec<u8> {
        let lower = (24 + 4 * self.pointers) as u16;
        self.bytes[12..14].copy_from_slice(&lower.to_le_bytes());
        self.bytes[14..16].copy_from_slice(&(self.upper as u16).to_le_bytes());
        self.bytes
    }
}

/// The pages of the table, and the TIDs of its rows.
pub fn table(rows: &[Row]) -> (Vec<u8>, Vec<Tid>) {
    let (mut pages, mut tids) = (Vec::new(), Vec::new());
    let mut page = Page::new(0);
    for row in rows {
        if !page.has_room(100) {
            pages.extend(std::mem::replace(&mut page, Page::new(0)).finish());
        }
        let number = match row.state {
            State::Normal => page.add(&heap_tuple(row, false)),
            State::Redirected => {
                let target = page.pointers + 2;
                let number = page.add_pointer(target, REDIRECT, 0);
                page.add(&heap_tuple(row, true));
                number
            }
            State::Dead => page.add_pointer(0, DEAD, 0),
        };
        tids.push(((pages.len() / PAGE) as u32, number));
    }
    pages.extend(page.finish());
    (pages, tids)
}

fn tid_bytes((block, number): Tid) -> [u8; 6] {
    let [b0, b1, b2, b3] = block.to_le_bytes();
    let [o0, o1] = number.to_le_bytes();
    [b2, b3, b0, b1, o0, o1]
}

/// An index tuple with these flags and this data after its header.
fn index_tuple(tid: Tid, flags: u16, data: &[u8]) -> Vec<u8> {
    let mut tuple = tid_bytes(tid).to_vec();
    tuple.extend([0; 2]);
    tuple.extend_from_slice(data);
    align(&mut tuple, 8);
    let info = flags | tuple.len() as u16;
    tuple[6..8].copy_from_slice(&info.to_le_bytes());
    tuple
}

fn text_key(row: &Row) -> (u16, Vec<u8>) {
    let Some(text) = &row.text else {
        let mut data = vec![0b10, 0, 0, 0, 0, 0, 0, 0];
        data.extend_from_slice(&row.number.to_le_bytes());
        return (0x8000, data);
    };
    let mut data = varlena(text);
    align(&mut data, 4);
    data.extend_from_slice(&row.number.to_le_bytes());
    (0x4000, data)
}

/// The leaf pages of the index on the text and the int. An entry of a row that is gone stays.
pub fn text_index(rows: &[Row], tids: &[Tid]) -> Vec<u8> {
    let mut entries: Vec<(&Row, Tid)> = rows.iter().zip(tids.iter().copied()).collect();
    entries.sort_by_key(|(row, tid)| (row.text.is_none(), row.text.clone(), row.number, *tid));
    let tuples = entries.into_iter().map(|(row, tid)| {
        let (flags, data) = text_key(row);
        index_tuple(tid, flags, &data)
    });
    leaves(tuples.collect())
}

/// The leaf pages of the index on the bigint, with a posting list for each value.
pub fn long_index(rows: &[Row], tids: &[Tid]) -> Vec<u8> {
    let there = rows.iter().zip(tids.iter().copied());
    let mut entries: Vec<(i64, Tid)> = there
        .filter(|(row, _)| row.state != State::Dead)
        .map(|(row, tid)| (row.long, tid))
        .collect();
    entries.sort_by_key(|(long, tid)| (std::cmp::Reverse(*long), *tid));
    let lists = entries.chunk_by(|(one, _), (other, _)| one == other);
    let tuples = lists.flat_map(|list| list.chunks(100)).map(|list| {
        let (long, first) = list[0];
        let mut data = long.to_le_bytes().to_vec();
        if list.len() == 1 {
            return index_tuple(first, 0, &data);
        }
        for (_, tid) in list {
            data.extend(tid_bytes(*tid));
        }
        // The TID is the list's offset and the number of its entries.
        index_tuple((16, 0x2000 | list.len() as u16), 0x2000, &data)
    });
    leaves(tuples.collect())
}

/// Leaf pages of tuples in their order, each but the last with a high key.
pub fn leaves(tuples: Vec<Vec<u8>>) -> Vec<u8> {
    let mut pages: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
    let mut room = 0;
    for tuple in tuples {
        room += tuple.len() + 4;
        if room > 7000 {
            room = tuple.len();
            pages.push(Vec::new());
        }
        pages.last_mut().expect("a page").push(tuple);
    }
    let highs: Vec<Option<Vec<u8>>> = (1..=pages.len())
        .map(|next| Some(pages.get(next)?.first()?.clone()))
        .collect();
    let mut bytes = Vec::new();
    for (number, (tuples, high)) in pages.iter().zip(highs).enumerate() {
        let mut page = Page::new(16);
        if let Some(mut high) = high {
            // A pivot tuple of two attributes.
            high.truncate(24);
            high[4..6].copy_from_slice(&2u16.to_le_bytes());
            let info = 0x2000 | high.len() as u16;
            high[6..8].copy_from_slice(&info.to_le_bytes());
            page.add(&high);
        }
        // Every other page was filled in another order than that of its keys.
        let at = page.pointers;
        let mut order: Vec<usize> = (0..tuples.len()).collect();
        if number % 2 == 1 {
            order.rotate_left(tuples.len() / 3);
        }
        let mut offsets = vec![(0, 0); tuples.len()];
        for index in order {
            page.upper -= tuples[index].len();
            let end = page.upper + tuples[index].len();
            page.bytes[page.upper..end].copy_from_slice(&tuples[index]);
            offsets[index] = (page.upper, tuples[index].len());
        }
        for (offset, len) in offsets {
            page.add_pointer(offset, NORMAL, len);
        }
        assert_eq!(page.pointers, at + tuples.len());
        let has_next = number + 1 < pages.len();
        let special = PAGE - 16;
        let next = if has_next { number as u32 + 2 } else { 0 };
        page.bytes[special..special + 4].copy_from_slice(&(number as u32).to_le_bytes());
        page.bytes[special + 4..special + 8].copy_from_slice(&next.to_le_bytes());
        page.bytes[special + 12] = 1;
        bytes.extend(page.finish());
    }
    bytes
}
