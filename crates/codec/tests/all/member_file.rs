//! A second reader of the container, written from docs/format/container.md alone. It opens a
//! member, and seals other content into it, so that what lies behind the checksums can be
//! damaged too.

/// A member, taken apart.
#[derive(Clone, Debug)]
pub struct MemberFile {
    version: u8,
    kind: u8,
    hash: [u8; 32],
    identity: Vec<u8>,
    /// With its length; of no byte before version 5.
    name: Vec<u8>,
    original_len: u64,
    /// The blocks.
    pub body: Vec<u8>,
    /// The bytes that the blocks stand for, without mixed ones.
    pub content: Vec<u8>,
}

impl MemberFile {
    pub fn open(file: &[u8]) -> MemberFile {
        assert_eq!(&file[0..4], b"WALZ");
        let (version, kind, references) = (file[4], file[5], file[6]);
        assert_eq!(references, references_of(kind));
        let hash = file[7..39].try_into().expect("32 bytes");
        let identity_len = match kind {
            1 | 6 => 26,
            // The hash of the base.
            3 => 32,
            _ => 0,
        };
        let identity = file[39..39 + identity_len].to_vec();
        let mut rest = &file[39 + identity_len..];
        let mut name = Vec::new();
        if version >= 5 {
            let name_len = 1 + usize::from(rest[0]);
            name = rest[..name_len].to_vec();
            rest = &rest[name_len..];
        }
        let original_len = number(&mut rest);
        let body_len = number(&mut rest) as usize;
        let header = &file[..file.len() - rest.len()];
        assert_eq!(rest[..4], crc32c::crc32c(header).to_le_bytes());
        let blocks = &rest[4..];
        assert_eq!(blocks.len(), body_len, "one member");
        let mut body = blocks;
        let mut content = Vec::new();
        while let [coding, behind @ ..] = body {
            body = behind;
            let raw_len = number(&mut body) as usize;
            let data_len = number(&mut body) as usize;
            let (data, behind) = body[4..].split_at(data_len);
            assert_eq!(body[..4], crc32c::crc32c(data).to_le_bytes());
            match coding {
                0 => content.extend_from_slice(data),
                1 => content.extend_from_slice(&unpack(data, raw_len)),
                2 => {}
                _ => panic!("unknown coding {coding}"),
            }
            body = behind;
        }
        MemberFile {
            version,
            kind,
            hash,
            identity,
            name,
            original_len,
            body: blocks.to_vec(),
            content,
        }
    }

    /// The member with `content` in one stored block, all checksums right.
    pub fn seal(&self, content: &[u8]) -> Vec<u8> {
        self.seal_blocks(&block(0, content.len(), content))
    }

    /// The member with other blocks, all checksums right.
    pub fn seal_blocks(&self, body: &[u8]) -> Vec<u8> {
        let mut file = b"WALZ".to_vec();
        file.extend_from_slice(&[self.version, self.kind, references_of(self.kind)]);
        file.extend_from_slice(&self.hash);
        file.extend_from_slice(&self.identity);
        file.extend_from_slice(&self.name);
        push_number(&mut file, self.original_len);
        push_number(&mut file, body.len() as u64);
        file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
        file.extend_from_slice(body);
        file
    }

    /// The same in another version, without a name.
    pub fn with_version(mut self, version: u8) -> MemberFile {
        self.version = version;
        self.name = if version >= 5 { vec![0] } else { Vec::new() };
        self
    }

    /// The same, but for these bytes of the identity, or of the hash of the base.
    pub fn with_identity(mut self, at: usize, bytes: &[u8]) -> MemberFile {
        self.identity[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The same, but for an original of another length.
    pub fn with_original_len(mut self, original_len: u64) -> MemberFile {
        self.original_len = original_len;
        self
    }
}

/// Only members of differences need other bytes.
fn references_of(kind: u8) -> u8 {
    u8::from(matches!(kind, 3 | 5))
}

/// A block: its coding, bytes of its content, its data.
pub fn block(coding: u8, content_len: usize, data: &[u8]) -> Vec<u8> {
    let mut block = vec![coding];
    push_number(&mut block, content_len as u64);
    push_number(&mut block, data.len() as u64);
    block.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    block.extend_from_slice(data);
    block
}

fn unpack(frame: &[u8], raw_len: usize) -> Vec<u8> {
    let mut context = zstd_safe::DCtx::create();
    let format = zstd_safe::DParameter::Format(zstd_safe::FrameFormat::Magicless);
    context.set_parameter(format).expect("libzstd knows it");
    let mut raw = vec![0; raw_len];
    let written = context.decompress(&mut raw[..], frame);
    assert_eq!(written.map_err(zstd_safe::get_error_name), Ok(raw_len));
    raw
}

/// Takes an unsigned integer of seven bits a byte, the low ones first.
pub fn number(bytes: &mut &[u8]) -> u64 {
    let len = bytes.iter().take_while(|&&byte| byte >= 0x80).count() + 1;
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    let low_to_high = number.iter().rev();
    low_to_high.fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

pub fn push_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
