//! Timelines of which the target has nothing but what was set aside: the source's is the same, which has to stay away,
//! or another server's of the same number.

use std::collections::BTreeSet;

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::AsideLabel;

use super::both::{Both, of_each};
use super::problem::is_of_one_file;
use crate::archived::own_history;
use crate::archived::stored_wal::{self, StoredWal};
use crate::error::ArchiveError;

/// What the comparison has shown of such timelines.
#[derive(Default)]
pub(super) struct Away {
    /// The same was set aside, or it is not known.
    pub(super) same: BTreeSet<TimelineId>,
    /// What was set aside is of other servers.
    pub(super) others: BTreeSet<TimelineId>,
}

impl Away {
    pub(super) async fn compare(both: &Both<'_>) -> Result<Away, ArchiveError> {
        let ours = of_each(&both.target);
        let mut away = Away::default();
        for (timeline, names) in of_each(&both.source) {
            let labels = labels(both, timeline);
            if ours.contains_key(&timeline) || labels.is_empty() {
                continue;
            }
            let mut is_another = true;
            for label in labels {
                is_another &= is_another_server(both, label, (timeline, &names)).await?;
            }
            match is_another {
                true => away.others.insert(timeline),
                false => away.same.insert(timeline),
            };
        }
        Ok(away)
    }
}

/// The labels under which something of a timeline is set aside.
fn labels(both: &Both<'_>, timeline: TimelineId) -> BTreeSet<AsideLabel> {
    let is_of = |name: &str| match name.parse() {
        Ok(name @ (WalFileName::Segment(_) | WalFileName::History(_))) => {
            name.timeline() == timeline
        }
        _ => false,
    };
    let named = both.aside.iter().filter(|(name, _)| is_of(name));
    named
        .flat_map(|(_, labels)| labels.iter().copied())
        .collect()
}

/// Whether what is set aside under a label is of another server than the source's: by the histories, and by the newest
/// segment of which both have one. Two recoveries to the same point have the same history.
async fn is_another_server(
    both: &Both<'_>,
    label: AsideLabel,
    (timeline, names): (TimelineId, &BTreeSet<&str>),
) -> Result<bool, ArchiveError> {
    let history = WalFileName::History(timeline).to_string();
    let is_aside = |name: &&str| {
        let labels = both.aside.get(*name);
        labels.is_some_and(|labels| labels.contains(&label))
    };
    let differs = async {
        if histories_differ(both, label, (timeline, &history)).await? {
            return Ok(true);
        }
        let mut segments = names.iter().copied().filter(|name| *name != history);
        match segments.rfind(is_aside) {
            Some(newest) => Ok(is_same(both, label, newest).await? == Some(false)),
            None => Ok(false),
        }
    };
    match differs.await {
        // What cannot be read tells nothing.
        Err(error) if is_of_one_file(&error) => Ok(false),
        differs => differs,
    }
}

async fn histories_differ(
    both: &Both<'_>,
    label: AsideLabel,
    (timeline, name): (TimelineId, &str),
) -> Result<bool, ArchiveError> {
    let source = StoredWal::get(both.from, name).await?;
    let aside = both.to.get_aside(label, name).await?;
    let Some((source, aside)) = source.zip(aside) else {
        return Ok(false);
    };
    let source = source.content(name).await?;
    let aside = StoredWal::Single(aside).content(name).await?;
    let is_rebuilt = own_history::is_rebuilt_of(timeline, &source, &aside)
        || own_history::is_rebuilt_of(timeline, &aside, &source);
    Ok(source != aside && !is_rebuilt)
}

/// Whether the source has what the target has set aside under a name and a label; nothing where one of them has gone
/// meanwhile. Of a segment in a pack its index says what it is.
pub(super) async fn is_same(
    both: &Both<'_>,
    label: AsideLabel,
    name: &str,
) -> Result<Option<bool>, ArchiveError> {
    let aside = both.to.get_aside(label, name).await?;
    let aside = match aside {
        Some(object) => Some(StoredWal::Single(object).content_hash(name).await?),
        None => stored_wal::hash_in_pack(&both.to.packs_aside(label), name).await?,
    };
    let source = match both.from.get_wal(name).await? {
        Some(object) => Some(StoredWal::Single(object).content_hash(name).await?),
        None => stored_wal::hash_in_pack(&both.from.packs(), name).await?,
    };
    Ok(aside.zip(source).map(|(aside, source)| aside == source))
}
