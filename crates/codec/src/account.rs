//! Where the bytes of a segment go: what each kind of stream holds, and what is left of it.

use crate::chunk::{self, Extent};
use crate::compressors::zstd_frame;
use crate::differences;
use crate::encoder;
use crate::error::EncodeError;
use crate::level::Level;
use crate::level_policy;
use crate::member;
use crate::model::{ChunkPages, History, KnownRelations};
use crate::optional_model::OptionalModel;
use crate::packing;
use crate::segment;
use crate::streams::filled::Filled;
use crate::streams::kind::{Category, StreamKind};

/// The share of one kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindAccount {
    /// What the streams hold.
    pub kind: StreamKind,
    /// Where they are counted.
    pub category: Category,
    /// How many there are.
    pub streams: usize,
    /// Their bytes.
    pub stream_bytes: usize,
    /// Bytes of the file that they take.
    pub packed_bytes: usize,
}

impl KindAccount {
    fn add(&mut self, other: &KindAccount) {
        self.streams += other.streams;
        self.stream_bytes += other.stream_bytes;
        self.packed_bytes += other.packed_bytes;
    }
}

/// What encoding makes of each kind of stream; `None` for what is no WAL segment. The frame
/// that is measured has a few more cuts than the one that [`crate::encode`] writes, so the sum
/// may differ from the file's size by a fraction of a percent. Where the level mixes streams,
/// what zstd makes of them is shown.
pub fn account(input: &[u8], level: Level) -> Result<Option<Vec<KindAccount>>, EncodeError> {
    account_parts(input, level, None)
}

/// Where the bytes of segments go that are encoded one after the other: see
/// [`crate::history::HistoryEncoder`].
#[derive(Debug, Default)]
pub struct HistoryAccount(History);

impl HistoryAccount {
    /// [`account`] of the next segment.
    pub fn account(
        &mut self,
        input: &[u8],
        level: Level,
    ) -> Result<Option<Vec<KindAccount>>, EncodeError> {
        account_parts(input, level, Some(&mut self.0))
    }
}

fn account_parts(
    input: &[u8],
    level: Level,
    mut history: Option<&mut History>,
) -> Result<Option<Vec<KindAccount>>, EncodeError> {
    let mut kinds: Vec<KindAccount> = Vec::new();
    for (header, part) in encoder::parts(input) {
        let choices = match history {
            Some(_) => level_policy::choices(level),
            None => level_policy::choices_alone(level),
        };
        let mut own = member::own_pages(level_policy::kind_alone(level), part.len());
        let history = history.as_deref_mut().or(own.as_mut());
        let Some(streams) = segment::encode(part.into(), &header, choices, history)? else {
            return Ok(None);
        };
        for account in account_of(&streams, level)? {
            match kinds.iter_mut().find(|known| known.kind == account.kind) {
                Some(known) => known.add(&account),
                None => kinds.push(account),
            }
        }
    }
    Ok((!kinds.is_empty()).then_some(kinds))
}

/// The same of a chunk of relation files: see [`crate::encode_chunk`].
pub fn account_chunk(
    extents: &[Extent],
    bytes: &[u8],
    level: Level,
) -> Result<Vec<KindAccount>, EncodeError> {
    match chunk::encode(
        extents,
        bytes,
        ChunkPages::default(),
        level_policy::choices(level),
        &mut KnownRelations::default(),
    ) {
        Some(streams) => account_of(&streams, level),
        None => Ok(Vec::new()),
    }
}

/// The same of blocks that are told from others: see [`crate::encode_differences`].
pub fn account_differences(
    extents: &[Extent],
    bytes: &[u8],
    base: &[u8],
    level: Level,
) -> Result<Vec<KindAccount>, EncodeError> {
    match differences::encode(extents, bytes, base, level_policy::choices(level)) {
        Some(streams) => account_of(&streams, level),
        None => Ok(Vec::new()),
    }
}

fn account_of(streams: &[Filled], level: Level) -> Result<Vec<KindAccount>, EncodeError> {
    let content = packing::lay_out(streams, level).content();
    let mut cuts = content.cuts;
    let mut kinds: Vec<KindAccount> = Vec::new();
    let mut ends: Vec<usize> = Vec::new();
    let mut start = content.extents.first().map_or(0, |_| content.streams_start);
    cuts.push(start);
    for (extent, stream) in content.extents.iter().zip(streams) {
        let kind = extent.kind;
        let end = match extent.layout.is_coded() {
            true => start,
            false => extent.end,
        };
        if kinds.last().is_none_or(|last| last.kind != kind) {
            kinds.push(KindAccount {
                kind,
                category: kind.category(),
                streams: 0,
                stream_bytes: 0,
                packed_bytes: 0,
            });
            ends.push(end);
        }
        if let (Some(account), Some(last)) = (kinds.last_mut(), ends.last_mut()) {
            account.streams += 1;
            account.stream_bytes += stream.bytes.len();
            if extent.layout.is_coded() {
                account.packed_bytes += extent.len();
            }
            *last = end;
        }
        start = end;
    }
    cuts.extend(&ends);
    cuts.sort_unstable();
    cuts.dedup();
    let plain = &content.bytes[..content.coded_start];
    let packed = zstd_frame::compress(plain, &cuts, level_policy::effort(level, true))?;
    let place_of = |cut: usize| match cuts.binary_search(&cut) {
        Ok(place) => packed.cut_places[place],
        Err(_) => packed.bytes.len(),
    };
    let mut before = place_of(content.streams_start);
    for (account, end) in kinds.iter_mut().zip(ends) {
        let place = place_of(end);
        account.packed_bytes += place - before;
        before = place;
    }
    Ok(kinds)
}

/// What [`crate::encode`] would make of an input without one of the models: what the model earns,
/// in bytes and in time.
pub fn encode_without(
    input: &[u8],
    level: Level,
    model: OptionalModel,
) -> Result<Vec<u8>, EncodeError> {
    let (kind, mut choices) = (
        level_policy::kind_alone(level),
        level_policy::choices_alone(level),
    );
    choices.without = choices.without.with(model);
    let mut file = Vec::new();
    for (header, part) in encoder::parts(input) {
        let member = match member::encode_part(part.into(), &header, kind, level, choices)? {
            Some(member) => member,
            None => member::encode_foreign(part.into(), level)?,
        };
        file.extend_from_slice(&member);
    }
    Ok(file)
}
