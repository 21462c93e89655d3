//! What each level stands for: how a model chooses, and how hard zstd tries.

use crate::compressors::zstd_frame::Effort;
use crate::container::MemberKind;
use crate::level::Level;
use crate::optional_model::{ModelSet, OptionalModel};
use crate::streams::coder::{Care, Choices};

/// Segments are told from their own pages from this level on.
const OWN_PAGES_FROM: Level = Level::MIN.above().above().above();

/// In segments, values that the server has compressed are taken apart from this level on.
const COMPRESSED_VALUES_FROM: Level = OWN_PAGES_FROM;

/// The kind of a segment that needs no WAL before it. To tell one from its own pages takes longer, and so does
/// decoding it.
pub fn kind_alone(level: Level) -> MemberKind {
    match level >= OWN_PAGES_FROM {
        true => MemberKind::WalAlone,
        false => MemberKind::Wal,
    }
}

/// How each level chooses.
pub fn choices(level: Level) -> Choices {
    Choices {
        care: match level.get() {
            1 => Care::Quick,
            _ => Care::Full,
        },
        without: match level.get() {
            // Bins take longer to choose than zstd takes for planes, and values longer than either to compress again.
            1 | 2 => ModelSet::default()
                .with(OptionalModel::Bins)
                .with(OptionalModel::CompressedValues),
            _ => ModelSet::default(),
        },
        ..Choices::default()
    }
}

/// The same for a segment that needs no WAL before it: PostgreSQL waits for that. To compress a value again takes many
/// times as long as to compress it as it is.
pub fn choices_alone(level: Level) -> Choices {
    let mut choices = choices(level);
    if level < COMPRESSED_VALUES_FROM {
        choices.without = choices.without.with(OptionalModel::CompressedValues);
    }
    choices
}

/// How hard zstd tries at each level, and who looks for matches.
pub fn effort(level: Level, streams: bool) -> Effort {
    let level = level.get();
    let zstd_level = match level {
        // On streams zstd's first level is no faster than its second, and up to 15 % larger.
        1 if streams => 2,
        0..=3 => i32::from(level),
        4 => 6,
        5 => 9,
        6 => 12,
        7 => 15,
        _ => 18,
    };
    Effort {
        level: zstd_level,
        // What the model has put into different streams may be far apart. At level 2, whose other
        // matches are coarse, far ones of less than 64 bytes cost more than they save in padded rows.
        long: match level {
            2 if streams => Some(64),
            3.. if streams => Some(32),
            _ => None,
        },
        // Half of that level's table, which then stays in the processor's inner caches.
        hash_log: (streams && level == 1).then_some(15),
        // Of 5 bytes, as zstd's levels take them, more matches cost more than they save; and its
        // fastest levels are faster without those of 6.
        min_match: match level {
            1 | 2 if streams => Some(7),
            3..=6 if streams => Some(6),
            _ => None,
        },
        own_matches: streams && (2..=4).contains(&level),
    }
}

/// Bytes of content that are packed apart. The fastest level does not look further for matches
/// anyway, and so touches less memory. A chunk is short.
pub fn piece_len(kind: MemberKind, level: Level) -> Option<usize> {
    let is_wal = matches!(
        kind,
        MemberKind::Wal | MemberKind::WalAfter | MemberKind::WalAlone
    );
    (is_wal && level == Level::MIN).then_some(2 << 20)
}
