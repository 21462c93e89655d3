//! `walzip repo`: the objects of a repository by their keys.

use std::io::Write;
use std::path::{Path, PathBuf};

use walzip_archive::expire::{self, OnlyCopies, protection};
use walzip_archive::progress::Progress;
use walzip_archive::repository_copy;
use walzip_repo::browse::{self, Listed};
use walzip_repo::{
    CopiedRepository, CopyRepositoryOptions, Location, StoreSettings, begin_encryption, open_store,
};

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::progress_line::ProgressLine;
use crate::repo_args::{self, Place, RepoArgs};
use crate::{running_as_root, runtime};

/// Look at the objects of a repository, and remove single ones
#[derive(Debug, clap::Args)]
pub struct RepoCommandArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Ls(LsArgs),
    Cat(CatArgs),
    Rm(RmArgs),
    Copy(CopyArgs),
}

/// List the objects below a prefix
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip repo ls backup --repo /var/lib/walzip")]
struct LsArgs {
    /// Where to look: backup, or wal/15-7575000000000000001 [default: everywhere]
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    /// All objects below it, not one level only
    #[arg(long)]
    recurse: bool,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Write an object as it is stored to standard output
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip repo cat backup/20261121-220130F/backup.json --repo /var/lib/walzip")]
struct CatArgs {
    /// The object's key, as "walzip repo ls" shows it
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Copy the repository to another place, or bring a copy up to date
///
/// Every object that is put is read back and compared: what is damaged here is damaged there, and "walzip
/// verify" finds it in either place. What was there before is compared by its size only, and of a backup that
/// had not come whole by its content. Backups that are not finished are left out. Until all is
/// there, the place has no repository; when it is interrupted, run it again. What was removed from
/// the repository since an earlier copy stays in the copy. With --to-key-file the copy is encrypted,
/// whether the repository is or not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip repo copy s3://wal-archive/db1 --repo /var/lib/walzip
  walzip repo copy /mnt/safe/walzip --to-key-file /etc/walzip.key --repo s3://wal-archive/db1")]
struct CopyArgs {
    /// Where to: a path, or a URL
    #[arg(value_name = "PATH|URL")]
    to: String,

    /// The key file of the copy, if it is to be encrypted
    #[arg(long, value_name = "FILE")]
    to_key_file: Option<PathBuf>,

    /// Make a copy that is not encrypted of a repository that is
    #[arg(long, conflicts_with = "to_key_file")]
    to_plain: bool,

    /// Compare what was there before by its content too, not by its size alone
    #[arg(long)]
    compare: bool,

    /// How many objects are on their way at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Remove an object
///
/// "walzip expire" removes backups and WAL that are not wanted any more: this is for what it passes
/// over, such as an object that does not belong there. An object that a backup may need, or that says
/// what the repository is, is refused with exit code 116, unless --force says so. A pack of WAL whose segments
/// have no objects of their own takes their only copies with it: that needs --with-only-copies too. Without --confirm,
/// nothing is removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip repo rm backup/notes.txt --repo /var/lib/walzip --confirm")]
struct RmArgs {
    /// The object's key, as "walzip repo ls" shows it
    #[arg(value_name = "KEY")]
    key: String,

    /// Do it
    #[arg(long)]
    confirm: bool,

    /// Even if a backup cannot be restored afterwards
    #[arg(long)]
    force: bool,

    /// Even a pack with segments that are nowhere else
    #[arg(long, requires = "force")]
    with_only_copies: bool,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Runs the command.
pub fn run(args: RepoCommandArgs) -> Result<(), CommandError> {
    match args.what {
        What::Ls(args) => ls(args),
        What::Cat(args) => cat(args),
        What::Copy(args) => copy(args),
        What::Rm(args) => rm(args),
    }
}

fn ls(args: LsArgs) -> Result<(), CommandError> {
    let location = args.repo.place(&args.repo.config()?)?;
    let listed = runtime::block_on(async {
        let store = open_store(&location, &location.settings)?;
        Ok(browse::list(store.as_ref(), &args.prefix, args.recurse).await?)
    })?;
    if args.json {
        return crate::json::print_json(&listed);
    }
    if listed.is_empty() {
        let message = format!("{location} has nothing below \"{}\"", args.prefix);
        return Err(CommandError::new(Kind::FileMissing, message));
    }
    let mut out = std::io::stdout().lock();
    for object in &listed {
        write_line(&mut out, object).map_err(CommandError::stdout)?;
    }
    Ok(())
}

fn write_line(out: &mut impl Write, object: &Listed) -> std::io::Result<()> {
    let size = object.size_bytes.map(|size| size.to_string());
    let time = object.modified.map(|time| format!("{time:.0}"));
    let (size, time) = (size.unwrap_or_default(), time.unwrap_or_default());
    writeln!(out, "{size:>15}  {time:20}  {}", object.key)
}

fn cat(args: CatArgs) -> Result<(), CommandError> {
    let location = args.repo.place(&args.repo.config()?)?;
    runtime::block_on(async {
        let store = open_store(&location, &location.settings)?;
        let mut object = browse::read(store.as_ref(), &args.key).await?;
        let mut out = std::io::stdout().lock();
        while let Some(bytes) = object.next().await? {
            out.write_all(&bytes).map_err(CommandError::stdout)?;
        }
        out.flush().map_err(CommandError::stdout)
    })
}

fn rm(args: RmArgs) -> Result<(), CommandError> {
    let location = args.repo.sole_place(&args.repo.config()?)?;
    if args.confirm {
        running_as_root::refuse_foreign_repository(&location)?;
    }
    runtime::block_on(async {
        let store = open_store(&location, &location.settings)?;
        let object = browse::find(store.as_ref(), &args.key).await?;
        if !args.force {
            let repository = repo_args::open(&location).await?;
            if let Some(why) = protection(&repository, &args.key).await? {
                let message = format!("{} is not removed: {why}", args.key);
                return Err(CommandError::new(Kind::Protected, message).hint(
                    "\"walzip expire\" removes backups and WAL; \"walzip expire --set LABEL\" one \
                     backup. --force removes the object whatever becomes of the rest.",
                ));
            }
        }
        if !args.with_only_copies
            && let Some(lost) = expire::only_copies(&store, &args.key).await?
        {
            return Err(only_copies(&args.key, &lost));
        }
        let mut out = std::io::stdout();
        let size = object.size_bytes.unwrap_or_default();
        if !args.confirm {
            return writeln!(
                out,
                "would remove {}, {size} bytes\nnothing was done: --confirm does it",
                args.key
            )
            .map_err(CommandError::stdout);
        }
        browse::remove(store.as_ref(), &args.key).await?;
        writeln!(out, "removed {}, {size} bytes", args.key).map_err(CommandError::stdout)
    })
}

/// A pack that is removed takes segments with it.
fn only_copies(key: &str, lost: &OnlyCopies) -> CommandError {
    let OnlyCopies {
        segments,
        first,
        last,
    } = lost;
    let message = format!(
        "{key} is not removed: segments of it that have no object of their own with the same content: {segments}, from \
         {first} to {last}"
    );
    CommandError::new(Kind::Protected, message).hint(
        "\"walzip verify\" names those that cannot be decoded; get the others first (walzip archive-get NAME FILE). A \
         server that has one of them still archives it again (walzip archive-push). --with-only-copies beside --force \
         removes the pack, and with it what is nowhere else.",
    )
}

/// A directory within the repository, or around it, would be part of what it is a copy of.
fn refuse_nested(from: &Location, to: &Location) -> Result<(), CommandError> {
    let (Location::Local(from), Location::Local(to)) = (from, to) else {
        return Ok(());
    };
    let whole = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let known = path.ancestors().find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            Some(above.canonicalize().ok()?.join(rest))
        });
        known.unwrap_or(path)
    };
    let (whole_from, whole_to) = (whole(from), whole(to));
    if !whole_from.starts_with(&whole_to) && !whole_to.starts_with(&whole_from) {
        return Ok(());
    }
    let message = format!(
        "{} and {} are one directory, or one lies in the other",
        to.display(),
        from.display()
    );
    Err(CommandError::new(Kind::OptionInvalid, message)
        .hint("Choose a place for the copy that is outside of the repository."))
}

fn copy(args: CopyArgs) -> Result<(), CommandError> {
    let place = args.repo.place(&args.repo.config()?)?;
    let to = Location::parse(&args.to)?;
    let mut settings = place.settings.clone();
    settings.key_file = args.to_key_file;
    if place.settings.key_file.is_some() && settings.key_file.is_none() && !args.to_plain {
        let message = format!("{place} is encrypted, and a copy would not be");
        return Err(CommandError::new(Kind::OptionRequired, message)
            .hint("Name the copy's key file with --to-key-file, or say --to-plain."));
    }
    refuse_nested(&place, &to)?;
    running_as_root::refuse_foreign_repository(&to)?;
    let options = CopyRepositoryOptions {
        parallel: usize::from(args.parallel),
        compare: args.compare,
    };
    let copied = runtime::block_on(copy_objects(&place, (&to, &settings), options))?;
    report_copied(&mut std::io::stdout().lock(), &to, &copied).map_err(CommandError::stdout)?;
    problems_of_copy(&copied)
}

async fn copy_objects(
    place: &Place,
    (to, settings): (&Location, &StoreSettings),
    options: CopyRepositoryOptions,
) -> Result<CopiedRepository, CommandError> {
    let repository = repo_args::open(place).await?;
    begin_encryption(to, settings, &[]).await?;
    let store = open_store(to, settings)?;
    if settings.key_file.is_none() && !browse::list(store.as_ref(), "keys", true).await?.is_empty()
    {
        let message = format!("an encrypted copy was begun in {to}");
        return Err(CommandError::new(Kind::OptionRequired, message)
            .hint("Name its key file with --to-key-file, or choose another place."));
    }
    let progress = Progress::default();
    let _line = ProgressLine::show(&progress);
    Ok(repository_copy::copy(&repository, store.as_ref(), options, &progress).await?)
}

fn report_copied(
    out: &mut impl Write,
    to: &Location,
    copied: &CopiedRepository,
) -> std::io::Result<()> {
    for label in &copied.left_out {
        writeln!(out, "left out: backup {label}, which is not finished")?;
    }
    for label in &copied.incomplete {
        writeln!(out, "INCOMPLETE: backup {label} did not come whole")?;
    }
    for (key, detail) in &copied.damaged {
        writeln!(out, "damaged: {key}: {detail}")?;
    }
    for key in &copied.conflicts {
        writeln!(out, "conflict: {to} has something else under {key}")?;
    }
    if copied.behind_conflicts > 0 {
        writeln!(
            out,
            "left out: {} WAL files that come after a conflict on their timeline",
            copied.behind_conflicts
        )?;
    }
    writeln!(
        out,
        "copied to {to}: objects {}, {} bytes; there before: {}; not walzip's: {}",
        copied.objects, copied.bytes, copied.there, copied.unknown
    )
}

fn problems_of_copy(copied: &CopiedRepository) -> Result<(), CommandError> {
    let conflicts = copied.conflicts.len();
    let (damaged, incomplete) = (copied.damaged.len(), copied.incomplete.len());
    if conflicts + damaged + incomplete == 0 {
        return Ok(());
    }
    let message = format!(
        "the copy is not complete: conflicts {conflicts}, damaged {damaged}, backups {incomplete}"
    );
    Err(CommandError::new(Kind::Problems, message).hint(
        "Where a history or a segment conflicts, nothing after it is copied: \"walzip timeline set-aside\" on \
         the copy makes room for it.",
    ))
}
