//! Bulk load: trips of taxis, as they come out of another system, by COPY.

use std::fmt::Write;

use super::SPREAD_SECONDS;
use super::loader::Loader;
use super::words::phrase;
use crate::error::Error;
use crate::random::Random;

/// Rows for each unit of scale.
const ROWS: u64 = 100_000;
/// Rows that come in one COPY of the transactions.
pub(super) const ROWS_PER_TRANSACTION: u64 = 1_000;

const TABLE: &str = "
CREATE TABLE trips (
    id bigint NOT NULL, vendor text NOT NULL, picked_up timestamptz NOT NULL,
    dropped_off timestamptz NOT NULL, passengers smallint, distance_km numeric(7,2) NOT NULL,
    from_lon double precision, from_lat double precision, to_lon double precision,
    to_lat double precision, fare numeric(8,2) NOT NULL, tip numeric(8,2) NOT NULL,
    payment text NOT NULL, remark text);
";

/// Makes the table, copies its rows, and makes its key.
pub(super) fn load(loader: &mut Loader<'_>, scale: u64, seed: u64) -> Result<(), Error> {
    loader.sql(TABLE)?;
    copy(loader, ROWS * scale, u64::MAX, (0, seed))?;
    loader.sql("ALTER TABLE trips ADD PRIMARY KEY (id); VACUUM ANALYZE trips;")
}

/// Copies rows whose numbers begin behind `(first, _)`.
pub(super) fn copy(
    loader: &mut Loader<'_>,
    rows: u64,
    rows_per_copy: u64,
    (first, seed): (u64, u64),
) -> Result<(), Error> {
    let mut random = Random::new(seed, 21 ^ first);
    loader.copy("trips", rows, rows_per_copy, |number, row| {
        trip(&mut random, first + number, row);
    })
}

fn trip(random: &mut Random, number: u64, row: &mut String) {
    let begin = number * 11 % SPREAD_SECONDS;
    let km = 0.4 + 30.0 * random.unit().powi(4);
    let seconds = 120 + (km * 150.0 * (1.0 + 0.3 * random.bell())) as u64;
    let (from, to) = (
        (16.37 + 0.08 * random.bell(), 48.20 + 0.05 * random.bell()),
        (16.37 + 0.10 * random.bell(), 48.20 + 0.07 * random.bell()),
    );
    let fare = 3.8 + 1.42 * km;
    let payment = random.pick(&["card", "card", "card", "cash", "cash", "voucher", "account"]);
    let tip = if payment == "card" {
        fare * random.unit() * 0.2
    } else {
        0.0
    };
    let passengers = match random.percent(96) {
        true => (1 + random.skewed(5)).to_string(),
        false => "\\N".to_owned(),
    };
    let remark = match random.percent(6) {
        true => phrase(random, 6),
        false => "\\N".to_owned(),
    };
    let vendor = random.pick(&["VTS", "CMT", "City Cab", "Green Ride"]);
    let (picked_up, dropped_off) = (
        super::timestamp(begin, 0),
        super::timestamp(begin + seconds, 0),
    );
    let _ = write!(
        row,
        "{}\t{vendor}\t{picked_up}\t{dropped_off}\t{passengers}\t{km:.2}\t{:.6}\t{:.6}\t{:.6}\t{:.6}\t\
         {fare:.2}\t{tip:.2}\t{payment}\t{remark}",
        number + 1,
        from.0,
        from.1,
        to.0,
        to.1
    );
}
