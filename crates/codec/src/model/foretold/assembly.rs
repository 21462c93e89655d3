//! A record with other images or block data than another one.

use walzip_pgformat::wal::{Block, Image, RecordLayout};

/// What becomes of a block reference.
#[derive(Clone, Debug, Default)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// It loses its image and gets these data; none where the record left none out.
    Fold(Vec<u8>),
    /// It has other data, or none.
    Data(Vec<u8>),
    /// It gets an image of these bytes, and loses its data unless they are the record's own.
    Unfold {
        /// The image, with its length.
        image: Image,
        /// Its bytes; none where only the length of the record is wanted.
        bytes: Vec<u8>,
        /// The data stay.
        has_data: bool,
    },
}

/// Makes a record with the changes of its blocks. `layout` becomes that of the result; `None` where
/// it cannot be said.
pub fn assemble(
    layout: &mut RecordLayout,
    record: &[u8],
    changes: &[Change],
    out: &mut Vec<u8>,
) -> Option<()> {
    let parts: Vec<Block> = layout.blocks.clone();
    for (block, change) in layout.blocks.iter_mut().zip(changes) {
        change_header(block, change)?;
    }
    out.clear();
    out.resize(layout.headers_len(), 0);
    for ((block, before), change) in layout.blocks.iter_mut().zip(&parts).zip(changes) {
        let part = |start: usize, len: u16| record.get(start..start + usize::from(len));
        if let Some(image) = &mut block.image {
            image.start = out.len();
            match (change, &before.image) {
                (Change::Unfold { bytes, .. }, _) => out.extend_from_slice(bytes),
                (_, Some(before)) => out.extend_from_slice(part(before.start, before.len)?),
                (_, None) => return None,
            }
        }
        block.data_start = out.len();
        match change {
            Change::Data(data) => out.extend_from_slice(data),
            Change::Fold(data) if !data.is_empty() => out.extend_from_slice(data),
            _ if block.data_len == 0 => {}
            _ => out.extend_from_slice(part(before.data_start, before.data_len)?),
        }
    }
    let main = record.get(layout.main_start..layout.main_start + layout.main_len)?;
    layout.main_start = out.len();
    out.extend_from_slice(main);
    layout.write_headers(out);
    Some(())
}

/// The length of the record that [`assemble`] would make.
pub fn assembled_len(layout: &mut RecordLayout, changes: &[Change]) -> Option<usize> {
    for (block, change) in layout.blocks.iter_mut().zip(changes) {
        change_header(block, change)?;
    }
    let parts = layout.blocks.iter().map(|block| {
        let image = block.image.as_ref().map_or(0, |image| image.len);
        usize::from(image) + usize::from(block.data_len)
    });
    Some(layout.headers_len() + parts.sum::<usize>() + layout.main_len)
}

fn change_header(block: &mut Block, change: &Change) -> Option<()> {
    match change {
        Change::None => {}
        Change::Fold(data) => {
            block.image = None;
            block.fork_flags &= !Block::HAS_IMAGE;
            if !data.is_empty() {
                block.fork_flags |= Block::HAS_DATA;
                block.data_len = u16::try_from(data.len()).ok()?;
            }
        }
        Change::Data(data) => {
            block.data_len = u16::try_from(data.len()).ok()?;
            block.fork_flags &= !Block::HAS_DATA;
            if !data.is_empty() {
                block.fork_flags |= Block::HAS_DATA;
            }
        }
        Change::Unfold {
            image, has_data, ..
        } => {
            block.image = Some(*image);
            block.fork_flags |= Block::HAS_IMAGE;
            if !has_data {
                block.fork_flags &= !Block::HAS_DATA;
                block.data_len = 0;
            }
        }
    }
    Some(())
}
