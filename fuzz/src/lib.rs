//! What the targets have in common.

use walzip_codec::{MAGIC, VERSION};

/// A member with one stored block (docs/format/container.md) of any content, with right checksums.
/// `identity` is what its kind has behind the hash of the original, which is that of any other bytes.
pub fn member(kind: u8, identity: &[u8], original_len: usize, content: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    push_varint(&mut body, content.len());
    push_varint(&mut body, content.len());
    body.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    body.extend_from_slice(content);

    let references = u8::from(matches!(kind, 3 | 4));
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
