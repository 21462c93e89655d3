//! `walzip inspect`: what is in segments, and where their bytes go.

mod names;

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use walzip_archive::packs::file;
use walzip_bench::contents::{Filter, Relation};
use walzip_codec::{
    Claims, DecodeError, Encoder, HEADER_LEN_MAX, Header, Level, MAGIC, WalIdentity,
};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::rmgr::rmgr_name;
use walzip_pgformat::wal::SegmentHeader;

use crate::archive_error::decoding;
use crate::config::Config;
use crate::connection_args::ConnectionArgs;
use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::filter::fill;
use crate::inspection::Inspection;
use crate::level_args::LevelArgs;
use crate::runtime;

/// Show what is in WAL segments and where their bytes go
///
/// Segments may be raw or compressed by walzip, or in a pack. The tables are over all files: the bytes as
/// PostgreSQL wrote them, by record type, relation and page images; and what is left of them
/// after encoding, by what the encoder's streams hold (--streams). Every share is of all bytes, that of
/// streams of all encoded bytes. What chooses records leaves positions, times and numbers of records
/// as they are in the whole files.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  walzip inspect 000000010000000000000001
  walzip inspect --rmgr heap --rmgr heap2 -h /var/run/postgresql -d shop 0000000100000000000000*
  walzip inspect --json *.wz | jq .record_types"
)]
pub struct InspectArgs {
    /// The segments, raw or .wz, or packs; "-" is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Only records of this resource manager, such as Heap or Btree; may be repeated
    #[arg(long, value_name = "NAME", value_parser = resource_manager)]
    rmgr: Vec<String>,

    /// Only records that refer to this relation: tablespace, database and file number; may be repeated
    #[arg(long, value_name = "T/D/R", value_parser = relation)]
    relation: Vec<Relation>,

    /// Only records of this transaction; may be repeated
    #[arg(long, value_name = "XID")]
    transaction: Vec<u32>,

    /// Also show what is left of the bytes after encoding, by the codec's streams
    #[arg(long)]
    streams: bool,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    level: LevelArgs,

    /// The configuration file [default: /etc/walzip.toml, if there is one]
    #[arg(
        long,
        value_name = "FILE",
        env = "WALZIP_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A resource manager that some server has.
fn resource_manager(name: &str) -> Result<String, String> {
    let names: Vec<_> = (0..=u8::MAX).map(rmgr_name).collect();
    let known = |known: &&Cow<'_, str>| known.eq_ignore_ascii_case(name);
    match names.iter().find(known) {
        Some(known) => Ok(known.to_string()),
        None => {
            let built_in = names
                .iter()
                .filter(|name| !name.starts_with("unknown") && !name.starts_with("custom"));
            let built_in: Vec<&str> = built_in.map(AsRef::as_ref).collect();
            Err(format!("there are {}", built_in.join(", ")))
        }
    }
}

/// As the tables show it.
fn relation(text: &str) -> Result<Relation, String> {
    let numbers: Result<Vec<u32>, _> = text.split('/').map(str::parse).collect();
    match numbers.ok().as_deref() {
        Some(&[tablespace, database, relation]) => Ok(Relation {
            tablespace,
            database,
            relation,
        }),
        _ => Err("three numbers as the tables show them, such as 1663/5/16384".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: InspectArgs) -> Result<(), CommandError> {
    let level = args.level.level.unwrap_or_default();
    let filter = Filter {
        resource_managers: args.rmgr.clone(),
        relations: args.relation.clone(),
        transactions: args.transaction.clone(),
    };
    let mut inspection = Inspection::new(level, filter);
    let mut named = None;
    if args.connection.is_given() {
        let config = Config::load(args.config.as_deref())?;
        let settings = args.connection.settings(&config)?;
        named = Some(runtime::block_on(names::names(&settings))?);
    }
    if args.streams {
        inspection.show_streams();
    }
    for path in &args.files {
        inspect(&mut inspection, path, level).map_err(|error| error.at(path.display()))?;
    }
    if let Some(named) = named {
        named.name(&mut inspection);
    }
    if args.json {
        return crate::json::print_json(&inspection);
    }
    write!(std::io::stdout(), "{inspection}").map_err(CommandError::stdout)
}

fn inspect(inspection: &mut Inspection, path: &Path, level: Level) -> Result<(), CommandError> {
    let mut input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(File::open(path).map_err(|error| CommandError::cannot_read(&error))?),
    };
    inspection.begin_file(path);
    let mut input = Members {
        input: &mut input,
        buffer: Vec::new(),
        encoder: Encoder::new(level, false),
    };
    if input.is_pack()? {
        return inspect_pack(inspection, &mut input, level);
    }
    while let Some(mut found) = input.next()? {
        // A long segment is in several members.
        while found.is_cut_off() && input.goes_on(&found)? {
            let Some(part) = input.next()? else { break };
            found.original.extend_from_slice(&part.original);
            found.encoded_bytes += part.encoded_bytes;
        }
        inspection
            .add(&found.original, found.encoded_bytes, level)
            .map_err(encode_error)?;
    }
    Ok(())
}

/// The segments of a pack, each decoded after those before it.
fn inspect_pack(
    inspection: &mut Inspection,
    input: &mut Members,
    level: Level,
) -> Result<(), CommandError> {
    fill(input.input, &mut input.buffer, file::LEN_MAX)?;
    file::decode(&input.buffer, |_, segment, encoded_bytes| {
        let added = inspection.add(segment, encoded_bytes, level);
        added.map_err(encode_error)
    })
}

/// What is in a file, a member at a time: as it is encoded, or as it would be.
struct Members<'r> {
    input: &'r mut dyn Read,
    buffer: Vec<u8>,
    encoder: Encoder,
}

/// A member, or a segment that is in several.
struct Found {
    is_encoded: bool,
    original: Vec<u8>,
    encoded_bytes: u64,
}

impl Found {
    fn segment(&self) -> Option<SegmentHeader> {
        SegmentHeader::read(&self.original).ok()
    }

    /// It is the beginning of a segment.
    fn is_cut_off(&self) -> bool {
        let is_short = |header: SegmentHeader| self.original.len() < header.segment_size as usize;
        self.segment().is_some_and(is_short)
    }
}

impl Members<'_> {
    fn is_pack(&mut self) -> Result<bool, CommandError> {
        fill(self.input, &mut self.buffer, HEADER_LEN_MAX.max(PAGE_SIZE))?;
        Ok(file::is_pack(&self.buffer))
    }

    fn next(&mut self) -> Result<Option<Found>, CommandError> {
        fill(self.input, &mut self.buffer, HEADER_LEN_MAX.max(PAGE_SIZE))?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let (found, member) = match self.buffer.starts_with(&MAGIC) {
            true => self.encoded()?,
            false => self.raw()?,
        };
        self.buffer.drain(..member);
        Ok(Some(found))
    }

    /// Whether the next member is the next part of a segment.
    fn goes_on(&mut self, found: &Found) -> Result<bool, CommandError> {
        fill(self.input, &mut self.buffer, HEADER_LEN_MAX)?;
        let Some(segment) = found.segment() else {
            return Ok(false);
        };
        if !found.is_encoded {
            return Ok(!self.buffer.is_empty());
        }
        if !self.buffer.starts_with(&MAGIC) {
            return Ok(false);
        }
        let next = segment.of_part(found.original.len() as u32);
        let header = Header::read(&self.buffer).map_err(decode_error)?;
        Ok(header.identity == Some(WalIdentity::from(&next)))
    }

    fn encoded(&mut self) -> Result<(Found, usize), CommandError> {
        let header = Header::read(&self.buffer).map_err(decode_error)?;
        let member_len = header.member_len.min(super::decompress::ENCODED_LEN_MAX) as usize;
        fill(self.input, &mut self.buffer, member_len)?;
        let decoded = walzip_codec::decode_member(&self.buffer, Claims::Bounded);
        let (original, member) = decoded.map_err(decode_error)?;
        let found = Found {
            is_encoded: true,
            original,
            encoded_bytes: header.member_len,
        };
        Ok((found, member))
    }

    fn raw(&mut self) -> Result<(Found, usize), CommandError> {
        let member_len = self.encoder.member_len(&self.buffer);
        fill(self.input, &mut self.buffer, member_len)?;
        let member = member_len.min(self.buffer.len());
        let original = self.buffer[..member].to_vec();
        let encoded = self
            .encoder
            .encode(original.as_slice())
            .map_err(encode_error)?;
        let found = Found {
            is_encoded: false,
            original,
            encoded_bytes: encoded.len() as u64,
        };
        Ok((found, member))
    }
}

fn decode_error(error: DecodeError) -> CommandError {
    CommandError::new(decoding(&error), chain(&error))
}

fn encode_error(error: walzip_codec::EncodeError) -> CommandError {
    CommandError::new(Kind::Internal, chain(&error)).hint("Please report this.")
}
