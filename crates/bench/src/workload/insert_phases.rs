//! The phases of the insert benchmark one by one, for the experiment that measures them.

use super::insert;
pub(crate) use super::insert::{INDEXES, ROWS_PER_TRANSACTION};
use super::loader::Loader;
use crate::error::Error;
use crate::server::Server;
use crate::usage::Usage;

/// Makes the empty table.
pub(crate) fn create(server: &Server) -> Result<Usage, Error> {
    let mut loader = Loader::new(server);
    insert::create(&mut loader)?;
    loader.finish()
}

/// Creates the three secondary indexes.
pub(crate) fn index(server: &Server) -> Result<Usage, Error> {
    let mut loader = Loader::new(server);
    insert::index(&mut loader)?;
    loader.finish()
}
