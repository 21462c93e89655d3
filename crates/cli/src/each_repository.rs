//! A command that is run on several repositories: a failure of one is told
//! and does not keep it from the others.

use std::io::Write;

use serde::Serialize;

use crate::error::CommandError;
use crate::repo_args::Place;

/// What a command found in each repository, in their order.
pub struct Each<'p, T>(Vec<(&'p Place, Result<T, CommandError>)>);

/// Runs a command on each repository.
pub fn each<T>(
    places: &[Place],
    run: impl FnMut(&Place) -> Result<T, CommandError>,
) -> Each<'_, T> {
    found(places, places.iter().map(run))
}

/// What was found in each repository by a command that was run on all of them at once.
pub fn found<T>(
    places: &[Place],
    results: impl IntoIterator<Item = Result<T, CommandError>>,
) -> Each<'_, T> {
    let results = places.iter().zip(results);
    let named = |(place, result): (_, Result<T, _>)| {
        let place: &Place = place;
        (place, result.map_err(|error| place.name_in(error)))
    };
    Each(results.map(named).collect())
}

/// Says which repository the following lines are about, where there are several.
pub fn write_heading(out: &mut impl Write, place: &Place) -> std::io::Result<()> {
    match place.number {
        Some(number) => writeln!(out, "repository {number}, {place}"),
        None => Ok(()),
    }
}

impl<T> Each<'_, T> {
    /// Success if there was no failure. One of several is reported here, and the first one's
    /// exit code is the program's.
    pub fn finish(self) -> Result<Vec<T>, CommandError> {
        let is_one = self.0.len() == 1;
        let mut found = Vec::new();
        let mut failed = None;
        for (_, result) in self.0 {
            match result {
                Ok(result) => found.push(result),
                Err(error) if is_one => return Err(error),
                Err(error) => {
                    error.report();
                    failed.get_or_insert(error.kind());
                }
            }
        }
        match failed {
            None => Ok(found),
            Some(kind) => Err(CommandError::silent(kind)),
        }
    }
}

impl<T> Each<'_, T> {
    /// Whether there was no failure.
    pub fn is_whole(&self) -> bool {
        self.0.iter().all(|(_, result)| result.is_ok())
    }

    /// What was found if there was no failure, or else the failures, which are not reported here.
    pub fn all(self) -> Result<Vec<T>, Vec<CommandError>> {
        let mut found = Vec::new();
        let mut failures = Vec::new();
        for (_, result) in self.0 {
            match result {
                Ok(result) => found.push(result),
                Err(error) => failures.push(error),
            }
        }
        match failures.is_empty() {
            true => Ok(found),
            false => Err(failures),
        }
    }
}

/// One repository of several, in JSON.
#[derive(Serialize)]
struct Numbered<'a, T> {
    repo: u16,
    location: String,
    #[serde(flatten)]
    found: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<T: Serialize> Each<'_, T> {
    /// Prints what was found: in a single repository as it is, otherwise as a list with `repo`,
    /// `location` and, after a failure, `error`.
    pub fn print_json(&self) -> Result<(), CommandError> {
        if let [(_, result)] = self.0.as_slice() {
            return result.as_ref().map_or(Ok(()), crate::json::print_json);
        }
        let numbered = self.0.iter().map(|(place, result)| Numbered {
            repo: place.number.unwrap_or_default(),
            location: place.to_string(),
            found: result.as_ref().ok(),
            error: result.as_ref().err().map(CommandError::message),
        });
        crate::json::print_json(&numbered.collect::<Vec<_>>())
    }
}
