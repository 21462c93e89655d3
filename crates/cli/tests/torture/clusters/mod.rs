//! Real servers, archived into one repository, one segment after the other or ahead: they write,
//! crash and fork, and are restored to random moments. A restored server has exactly the rows that
//! were committed by then on the timeline that was followed, or the restore is refused with a code
//! that the situation explains.

mod full_disk;
mod kills;
pub mod life;
pub mod model;
mod oracle;
mod restores;
#[allow(
    dead_code,
    reason = "shared with the tests of clusters, which use more of it"
)]
#[path = "../../all/clusters/server.rs"]
pub mod server;
#[allow(
    dead_code,
    reason = "shared with the tests of clusters, which use more of it"
)]
#[path = "../../all/clusters/site.rs"]
pub mod site;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::rounds::{Checked, Finding, Part, Progress, Tally, message_of};
use crate::settings::Settings;
use life::Life;
use site::Site;

/// The majors that take turns.
const MAJORS: [u32; 2] = [15, 17];

/// Runs the part.
pub fn torture(part: &Part, settings: &Settings) -> Result<Tally, Finding> {
    part.run_rounds(settings, 0, std::env::temp_dir(), round)
}

fn round(seed: u64, steps: u64, progress: &Progress) -> Checked {
    let majors = MAJORS.len() as u64;
    let major = MAJORS[(seed % majors) as usize];
    let is_ahead = seed / majors % 2 == 1;
    let Some(site) = Site::new(major) else {
        return Ok(());
    };
    // The servers are stopped before their directory is removed, or kept.
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut life = Life::begin(&site, (seed, is_ahead), progress)?;
        for step in 1..=steps {
            life.step(step)?;
        }
        life.end()
    }));
    match lived.unwrap_or_else(|panic| Err(message_of(panic))) {
        Ok(()) => Ok(()),
        Err(what) => {
            let directory = site.path("");
            std::mem::forget(site);
            let way = if is_ahead { "ahead" } else { "one by one" };
            Err(format!(
                "PostgreSQL {major}, segments {way}: {what}\nthe servers and the repository: {}",
                directory.display()
            ))
        }
    }
}
