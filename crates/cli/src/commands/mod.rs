//! The commands, in the order of a first day with walzip.

mod advise;
mod archive_get;
mod archive_push;
mod backup;
mod backup_get;
mod bench;
mod check;
mod compress;
mod decompress;
mod expire;
mod import;
mod info;
mod init;
mod inspect;
mod key;
mod manual;
mod metrics;
mod pack;
mod pin;
mod receive;
mod repo;
mod restore;
mod serve;
mod sync;
mod timeline;
mod upgrade;
mod verify;

use crate::error::CommandError;

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Compress(compress::CompressArgs),
    Decompress(decompress::DecompressArgs),
    Inspect(inspect::InspectArgs),
    Init(init::InitArgs),
    ArchivePush(archive_push::ArchivePushArgs),
    ArchiveGet(archive_get::ArchiveGetArgs),
    Receive(receive::ReceiveArgs),
    Import(import::ImportArgs),
    Check(check::CheckArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    BackupGet(backup_get::BackupGetArgs),
    Info(info::InfoArgs),
    Metrics(metrics::MetricsArgs),
    Serve(serve::ServeArgs),
    Verify(verify::VerifyArgs),
    Expire(expire::ExpireArgs),
    Pack(pack::PackArgs),
    Sync(sync::SyncArgs),
    Pin(pin::PinArgs),
    Unpin(pin::UnpinArgs),
    Repo(repo::RepoCommandArgs),
    Timeline(timeline::TimelineArgs),
    Upgrade(upgrade::UpgradeArgs),
    Key(key::KeyArgs),
    Bench(bench::BenchArgs),
    Advise(advise::AdviseArgs),
    Completions(manual::CompletionsArgs),
    #[command(hide = true)]
    Manual(manual::ManualArgs),
}

/// What PostgreSQL calls.
#[derive(Debug, clap::Subcommand)]
pub enum PostgresCommand {
    ArchivePush(archive_push::ArchivePushArgs),
    ArchiveGet(archive_get::ArchiveGetArgs),
}

impl From<PostgresCommand> for Command {
    fn from(command: PostgresCommand) -> Command {
        match command {
            PostgresCommand::ArchivePush(args) => Command::ArchivePush(args),
            PostgresCommand::ArchiveGet(args) => Command::ArchiveGet(args),
        }
    }
}

/// Runs a command.
pub fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Compress(args) => compress::run(args),
        Command::Decompress(args) => decompress::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Init(args) => init::run(args),
        Command::ArchivePush(args) => archive_push::run(args),
        Command::ArchiveGet(args) => archive_get::run(args),
        Command::Receive(args) => receive::run(args),
        Command::Import(args) => import::run(args),
        Command::Check(args) => check::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::BackupGet(args) => backup_get::run(args),
        Command::Info(args) => info::run(args),
        Command::Metrics(args) => metrics::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Expire(args) => expire::run(args),
        Command::Pack(args) => pack::run(args),
        Command::Sync(args) => sync::run(args),
        Command::Pin(args) => pin::run(args),
        Command::Unpin(args) => pin::run_unpin(args),
        Command::Repo(args) => repo::run(args),
        Command::Timeline(args) => timeline::run(args),
        Command::Upgrade(args) => upgrade::run(args),
        Command::Key(args) => key::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Completions(args) => manual::run_completions(args),
        Command::Manual(args) => manual::run_manual(args),
    }
}
