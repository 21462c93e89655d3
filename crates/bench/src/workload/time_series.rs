//! Time series: what many devices report every ten seconds, and hourly sums of it.

use std::fmt::Write;

use super::Script;
use super::loader::Loader;
use super::words::city;
use crate::error::Error;
use crate::random::Random;

/// Devices for each unit of scale.
const DEVICES: u64 = 100;
/// Readings of each device that are there at the beginning.
const READINGS: u64 = 1_000;
/// Devices that report in one transaction.
const DEVICES_PER_TRANSACTION: u64 = 20;

const TABLES: &str = "
CREATE TABLE devices (
    id int PRIMARY KEY, name text NOT NULL, site text NOT NULL, labels jsonb NOT NULL);
CREATE TABLE readings (
    device int NOT NULL, at timestamptz NOT NULL, cpu double precision NOT NULL,
    memory real NOT NULL, temperature numeric(5,2) NOT NULL, requests bigint NOT NULL);
CREATE TABLE hourly (
    device int NOT NULL, hour timestamptz NOT NULL, readings int NOT NULL,
    cpu_max double precision NOT NULL, cpu_sum double precision NOT NULL,
    PRIMARY KEY (device, hour));
";

/// Makes and fills the tables.
pub(super) fn load(loader: &mut Loader<'_>, scale: u64, seed: u64) -> Result<(), Error> {
    let devices = DEVICES * scale;
    loader.sql(TABLES)?;
    let mut random = Random::new(seed, 31);
    loader.copy("devices", devices, u64::MAX, |number, row| {
        let site = city(&mut random);
        let model = random.pick(&["a20", "a24", "b10", "b12c"]);
        let firmware = 1 + random.below(9);
        let _ = write!(
            row,
            "{number}\t{}-{number:05}\t{site}\t{{\"model\": \"{model}\", \"firmware\": \"3.{firmware}\"}}",
            site.to_lowercase()
        );
    })?;
    let mut random = Random::new(seed, 32);
    let mut walks: Vec<(f64, f64, u64)> = (0..devices)
        .map(|_| {
            (
                20.0 + 60.0 * random.unit(),
                15.0 + 30.0 * random.unit(),
                random.below(1_000_000),
            )
        })
        .collect();
    loader.copy("readings", devices * READINGS, u64::MAX, |number, row| {
        let (step, device) = (number / devices, number % devices);
        let Some((cpu, temperature, requests)) = walks.get_mut(device as usize) else {
            return;
        };
        *cpu = (*cpu + 4.0 * random.bell()).clamp(0.0, 100.0);
        *temperature += 0.2 * random.bell();
        *requests += random.skewed(900);
        let memory = (*cpu * 0.3 + 40.0 + 2.0 * random.bell()).clamp(0.0, 100.0);
        let at = super::timestamp(step * 10, 0);
        let _ = write!(
            row,
            "{device}\t{at}\t{cpu:.3}\t{memory:.2}\t{temperature:.2}\t{requests}"
        );
    })?;
    let groups = devices / DEVICES_PER_TRANSACTION;
    loader.sql(&format!(
        "CREATE SEQUENCE ticks MINVALUE 0 START {};
         ALTER TABLE readings ADD PRIMARY KEY (device, at);
         CREATE INDEX ON readings USING brin (at);
         VACUUM ANALYZE;",
        READINGS * groups
    ))
}

/// A group of devices reports; each has its own wave, and noise on it.
pub(super) fn script(scale: u64) -> Script {
    let groups = (DEVICES * scale) / DEVICES_PER_TRANSACTION;
    let text = format!(
        "SELECT nextval('ticks') AS tick \\gset
BEGIN;
INSERT INTO readings SELECT device, at, round((50 + 35 * sin(step / 360.0 + device) + noise)::numeric, 3),
        round((60 + 20 * sin(step / 700.0 + device) + noise / 2)::numeric, 2),
        round((30 + 8 * sin(step / 4000.0 + device) + noise / 5)::numeric, 2),
        step * 300 + device * 1000 + (noise * 10)::int
    FROM (SELECT (:tick % {groups}) * {DEVICES_PER_TRANSACTION} + n AS device, :tick / {groups} AS step,
            '2025-01-01 00:00+00'::timestamptz + (:tick / {groups}) * interval '10 s' AS at,
            (hashint8extended(n, :tick) & 65535) / 8192.0 AS noise
        FROM generate_series(0, {}) n) reports
    ON CONFLICT DO NOTHING;
INSERT INTO hourly SELECT device, date_trunc('hour', at), 1, cpu, cpu FROM readings
    WHERE device BETWEEN (:tick % {groups}) * {DEVICES_PER_TRANSACTION}
            AND (:tick % {groups}) * {DEVICES_PER_TRANSACTION} + {}
        AND at = '2025-01-01 00:00+00'::timestamptz + (:tick / {groups}) * interval '10 s'
    ON CONFLICT (device, hour) DO UPDATE SET readings = hourly.readings + 1,
        cpu_max = greatest(hourly.cpu_max, EXCLUDED.cpu_max), cpu_sum = hourly.cpu_sum + EXCLUDED.cpu_sum;
END;
",
        DEVICES_PER_TRANSACTION - 1,
        DEVICES_PER_TRANSACTION - 1
    );
    Script {
        name: "report",
        weight: 1,
        text,
    }
}
