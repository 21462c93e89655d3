//! `import`: the WAL of another program's archive into this one.
//!
//! Each file is unpacked in memory, held against its name and the cluster, encoded, proven by
//! decoding, and created: what `push` does, with another reader. So it can be interrupted and
//! repeated, and two archives that were written to at the same time are told apart: what is there
//! with the same content is passed over, what has another content is a finding, and nothing is
//! replaced. Of the other archive nothing is changed.
//!
//! A segment says whose it is; a history does not, and is its archive's. What cannot be taken is a
//! finding and does not keep the rest back; an error is only what keeps us from going on.

mod find;
mod findings;
mod plan;
mod source;
mod unpack;

use std::collections::HashMap;
use std::path::Path;

use futures::StreamExt;
use serde::Serialize;
use walzip_pgformat::TimelineId;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{ClusterIdentity, Repository};

use crate::cluster::choice::ClusterChoice;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use crate::push::unfinished_segment;
use crate::push::{PushOptions, PushOutcome, Pushed, WalFile};
use crate::wal::content;
pub use findings::{Finding, FindingKind};
use findings::{Trouble, found_by_search};
use plan::{Part, Plan, Task, first_of_each};
use unpack::Flaw;

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// How to encode.
    pub push: PushOptions,
    /// The cluster whose WAL is taken; all of the repository's, where none is named.
    pub cluster: Option<ClusterChoice>,
    /// How many files are worked on at the same time, each in the memory of a few segments.
    pub parallel: usize,
    /// Say what would be done, by the names of the files.
    pub dry_run: bool,
    /// What the repository has under a name is not compared.
    pub trust_names: bool,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            push: PushOptions::default(),
            cluster: None,
            parallel: 2,
            dry_run: false,
            trust_names: false,
            progress: Progress::default(),
        }
    }
}

/// What was done, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Import {
    /// Nothing was stored: the counts say what would be.
    pub dry_run: bool,
    /// Files that were taken over.
    pub imported: u64,
    /// Their size in the other archive.
    pub source_bytes: u64,
    /// Their size as PostgreSQL wrote them; 0 in a dry run.
    pub original_bytes: u64,
    /// Their size in the repository; 0 in a dry run.
    pub stored_bytes: u64,
    /// Files that the repository had already, with the same content.
    pub identical: u64,
    /// Files whose names the repository had already, which were not compared.
    pub not_compared: u64,
    /// WAL of other clusters.
    pub left_out: Vec<LeftOut>,
    /// Files that are no WAL.
    pub other_files: u64,
    /// Segments that a server has made ready for later in its `pg_wal`, and not begun.
    pub unused: u64,
    /// What could not be taken over, empty when all is well.
    pub findings: Vec<Finding>,
}

/// WAL that is another cluster's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The directory.
    pub directory: String,
    /// Whose it is.
    pub cluster: String,
    /// How many files.
    pub files: u64,
}

/// What became of one file.
#[derive(Debug)]
enum Done {
    Stored(Pushed),
    Identical,
    NotCompared,
    WouldStore,
    /// It is another cluster's.
    Foreign(ClusterIdentity),
    /// A history that does not fit the WAL in the repository, which may be because that is not
    /// complete yet.
    Later(Box<ArchiveError>),
}

/// Takes over the WAL below a directory.
pub async fn import(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
) -> Result<Import, ArchiveError> {
    let parts = Part::all(repository, options.cluster).await?;
    let place = directory.to_owned();
    let found = off_the_runtime(move || find::find(&place)).await?;
    let mut import = Import {
        dry_run: options.dry_run,
        other_files: found.other_files,
        unused: found.unused,
        findings: found_by_search(directory, &found),
        ..Import::default()
    };
    let plan = Plan::make(directory, found, &parts, &mut import).await?;
    let total = plan.tasks.iter().map(|task| task.source.size_bytes).sum();
    options.progress.begin(Phase::ImportingWal, total);
    let run = Run {
        directory,
        parts,
        options,
    };
    // What is there is compared first: nothing is put behind a segment that is another one.
    let (there, new): (Vec<&Task>, Vec<&Task>) =
        plan.tasks.iter().partition(|task| run.is_there(task));
    // Of several under one name the first one is taken, whichever is read faster.
    let (new, again) = first_of_each(new);
    let mut first = First::default();
    for tasks in [there, new] {
        run.all(&tasks, &mut first, &mut import).await?;
    }
    run.again(&again, &mut import).await?;
    for (task, refusal) in first.later {
        let is_contradicted = first.conflicts.contains_key(&task.source.name.timeline());
        let done = match is_contradicted {
            true => Err(refusal.into()),
            false => run.history_after_all(task, refusal).await,
        };
        match done {
            Ok(done) => run.count(task, done, &mut import),
            Err(trouble) => import.findings.push(run.finding(task, trouble)?),
        }
    }
    for part in run.parts {
        import.findings.extend(part.not_continued().await);
    }
    import.findings.sort();
    Ok(import)
}

/// What of a run has to be looked at again.
#[derive(Default)]
struct First<'t> {
    /// Histories that have to wait for WAL, and why.
    later: Vec<(&'t Task, ArchiveError)>,
    /// Timelines of which the repository has other files, and the first of these.
    conflicts: HashMap<TimelineId, WalFileName>,
}

impl First<'_> {
    fn add_conflict(&mut self, name: WalFileName) {
        let first = self.conflicts.entry(name.timeline()).or_insert(name);
        if name.to_string() < first.to_string() {
            *first = name;
        }
    }

    /// The segment before this one, or the history of its timeline, of which the repository has another one.
    fn conflict_before(&self, name: &WalFileName) -> Option<WalFileName> {
        let conflict = self.conflicts.get(&name.timeline())?;
        let decides = matches!(conflict, WalFileName::Segment(_) | WalFileName::History(_));
        // A history's name is less than those of its timeline's segments.
        let is_after = name.segment().is_some() && conflict.to_string() < name.to_string();
        (decides && is_after).then_some(*conflict)
    }
}

struct Run<'a> {
    directory: &'a Path,
    parts: Vec<Part>,
    options: &'a ImportOptions,
}

impl Run<'_> {
    /// Does all of it, except for what has to be looked at again.
    async fn all<'t>(
        &self,
        tasks: &[&'t Task],
        first: &mut First<'t>,
        import: &mut Import,
    ) -> Result<(), ArchiveError> {
        let before = tasks
            .iter()
            .map(|task| first.conflict_before(&task.source.name));
        let before: Vec<Option<WalFileName>> = before.collect();
        let work = tasks
            .iter()
            .zip(before)
            .map(async |(task, conflict)| match conflict {
                Some(conflict) => Err(Trouble::Behind(conflict)),
                None => self.one(task).await,
            });
        let mut work = futures::stream::iter(work).buffered(self.options.parallel.max(1));
        let mut tasks = tasks.iter().copied();
        while let (Some(done), Some(task)) = (work.next().await, tasks.next()) {
            self.options.progress.add(task.source.size_bytes);
            match done {
                Ok(Done::Later(refusal)) => first.later.push((task, *refusal)),
                Ok(done) => self.count(task, done, import),
                Err(trouble) => {
                    if matches!(trouble, Trouble::Error(ArchiveError::Duplicate { .. })) {
                        first.add_conflict(task.source.name);
                    }
                    import.findings.push(self.finding(task, trouble)?);
                }
            }
        }
        Ok(())
    }

    /// Files of names of which one was taken before: one with other content is the other archive's own contradiction.
    async fn again(&self, tasks: &[&Task], import: &mut Import) -> Result<(), ArchiveError> {
        for &task in tasks {
            let done = self.one(task).await;
            self.options.progress.add(task.source.size_bytes);
            match done {
                Ok(Done::Later(refusal)) => {
                    let finding = self.finding(task, Trouble::Error(*refusal))?;
                    import.findings.push(finding);
                }
                Ok(done) => self.count(task, done, import),
                Err(Trouble::Error(ArchiveError::Duplicate { .. })) => {
                    import
                        .findings
                        .push(self.finding(task, Trouble::TwoContents)?);
                }
                Err(trouble) => import.findings.push(self.finding(task, trouble)?),
            }
        }
        Ok(())
    }

    /// Whether a cluster of the repository has a file of this name.
    fn is_there(&self, task: &Task) -> bool {
        let name = task.source.name.to_string();
        self.parts.iter().any(|part| part.names.contains(&name))
    }

    async fn one(&self, task: &Task) -> Result<Done, Trouble> {
        let name = task.source.name.to_string();
        if let WalFileName::Segment(segment) = task.source.name
            && unfinished_segment::is_unfinished(&task.source.path, segment)
        {
            return Err(Trouble::Unfinished);
        }
        if (self.options.dry_run || self.options.trust_names)
            && let Some(cluster) = self.owner_by_beginning(task).await?
        {
            match self.part_of(cluster) {
                None => return Ok(Done::Foreign(cluster)),
                Some(part) if part.names.contains(&name) => return Ok(Done::NotCompared),
                Some(_) if self.options.dry_run => return Ok(Done::WouldStore),
                Some(_) => {}
            }
        }
        let (file, owner) = self.read(task).await?;
        let Some(owner) = owner else {
            return Err(Trouble::NobodysHistory);
        };
        let Some(part) = self.part_of(owner) else {
            return Ok(Done::Foreign(owner));
        };
        if part.names.contains(&name) {
            // Encoding it would be work for nothing.
            file.compare(&part.repository).await?;
            return Ok(Done::Identical);
        }
        if self.options.dry_run {
            return Ok(Done::WouldStore);
        }
        match file.archive(&part.repository, &self.options.push).await {
            Ok(pushed) => {
                part.add_neighbour(&name, file.edges().await?);
                Ok(Done::of(pushed))
            }
            Err(refusal @ ArchiveError::HistoryConflict { .. }) => {
                Ok(Done::Later(Box::new(refusal)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whose a file is, without reading all of it. Nothing of a segment that cannot be read.
    async fn owner_by_beginning(&self, task: &Task) -> Result<Option<ClusterIdentity>, Trouble> {
        if task.owner.is_some() || task.source.name.segment().is_none() {
            return Ok(task.owner);
        }
        let source = task.source.clone();
        Ok(off_the_runtime(move || unpack::cluster(&source)).await?)
    }

    /// A file's content, and whose it is.
    async fn read(&self, task: &Task) -> Result<(WalFile, Option<ClusterIdentity>), Trouble> {
        let source = task.source.clone();
        let content = off_the_runtime(move || unpack::unpack(&source)).await?;
        if let WalFileName::History(timeline) = task.source.name
            && let Err(error) = TimelineHistory::read(timeline, &content)
        {
            return Err(Flaw::Damaged(error.to_string()).into());
        }
        let owner = match task.source.name {
            WalFileName::Segment(_) | WalFileName::Partial(_) => {
                content::cluster_of_segment(&content)
            }
            WalFileName::History(_) | WalFileName::BackupHistory { .. } => task.owner,
        };
        let file = WalFile::unpacked(&task.source.path, task.source.name, content);
        Ok((file, owner))
    }

    /// Stores a history that was refused for the WAL of its timeline, where that only lacks the
    /// timeline's beginning, here and in the other archive: PostgreSQL archived it there beside
    /// that WAL.
    async fn history_after_all(&self, task: &Task, refusal: ArchiveError) -> Result<Done, Trouble> {
        let (file, owner) = self.read(task).await?;
        let Some(part) = owner.and_then(|owner| self.part_of(owner)) else {
            return Err(refusal.into());
        };
        let (repository, options) = (&part.repository, &self.options.push);
        let pushed = match file.archive(repository, options).await {
            Err(ArchiveError::HistoryConflict { is_gap: true, .. }) => {
                file.store(repository, options).await?
            }
            other => other?,
        };
        Ok(Done::of(pushed))
    }

    fn part_of(&self, cluster: ClusterIdentity) -> Option<&Part> {
        plan::part_of(&self.parts, cluster)
    }

    fn count(&self, task: &Task, done: Done, import: &mut Import) {
        match done {
            Done::Stored(pushed) => {
                import.imported += 1;
                import.source_bytes += task.source.size_bytes;
                import.original_bytes += pushed.original_bytes;
                import.stored_bytes += pushed.stored_bytes;
            }
            Done::WouldStore => {
                import.imported += 1;
                import.source_bytes += task.source.size_bytes;
            }
            Done::Identical => import.identical += 1,
            Done::NotCompared => import.not_compared += 1,
            Done::Foreign(cluster) => {
                let directory = task.source.path.parent().unwrap_or(self.directory);
                import.leave_out(findings::shown(self.directory, directory), cluster, 1);
            }
            Done::Later(_) => {}
        }
    }

    fn finding(&self, task: &Task, trouble: Trouble) -> Result<Finding, ArchiveError> {
        let file = findings::shown(self.directory, &task.source.path);
        findings::finding(file, trouble)
    }
}

impl Done {
    fn of(pushed: Pushed) -> Done {
        match pushed.outcome {
            PushOutcome::Stored => Done::Stored(pushed),
            PushOutcome::AlreadyStored | PushOutcome::NothingThere => Done::Identical,
        }
    }
}

impl Import {
    fn leave_out(&mut self, directory: String, cluster: ClusterIdentity, files: u64) {
        let cluster = cluster.to_string();
        let known = self.left_out.iter_mut();
        let mut known = known.filter(|left| left.directory == directory && left.cluster == cluster);
        match known.next() {
            Some(left) => left.files += files,
            None => self.left_out.push(LeftOut {
                directory,
                cluster,
                files,
            }),
        }
    }
}
