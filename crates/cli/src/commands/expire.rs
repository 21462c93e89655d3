//! `walzip expire`: what the retention does not keep is removed.

use std::fmt;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::Path;

use jiff::SignedDuration;
use walzip_archive::ArchiveError;
use walzip_archive::expire::{
    BackupState, ClusterPlan, ExpireRequest, Plan, Retention, expire, plan_expire,
};
use walzip_archive::push::check_own;
use walzip_repo::{BackupLabel, Location};

use crate::competing_timelines;
use crate::config::Config;
use crate::duration::duration;
use crate::each_repository::{each, write_heading};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::{self, Place, RepoArgs};
use crate::table::write_section;
use crate::{running_as_root, runtime};

/// Where the environment has a retention.
const FULL_VARIABLE: &str = "WALZIP_REPO_RETENTION_FULL";
const WINDOW_VARIABLE: &str = "WALZIP_REPO_RETENTION_WINDOW";

/// Remove backups and WAL that the retention does not keep
///
/// Kept are the last full backups (--retention-full) and all backups after them, and every moment of
/// the window (--retention-window): the newest backup before it and all after that. What the one keeps
/// the other does not remove. Pinned backups stay, and what a kept backup needs. WAL is kept from the
/// oldest kept backup on; of a backup that only its pin keeps, the WAL of its own moment. In doubt
/// everything is kept, and the plan says why. Leftovers of backups that were given up are removed.
///
/// Without --confirm, this only says what would be removed. When it is interrupted, run it again.
/// Without --repo, this is done in all repositories of the configuration file, each with its own
/// retention.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip expire --repo /var/lib/walzip --retention-full 4 --retention-window 14d
  walzip expire --repo /var/lib/walzip --retention-full 4 --retention-window 14d --confirm")]
pub struct ExpireArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Keep so many full backups, and all backups after the oldest of them [config:
    /// repo-retention-full]
    #[arg(
        long,
        value_name = "N",
        env = FULL_VARIABLE,
        hide_env_values = true
    )]
    retention_full: Option<NonZeroU32>,

    /// Keep every moment for so long back: 14d, 36h, 2w [config: repo-retention-window]
    #[arg(
        long,
        value_name = "TIME",
        env = WINDOW_VARIABLE,
        hide_env_values = true
    )]
    #[arg(value_parser = duration)]
    retention_window: Option<SignedDuration>,

    /// Remove this backup only, whatever the retention says; may be repeated. Refused where other
    /// backups need it. The WAL stays until the next run without --set
    #[arg(long, value_name = "LABEL")]
    #[arg(conflicts_with = "aside")]
    set: Vec<String>,

    /// With --set, remove it even if no complete backup is left: where all that are left are another
    /// server's
    #[arg(long, requires = "set")]
    force: bool,

    /// An unfinished backup that has not changed for so long was given up
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    unfinished_age: SignedDuration,

    /// Also remove what "walzip timeline set-aside" has put away before the oldest kept backup began
    #[arg(long)]
    aside: bool,

    /// Go on although something in the repository is younger than the clock says
    #[arg(long)]
    ignore_clock: bool,

    /// Only say what would be removed, as without --confirm
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,

    /// Do it
    #[arg(long)]
    confirm: bool,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: ExpireArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = match args.set.is_empty() {
        true => args.repo.places(&config, None)?,
        // A label is one repository's.
        false => vec![args.repo.sole_place(&config)?],
    };
    // What the one keeps, the other would remove.
    repo_args::refuse_the_same(&places, Location::leads_to_same_place)?;
    let is_given = args.retention_full.is_some() || args.retention_window.is_some();
    if places.len() > 1 && is_given {
        let message = "a retention is one repository's, and the configuration file has several";
        return Err(CommandError::new(Kind::OptionRequired, message)
            .hint("Say which one is meant, --repo N, or set the retention of each in the file."));
    }
    let plans = each(&places, |place| {
        let plan = expire_one(&args, place, config.pgdata.as_deref())?;
        plan.clusters.iter().for_each(warn_of_competing);
        plan.clusters.iter().for_each(warn_of_lost_histories);
        if !args.json {
            let is_done = args.confirm;
            let text = Text {
                plan: &plan,
                is_done,
            };
            let mut out = std::io::stdout().lock();
            let written = write_heading(&mut out, place).and_then(|()| write!(out, "{text}"));
            written.map_err(CommandError::stdout)?;
        }
        Ok(plan)
    });
    if args.json {
        plans.print_json()?;
    }
    plans.finish().map(|_| ())
}

fn expire_one(
    args: &ExpireArgs,
    place: &Place,
    data_directory: Option<&Path>,
) -> Result<Plan, CommandError> {
    let request = request(args, &place.config)?;
    if args.confirm {
        running_as_root::refuse_foreign_repository(place)?;
    }
    runtime::block_on(async {
        let repository = repo_args::open(place).await?;
        if let Some(data_directory) = data_directory.filter(|_| args.set.is_empty()) {
            let checked = check_own(&repository, data_directory).await;
            checked.map_err(refused_server)?;
        }
        let plan = plan_expire(&repository, &request).await?;
        match args.confirm {
            true => Ok(expire(&repository, &request, &plan).await?),
            false => Ok(plan),
        }
    })
}

/// The backups that a retention would keep may be the other server's.
fn refused_server(error: ArchiveError) -> CommandError {
    match error {
        ArchiveError::Duplicate { .. } | ArchiveError::NotContinued { .. } => {
            let message = format!(
                "nothing is expired as long as this server's own WAL is refused, since the backups that are kept may be \
                 another server's: {error}"
            );
            CommandError::new(Kind::ArchiveDuplicate, message).hint(
                "Put away what the other server has archived (walzip timeline set-aside N --from SEGMENT), or expire \
                 where the other one runs, if that is production. A backup of the wrong one: walzip expire --set LABEL.",
            )
        }
        other => other.into(),
    }
}

fn request(args: &ExpireArgs, config: &Config) -> Result<ExpireRequest, CommandError> {
    let labels = args.set.iter().map(|label| label.parse());
    let set: Vec<BackupLabel> = labels.collect::<Result<_, _>>()?;
    let invalid = |key: &str, why: &str| {
        CommandError::new(Kind::Config, format_args!("the key \"{key}\": {why}"))
    };
    let full = match (args.retention_full, config.repo_retention_full) {
        (Some(full), _) => Some(full),
        (None, Some(full)) => {
            let full = NonZeroU32::new(full);
            Some(full.ok_or_else(|| invalid("repo-retention-full", "it is at least 1"))?)
        }
        (None, None) => None,
    };
    let window = match (args.retention_window, &config.repo_retention_window) {
        (Some(window), _) => Some(window),
        (None, Some(text)) => {
            Some(duration(text).map_err(|why| invalid("repo-retention-window", &why))?)
        }
        (None, None) => None,
    };
    if set.is_empty() && full.is_none() && window.is_none() {
        return Err(no_retention());
    }
    Ok(ExpireRequest {
        retention: Retention { full, window },
        set,
        unfinished_age: args.unfinished_age,
        aside: args.aside,
        ignores_clock: args.ignore_clock,
        takes_last: args.force,
    })
}

/// Whether the configuration of a repository or the environment has a retention.
pub(super) fn has_retention(config: &Config) -> bool {
    let is_set = |variable: &&str| std::env::var_os(variable).is_some();
    config.repo_retention_full.is_some()
        || config.repo_retention_window.is_some()
        || [FULL_VARIABLE, WINDOW_VARIABLE].iter().any(is_set)
}

fn no_retention() -> CommandError {
    no_retention_but_by("Use --retention-full or --retention-window, their variables,")
}

/// For a command without these flags.
pub(super) fn no_retention_to_serve() -> CommandError {
    no_retention_but_by("Set WALZIP_REPO_RETENTION_FULL or WALZIP_REPO_RETENTION_WINDOW,")
}

fn no_retention_but_by(way: &str) -> CommandError {
    CommandError::new(Kind::OptionRequired, "no retention is given").hint(format_args!(
        "{way} or the keys \"repo-retention-full\" and \"repo-retention-window\" of the configuration \
         file, which each repository has of its own (\"repo2-retention-full\")."
    ))
}

/// The plan for a person.
struct Text<'a> {
    plan: &'a Plan,
    is_done: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan;
        let (remove, done) = match self.is_done {
            true => ("removed", "removed"),
            false => ("remove", "would remove"),
        };
        let rows = plan.backups.iter().map(|backup| {
            let reasons: Vec<String> = backup.reasons.iter().map(ToString::to_string).collect();
            vec![
                backup.label.clone(),
                state(backup.state).to_owned(),
                if backup.removed { remove } else { "keep" }.to_owned(),
                megabytes(backup.stored_bytes),
                reasons.join("; "),
            ]
        });
        let heads = ["Backup", "state", "", "stored MB", "why"];
        write_section(f, &heads, rows.collect())?;
        for cluster in &plan.clusters {
            write_cluster(f, cluster, remove)?;
        }
        let wal: u64 = plan
            .clusters
            .iter()
            .flat_map(|cluster| &cluster.removed_wal)
            .map(|part| part.objects)
            .sum();
        let backups = plan.backups.iter().filter(|backup| backup.removed).count();
        writeln!(
            f,
            "\n{done}: backups {backups}, WAL files {wal}, {} MB",
            megabytes(plan.removed_bytes())
        )?;
        match (self.is_done, plan.removes_anything()) {
            (true, _) => Ok(()),
            (false, true) => writeln!(f, "nothing was done: --confirm does it"),
            (false, false) => writeln!(f, "nothing is to be done"),
        }
    }
}

fn write_cluster(f: &mut fmt::Formatter<'_>, cluster: &ClusterPlan, remove: &str) -> fmt::Result {
    let removed = cluster.removed_wal.iter().map(|part| {
        vec![
            remove.to_owned(),
            part.objects.to_string(),
            megabytes(part.stored_bytes),
            format!(
                "timeline {}, {} to {}",
                part.timeline, part.first, part.last
            ),
        ]
    });
    let aside = cluster.removed_aside.iter().map(|part| {
        vec![
            remove.to_owned(),
            part.objects.to_string(),
            megabytes(part.stored_bytes),
            format!("set aside as {}", part.label),
        ]
    });
    let kept = cluster.kept_wal.iter().map(|kept| {
        vec![
            "keep".to_owned(),
            kept.objects.to_string(),
            megabytes(kept.stored_bytes),
            kept.reason.to_string(),
        ]
    });
    let rows = removed.chain(aside).chain(kept).collect();
    let of = format!("WAL of {}", cluster.cluster);
    write_section(f, &[&of, "files", "stored MB", "which, or why"], rows)?;
    if cluster.superseded {
        writeln!(
            f,
            "the newest cluster fulfils the retention: nothing of {} is retained but pinned backups",
            cluster.cluster
        )?;
    }
    Ok(())
}

/// Nothing expires any more that is younger than where they parted, until somebody decides.
fn warn_of_competing(cluster: &ClusterPlan) {
    if !cluster.competing.is_empty() {
        tracing::warn!(
            "the backups of each are kept, and the WAL since they parted: {}",
            competing_timelines::question(&cluster.competing)
        );
    }
}

/// Nothing of the cluster expires any more until somebody brings them back.
fn warn_of_lost_histories(cluster: &ClusterPlan) {
    if let Some(first) = cluster.lost_histories.first() {
        let lost: Vec<String> = cluster.lost_histories.iter().map(u32::to_string).collect();
        tracing::warn!(
            "all backups and all WAL are kept: the history of timeline {} is lost, and what leads where is not certain. \
             \"walzip timeline rebuild-history {first}\" makes it again; \"walzip verify\" says more",
            lost.join(", ")
        );
    }
}

fn state(state: BackupState) -> &'static str {
    match state {
        BackupState::Finished => "finished",
        BackupState::Unreadable => "unreadable",
        BackupState::Unfinished => "unfinished",
        BackupState::HalfExpired => "half expired",
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
