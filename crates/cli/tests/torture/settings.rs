//! How long, from which seed, and which part.

use std::env;
use std::time::{Duration, Instant};

/// Steps and kills of a run without variables, which is a part of `make test`.
const STEPS: u64 = 120;
const KILLS: u64 = 1;

/// What the variables and the arguments say.
pub struct Settings {
    /// The first round's seed (`TORTURE_SEED`); each following round has the next number.
    pub seed: u64,
    /// How many steps at least (`TORTURE_STEPS`).
    pub steps: u64,
    /// How many kills at least (`TORTURE_KILLS`).
    pub kills: u64,
    /// Until when rounds are begun, however many there were (`TORTURE_MINUTES`), for each part.
    pub duration: Duration,
    /// Only this part (`TORTURE_PART`).
    part: Option<String>,
    /// Parts whose name contains one of these, as the test runner has it.
    filters: Vec<String>,
    /// Only say which parts there are.
    pub list: bool,
}

impl Settings {
    /// Reads the environment and the arguments of the test runner.
    pub fn read() -> Result<Settings, String> {
        let steps = number("TORTURE_STEPS")?;
        let kills = number("TORTURE_KILLS")?;
        let minutes = number("TORTURE_MINUTES")?;
        let told = steps.or(kills).or(minutes).is_some();
        let mut settings = Settings {
            seed: number("TORTURE_SEED")?.unwrap_or(1),
            steps: steps.unwrap_or(if told { 0 } else { STEPS }),
            kills: kills.unwrap_or(if told { 0 } else { KILLS }),
            duration: Duration::from_secs(60 * minutes.unwrap_or(0)),
            part: env::var("TORTURE_PART")
                .ok()
                .filter(|part| !part.is_empty()),
            filters: Vec::new(),
            list: false,
        };
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => settings.list = true,
                "--test-threads" | "--skip" | "--format" | "--color" => {
                    arguments.next();
                }
                flag if flag.starts_with('-') => {}
                _ => settings.filters.push(argument),
            }
        }
        Ok(settings)
    }

    /// Whether a part is to run.
    pub fn wants(&self, part: &str) -> bool {
        let name = format!("torture_{part}");
        self.part.as_deref().is_none_or(|wanted| wanted == part)
            && (self.filters.is_empty() || self.filters.iter().any(|text| name.contains(text)))
    }

    /// When a part that begins now may stop.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.duration
    }
}

fn number(name: &str) -> Result<Option<u64>, String> {
    match env::var(name) {
        Ok(text) if !text.is_empty() => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name} is \"{text}\", not a number")),
        },
        _ => Ok(None),
    }
}
