//! `walzip timeline`: an abandoned branch out of the way, and back; a lost history.

use std::io::{self, Write};

use walzip_archive::ArchiveError;
use walzip_archive::rebuilt_history::rebuild_history;
use walzip_archive::set_aside::{
    Move, MovedTimeline, plan_put_back, plan_set_aside, plan_set_aside_from, put_back, set_aside,
};
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{AsideLabel, Repository};

use crate::cluster_args::{self, ClusterArgs};
use crate::error::CommandError;
use crate::repo_args::{Place, RepoArgs};
use crate::{running_as_root, runtime};

/// Set the WAL of an abandoned timeline aside, or put it back; make a lost history
#[derive(Debug, clap::Args)]
pub struct TimelineArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    SetAside(SetAsideArgs),
    PutBack(PutBackArgs),
    RebuildHistory(RebuildHistoryArgs),
}

/// Where, and whether at last.
#[derive(Debug, clap::Args)]
struct OnArgs {
    /// Do it
    #[arg(long)]
    confirm: bool,

    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    cluster: ClusterArgs,
}

impl OnArgs {
    fn place(&self) -> Result<Place, CommandError> {
        let place = self.repo.sole_place(&self.repo.config()?)?;
        if self.confirm {
            running_as_root::refuse_foreign_repository(&place)?;
        }
        Ok(place)
    }

    async fn open(&self, place: &Place) -> Result<Repository, CommandError> {
        cluster_args::open(place, self.cluster.cluster).await
    }
}

/// Set aside the WAL of a timeline and of all that descend from it
///
/// A restored copy that was promoted and archived into this repository has taken a timeline's
/// number. When production is promoted to the same number, its history is refused (exit code 45),
/// and its WAL waits. If the copy is abandoned, this moves what it archived below aside in the
/// repository, where no restore looks; nothing is lost, and "put-back" brings it back.
///
/// With --from, only a part of a timeline moves: what a copy of the server has archived on
/// production's own timeline, or the old primary after a failover. The first segment in which it
/// differs is the one that the server's archive_command is refused with (exit code 45); after a
/// failover, the one that the hint of a restore names (exit code 110): that in which production's
/// timeline left, or the one behind it where a backup ends there.
/// Segments before it that are in a pack with it stay, as objects of their own.
///
/// Stop the abandoned server first, or its archiving, and recoveries of that timeline. Wait five minutes before
/// another recovery begins where one has run: it may be handed what was fetched for the one before. Without
/// --confirm, this only says what would be moved. When it is interrupted, run it again. Run only one at a time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip timeline set-aside 2 --repo /var/lib/walzip
  walzip timeline set-aside 2 --repo /var/lib/walzip --confirm")]
struct SetAsideArgs {
    /// The timeline's number, as "walzip info" shows it
    #[arg(value_name = "TIMELINE")]
    timeline: u32,

    /// Only from this segment of the timeline on, and the timelines that left it behind that segment:
    /// what a copy of the server has archived under the names of the server's own WAL, or the old
    /// primary after a failover
    #[arg(long, value_name = "SEGMENT")]
    from: Option<String>,

    /// With --from, also where segments of these names were set aside before
    #[arg(long, requires = "from")]
    again: bool,

    #[command(flatten)]
    on: OnArgs,
}

/// Put back what was set aside
///
/// Refused, before anything is moved, when other content has one of the names by now; the same content
/// is no hindrance. Without --confirm, this only says what would be moved. When it is interrupted, run it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip timeline put-back 00000002 --repo /var/lib/walzip --confirm")]
struct PutBackArgs {
    /// What to put back, as "walzip info" shows it: 00000002; or the timeline's number
    #[arg(value_name = "LABEL")]
    label: String,

    #[command(flatten)]
    on: OnArgs,
}

/// Make the history of a timeline that the archive has lost
///
/// A restore is refused (exit code 26) where the archive has WAL of a timeline, but not its history.
/// Where a server on that timeline or a later one still has the file in its pg_wal, push that one.
/// Otherwise this makes the file of the history of a timeline that descends from it, which has the same
/// lines; or of its first archived segment, which says where it began. Without --confirm, this only prints it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip timeline rebuild-history 3 --repo /var/lib/walzip --confirm")]
struct RebuildHistoryArgs {
    /// The timeline's number, as the refusal says it
    #[arg(value_name = "TIMELINE")]
    timeline: u32,

    #[command(flatten)]
    on: OnArgs,
}

/// Runs the command.
pub fn run(args: TimelineArgs) -> Result<(), CommandError> {
    match args.what {
        What::SetAside(args) => run_set_aside(args),
        What::PutBack(args) => run_put_back(args),
        What::RebuildHistory(args) => run_rebuild_history(args),
    }
}

fn run_set_aside(args: SetAsideArgs) -> Result<(), CommandError> {
    let place = args.on.place()?;
    runtime::block_on(async {
        let repository = args.on.open(&place).await?;
        let timeline = TimelineId(args.timeline);
        let plan = match &args.from {
            None => plan_set_aside(&repository, timeline).await?,
            Some(from) => {
                let from = segment(from, timeline)?;
                plan_set_aside_from(&repository, from, args.again).await?
            }
        };
        let label = plan.label;
        let directory = format!("aside/{}/{label}", repository.cluster().name());
        if plan.objects() == 0 {
            let part = args.from.map(|from| format!(" from {from} on"));
            let part = part.unwrap_or_default();
            return say(format_args!(
                "timeline {timeline}{part} is set aside already, as {label}: nothing to do"
            ));
        }
        for moved in &plan.timelines {
            say(describe(moved))?;
        }
        if let (Some(first), Some(last)) = (plan.staying().first(), plan.staying().last()) {
            say(format_args!(
                "{first} to {last}, in a pack with what moves, stay: segments {}",
                plan.staying().len()
            ))?;
        }
        if !args.on.confirm {
            return would_move(&plan, format_args!("to {directory}"));
        }
        set_aside(&repository, &plan).await?;
        say(format_args!(
            "moved to {directory}: WAL files {}; \"walzip timeline put-back {label}\" puts them \
             back",
            plan.objects()
        ))
    })
}

/// A segment of a timeline.
fn segment(name: &str, timeline: TimelineId) -> Result<SegmentName, CommandError> {
    let segment: SegmentName = name.parse().map_err(ArchiveError::from)?;
    match segment.timeline == timeline {
        true => Ok(segment),
        false => Err(ArchiveError::Request(format!(
            "{segment} is of timeline {}, not of timeline {timeline}",
            segment.timeline
        ))
        .into()),
    }
}

/// A label, or the number of a timeline, by which it was set aside.
fn label(text: &str) -> Result<AsideLabel, CommandError> {
    const LABEL_LEN: usize = 8;
    match text.parse::<u32>() {
        Ok(number) if text.len() < LABEL_LEN => Ok(format!("{number:08X}").parse()?),
        _ => Ok(text.parse()?),
    }
}

fn run_put_back(args: PutBackArgs) -> Result<(), CommandError> {
    let label = label(&args.label)?;
    let place = args.on.place()?;
    runtime::block_on(async {
        let repository = args.on.open(&place).await?;
        let plan = plan_put_back(&repository, label).await?;
        let directory = format!("aside/{}/{label}", repository.cluster().name());
        if !args.on.confirm {
            return would_move(&plan, format_args!("from {directory} back to wal"));
        }
        put_back(&repository, &plan).await?;
        say(format_args!(
            "put back from {directory}: WAL files {}",
            plan.objects()
        ))
    })
}

fn run_rebuild_history(args: RebuildHistoryArgs) -> Result<(), CommandError> {
    let place = args.on.place()?;
    runtime::block_on(async {
        let repository = args.on.open(&place).await?;
        let rebuilt = rebuild_history(&repository, TimelineId(args.timeline)).await?;
        let name = &rebuilt.name;
        say(format_args!(
            "{name}: timeline {} left timeline {} at {}",
            args.timeline, rebuilt.parent, rebuilt.switch
        ))?;
        if !args.on.confirm {
            say(String::from_utf8_lossy(&rebuilt.content).trim_end())?;
            rebuilt.check(&repository).await?;
            return say("nothing was done: --confirm archives it");
        }
        rebuilt.archive(&repository).await?;
        say(format_args!("archived {name}"))
    })
}

fn would_move(plan: &Move, from_or_to: impl std::fmt::Display) -> Result<(), CommandError> {
    say(format_args!(
        "would move {from_or_to}: WAL files {}\nnothing was done: --confirm does it",
        plan.objects()
    ))
}

fn describe(moved: &MovedTimeline) -> String {
    let timeline = moved.timeline;
    let from = match moved.parent {
        Some((parent, at)) => format!("left timeline {parent} at {at}"),
        None if timeline == TimelineId(1) => "the first one".to_owned(),
        None => "its history is lost".to_owned(),
    };
    let times = match (moved.first_time, moved.last_time) {
        (None, None) => "no times".to_owned(),
        (first, last) => {
            let shown = |time: Option<_>| time.map_or("?".to_owned(), |time| format!("{time:.0}"));
            format!("times from {} to {}", shown(first), shown(last))
        }
    };
    format!(
        "timeline {timeline}: {from}; segments {}, {} bytes stored, {times}",
        moved.segments, moved.stored_bytes
    )
}

fn say(line: impl std::fmt::Display) -> Result<(), CommandError> {
    let written: io::Result<()> = writeln!(io::stdout(), "{line}");
    written.map_err(CommandError::stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_be_the_number_of_a_timeline() {
        let of = |text| label(text).map(|label| label.to_string()).ok();
        assert_eq!(of("2").as_deref(), Some("00000002"));
        assert_eq!(of("11").as_deref(), Some("0000000B"));
        assert_eq!(of("0000000B").as_deref(), Some("0000000B"));
        assert_eq!(of("00000011-2").as_deref(), Some("00000011-2"));
        assert_eq!(of("B"), None);
    }
}
