//! The results as a person reads them on a terminal.

use std::fmt;

use super::results::Results;
use crate::text::{counted, megabytes, write_table};

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for data_set in 0..self.data_sets.len() {
            self.write_data_set(f, data_set)?;
        }
        self.write_ranks(f)?;
        self.write_remarks(f)
    }
}

impl Results {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {}; {} after {} to warm up{}",
            counted(self.rows.len(), "row"),
            counted(self.data_sets.len(), "data set"),
            counted(self.settings.loops as usize, "loop"),
            counted(self.settings.warm_ups as usize, "loop"),
            match self.settings.quick {
                true => "; quick: little data, some of the levels",
                false => "",
            }
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        let mut versions: Vec<&str> = self.rows.iter().map(|row| &*row.program.version).collect();
        versions.push(&self.server.version);
        versions.dedup();
        for version in versions {
            writeln!(f, "  {version}")?;
        }
        writeln!(f, "throw-away servers: {}", self.settings.servers)
    }

    fn write_data_set(&self, f: &mut fmt::Formatter<'_>, place: usize) -> fmt::Result {
        let data_set = &self.data_sets[place];
        let size = data_set.bytes.map_or(String::new(), |bytes| {
            format!(", {:.1} MB in its databases", megabytes(bytes))
        });
        writeln!(f, "\n{} ({}{size}):", data_set.name, data_set.origin)?;
        let heads = [
            "backup", "seconds", "spread", "cpu s", "MB", "score", "rank",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        let of_data_set = self.ranks.scores.iter();
        let mut scores: Vec<_> = of_data_set
            .filter(|score| score.data_set == place)
            .collect();
        scores.sort_by_key(|score| score.rank);
        for score in scores {
            let none = || "-".to_owned();
            table.push(vec![
                self.rows[score.row].label.clone(),
                format!("{:.2}", score.seconds),
                score
                    .spread
                    .map_or_else(none, |spread| format!("{:.0}%", spread * 100.0)),
                score
                    .cpu_seconds
                    .map_or_else(none, |seconds| format!("{seconds:.2}")),
                format!("{:.1}", score.bytes / 1e6),
                format!("{:.2}", score.score),
                score.rank.to_string(),
            ]);
        }
        write_table(f, &table)
    }

    fn write_ranks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nAverage ranks over the data sets:")?;
        let heads = ["backup", "score", "rank", "without walzip", "published"];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        for average in &self.ranks.average {
            let row = &self.rows[average.row];
            let rank = |rank: Option<f64>| rank.map_or("-".to_owned(), |rank| format!("{rank:.1}"));
            table.push(vec![
                row.label.clone(),
                format!("{:.2}", average.score),
                rank(Some(average.rank)),
                rank(average.rank_without_walzip),
                rank(row.published_rank),
            ]);
        }
        write_table(f, &table)?;
        writeln!(
            f,
            "\nscore: time relative to the shortest plus size relative to the smallest, so 2 is the \
             best there is.\ncpu s: client and server together. pg_basebackup compresses in the \
             server and leaves the WAL out;\nwalzip compresses in the client, syncs what it stores, \
             and waits until the WAL of the backup is archived.\npublished: {}.",
            self.published_source
        )
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failed in self.failed.iter().filter(|failed| !failed.unsupported) {
            let (row, data_set) = (&self.rows[failed.row], &self.data_sets[failed.data_set]);
            writeln!(
                f,
                "\n{} FAILED on {}: {}",
                row.label, data_set.name, failed.reason
            )?;
        }
        for reason in &self.left_out {
            writeln!(f, "\n{reason}")?;
        }
        for resumed in &self.resumed {
            let taken = counted(resumed.measurements, "backup");
            writeln!(
                f,
                "\n{taken} of an earlier run were taken over ({}).",
                resumed.date
            )?;
        }
        if let Some(load) = self.provenance.load_of_others() {
            let cpus = self.provenance.cpus;
            writeln!(
                f,
                "\nThe machine was busy before this began (load {load:.1} on {cpus} processors): \
                 do not trust the wall times."
            )?;
        }
        match &self.stopped {
            Some(reason) => writeln!(f, "\nIncomplete: {reason}."),
            None => Ok(()),
        }
    }
}
