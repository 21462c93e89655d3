//! What the targets have in common.

use std::sync::Arc;

use walzip_codec::table::{Attribute, Entries, KeyAttribute, Order, TableRows, TableShape};
use walzip_codec::{MAGIC, RunBoth, VERSION};
use walzip_pgformat::PAGE_SIZE;

/// A member with one stored block (docs/format/container.md) of any content, with right checksums.
/// `identity` is what its kind has behind the hash of the original, which is that of any other bytes.
pub fn member(kind: u8, identity: &[u8], original_len: usize, content: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    push_varint(&mut body, content.len());
    push_varint(&mut body, content.len());
    body.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    body.extend_from_slice(content);

    let references = u8::from(matches!(kind, 3..=5));
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[VERSION, kind, references]);
    file.extend_from_slice(&[0; 32]);
    file.extend_from_slice(identity);
    // No name.
    file.push(0);
    push_varint(&mut file, original_len);
    push_varint(&mut file, body.len());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    file.extend_from_slice(&body);
    file
}

fn push_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The entries of an index on one or two of the attributes of a table, whose pages are these bytes.
pub fn entries(key: usize, pages: usize, bytes: &[u8]) -> Arc<Entries> {
    let orders = Order::ALL[key % 3..].iter();
    let attributes = vec![Attribute::Fixed4, Attribute::Varlena, Attribute::Fixed8];
    let of_key = orders.zip([2, 0, 1]).take(1 + key % 2);
    let key = of_key.filter(|(order, attribute)| order.fits(attributes[*attribute]));
    let key: Vec<KeyAttribute> = key
        .map(|(&order, attribute)| KeyAttribute {
            attribute: attribute as u16,
            order,
            descending: pages % 2 == 1,
            nullable: pages > 0,
            nulls_first: pages > 1,
        })
        .collect();
    let shape = TableShape {
        attributes,
        indexes: vec![key],
    };
    let mut all = bytes.to_vec();
    all.resize((pages + 1) * PAGE_SIZE, 0);
    let mut rows = TableRows::new(&shape, 1 << 20);
    rows.add_pages(&shape, 0, &all);
    let run_both: RunBoth = |beside, here| {
        here();
        beside();
    };
    Arc::new(Entries::sort(
        Arc::new(rows),
        &shape,
        &shape.indexes[0],
        run_both,
    ))
}
