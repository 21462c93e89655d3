//! Every published figure in the sources is compared with the article that it is from.
//!
//! The articles lie beside the repository, in `../shared/published/`, or where `WALZIP_PUBLISHED`
//! says. Where they are not there, that is said (in CI it is an error). Each check takes the text
//! of an article, so that a test can also give it a text with another figure.

use std::path::{Path, PathBuf};

use walzip_bench::insert::{self, Relation, Step};
use walzip_bench::{basebackup, segments, wal, wal_compression};
use walzip_testing::not_run;

/// An article: what its file's name begins with, and what compares its figures.
struct Article {
    number: &'static str,
    /// What is wrong in the sources, or missing.
    faults: fn(&str) -> Vec<String>,
    /// Figures and words of the article; whichever of them is another one must be noticed.
    figures: &'static [&'static str],
}

const ARTICLES: &[Article] = &[
    Article {
        number: "000",
        faults: of_programs,
        figures: &[
            "0.271", "33.171", "2.591", "3.528", "1.66\n", "938", "3612", "13\n", "208.1", "9.4<",
        ],
    },
    Article {
        number: "001",
        faults: of_wal_compression,
        figures: &["6%", "255%", "22%", "31%", "15,00,000"],
    },
    Article {
        number: "002",
        faults: of_inserts,
        figures: &[
            "1.7X",
            "1.4X",
            "2X larger",
            "similar performance",
            "the same as with",
            "are faster with",
        ],
    },
    Article {
        number: "003",
        faults: of_segments,
        figures: &["17.444", "0.065", "35.292", "23.326", "9.685", "100 files"],
    },
    Article {
        number: "004",
        faults: of_base_backups,
        figures: &[
            "|1.3|", "|11.7|", "4088 MB", "2970.1", "|132.6|", "65GB", "107 GB",
        ],
    },
];

fn directory() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/published");
    std::env::var_os("WALZIP_PUBLISHED").map_or(beside, PathBuf::from)
}

/// The text of an article, with the spaces that no keyboard writes as common ones.
fn text(number: &str) -> Option<String> {
    let directory = directory();
    let entries = std::fs::read_dir(&directory).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    let path = paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(number)
    });
    // Where the articles are, each of them has to be.
    let path = path.unwrap_or_else(|| panic!("no article {number} in {}", directory.display()));
    let text = std::fs::read_to_string(path).unwrap();
    Some(text.replace('\u{a0}', " "))
}

#[test]
fn every_published_figure_in_the_sources_is_the_articles() {
    for article in ARTICLES {
        let Some(text) = text(article.number) else {
            not_run(&format!(
                "the articles are not in {}; WALZIP_PUBLISHED names another directory",
                directory().display()
            ));
            return;
        };
        let faults = (article.faults)(&text);
        assert!(faults.is_empty(), "{}: {faults:#?}", article.number);
    }
}

#[test]
fn another_figure_than_the_articles_is_noticed() {
    for article in ARTICLES {
        let Some(text) = text(article.number) else {
            not_run("the articles are not here: see above");
            return;
        };
        for figure in article.figures {
            let other: String = match figure.contains(|c: char| c.is_ascii_digit()) {
                true => figure.chars().map(next_digit).collect(),
                false => figure.chars().rev().collect(),
            };
            let changed = text.replace(figure, &other);
            assert_ne!(changed, text, "{} has no {figure}", article.number);
            let faults = (article.faults)(&changed);
            assert!(!faults.is_empty(), "{}: {figure}", article.number);
        }
    }
}

fn next_digit(digit: char) -> char {
    match digit.to_digit(10) {
        Some(value) => char::from_digit((value + 1) % 10, 10).unwrap(),
        None => digit,
    }
}

/// Whoever adds a file of published figures has to compare it here.
#[test]
fn there_are_no_other_files_of_published_figures() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![sources.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("published.rs") {
                let name = path.strip_prefix(&sources).unwrap();
                found.push(name.display().to_string());
            }
        }
    }
    found.sort();
    let compared = ["basebackup", "insert", "segments", "wal", "wal_compression"];
    assert_eq!(found, compared.map(|name| format!("{name}/published.rs")));
}

/// Numbers of a text, as they are written.
fn numbers(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let words = text.split(move |c| !is_part(c));
    let trimmed = words.map(|word| word.trim_matches('.'));
    trimmed.filter(|word| !word.is_empty()).collect()
}

/// Numbers in the words about a source that its article does not have.
fn unknown_numbers(source: &str, article: &str, known: &[&str]) -> Vec<String> {
    let of_article = numbers(article);
    let all = numbers(source).into_iter();
    all.filter(|number| !of_article.contains(number) && !known.contains(number))
        .map(|number| format!("the article has no {number}: {source}"))
        .collect()
}

/// Two lists of lines that have to be the same.
fn differences(ours: Vec<String>, article: Vec<String>) -> Vec<String> {
    let longest = ours.len().max(article.len());
    let mut faults = Vec::new();
    if article.is_empty() {
        faults.push("nothing was found in the article".to_owned());
    }
    for index in 0..longest {
        let (ours, article) = (ours.get(index), article.get(index));
        if ours != article {
            faults.push(format!("{ours:?} is {article:?} in the article"));
        }
    }
    faults
}

/// Phrases that have to stand in an article.
fn absent(article: &str, phrases: &[String]) -> Vec<String> {
    let article = article.split_whitespace().collect::<Vec<_>>().join(" ");
    let missing = phrases.iter().filter(|phrase| !article.contains(*phrase));
    missing
        .map(|phrase| format!("the article does not say \"{phrase}\""))
        .collect()
}

/// The cells of each row of the HTML tables, without tags.
fn html_rows(article: &str) -> Vec<Vec<String>> {
    let rows = article.split("<tr>").skip(1);
    let cells = rows.map(|row| {
        let row = row.split("</tr>").next().unwrap_or_default();
        let cells = row.split("<td>").skip(1);
        let text = cells.map(|cell| {
            let cell = cell.split("</td>").next().unwrap_or_default();
            let cell = cell.replace("<br/>", " ");
            cell.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        text.collect()
    });
    cells.collect()
}

fn of_programs(article: &str) -> Vec<String> {
    let rows = html_rows(article);
    let pairs = rows.iter().filter(|row| row.len() == 3);
    let in_article = pairs.map(|row| {
        let label = row[0].replace(" -bd", "").replace(" a test.7za", "");
        format!("{label} {} {}", row[1], row[2])
    });
    let ours = wal::PUBLISHED.iter().map(|pair| {
        let (time, size) = (pair.compress_s, pair.output_mb);
        format!("{} {time:.3} {size:.3}", pair.label)
    });
    let mut faults = differences(ours.collect(), in_article.collect());

    let sizes = rows.iter().filter(|row| row.len() == 2);
    let in_article = sizes.map(|row| row[1].clone());
    let ours = wal_compression::PUBLISHED.iter();
    let ours = ours.filter(|figure| figure.unit == "MB");
    let ours = ours.map(|figure| format!("{:.1}", figure.value));
    faults.extend(differences(ours.collect(), in_article.collect()));

    let example = wal::TIMED_EXAMPLE;
    let [wall, user, system] = example.seconds;
    let [major, minor] = example.page_faults;
    let [voluntary, involuntary] = example.context_switches;
    let printed = [
        format!("Command being timed: \"{} ", example.label),
        format!("User time (seconds): {user:.2} "),
        format!("System time (seconds): {system:.2} "),
        format!("Elapsed (wall clock) time (h:mm:ss or m:ss): 0:{wall:05.2} "),
        format!(
            "Maximum resident set size (kbytes): {} ",
            example.peak_kilobytes
        ),
        format!("Major (requiring I/O) page faults: {major} "),
        format!("Minor (reclaiming a frame) page faults: {minor} "),
        format!("Voluntary context switches: {voluntary} "),
        format!("Involuntary context switches: {involuntary} "),
    ];
    faults.extend(absent(article, &printed));
    faults.extend(unknown_numbers(wal::SOURCE, article, &[]));
    faults
}

fn of_wal_compression(article: &str) -> Vec<String> {
    let of_unit = |unit| {
        let figures = wal_compression::PUBLISHED.iter();
        figures.filter(move |figure| figure.unit == unit)
    };
    let values: Vec<f64> = of_unit("%").map(|figure| figure.value).collect();
    let [load, transactions, inserts, updates] = values[..] else {
        return vec![format!("{values:?} are not four figures")];
    };
    // The reader groups digits by two above the thousands.
    let rows = wal_compression::READERS_ROWS;
    let rows = format!(
        "{},{:02},{:03} rows",
        rows / 100_000,
        rows / 1000 % 100,
        rows % 1000
    );
    let said = [
        format!("a moderate ~{load}%"),
        format!("a whopping {transactions}% difference"),
        format!("INSERT were {inserts}% faster and UPDATES were {updates}% faster"),
        rows,
    ];
    absent(article, &said)
}

fn of_inserts(article: &str) -> Vec<String> {
    let times = |step: Step| {
        let mut statements = insert::PUBLISHED.iter();
        let found = statements.find_map(|statement| match statement.relation {
            Relation::AboutTimes(times) if statement.step == step => Some(times),
            _ => None,
        });
        found.unwrap_or_default()
    };
    let (index, inserts) = (times(Step::Index), times(Step::Insert));
    let said = [
        format!("~{index}X faster with wal_compression=lz4 compared to =pglz"),
        format!("=lz4 is ~{inserts}X faster than =pglz"),
        format!(
            "almost {}X larger than with lz4",
            insert::PROCESSOR_TIME_OF_PGLZ
        ),
    ];
    let mut faults = absent(article, &said);
    let in_words: Vec<String> = insert::PUBLISHED.iter().map(in_words).collect();
    faults.extend(absent(article, &in_words));
    faults.extend(unknown_numbers(insert::SOURCE, article, &["4"]));
    faults
}

/// How the article says it.
fn in_words(statement: &insert::Published) -> String {
    let insert::Published {
        step,
        faster,
        slower,
        relation,
    } = statement;
    let word = match relation {
        Relation::AboutTimes(times) => return format!("~{times}X faster"),
        Relation::Faster => "faster",
        Relation::Same => "the same",
        Relation::Similar => "similar",
    };
    match (step, *faster, *slower) {
        (Step::Load, ..) => {
            format!("Loads in PK order without secondary indexes have {word} performance")
        }
        (Step::Index, ..) => format!("The performance with ={faster} is {word} as with ={slower}"),
        (Step::Insert, "lz4" | "zstd", "off" | "pglz") => {
            format!(
                "for the 3 secondary indexes are {word} with =lz4 or =zstd than with =off or =pglz"
            )
        }
        (Step::Insert, ..) => format!("{faster} is {word} than {slower}"),
    }
}

fn of_segments(article: &str) -> Vec<String> {
    let loops = |word: &str| -> Vec<f64> {
        let lines = article.lines().filter_map(|line| line.strip_prefix(word));
        let seconds = lines.filter_map(|line| {
            let (minutes, seconds) = line.trim().split_once('m')?;
            let seconds: f64 = seconds.strip_suffix('s')?.parse().ok()?;
            Some(minutes.parse::<f64>().ok()? * 60.0 + seconds)
        });
        seconds.collect()
    };
    let [real, user, system] = ["real", "user", "sys"].map(loops);
    let mut in_article: Vec<String> = (0..real.len())
        .map(|index| format!("{:.3} {:.3} {:.3}", real[index], user[index], system[index]))
        .collect();
    // The loop that copied a quarter of the bytes is told in words.
    let quarter = match in_article.len() {
        6 => in_article.remove(1),
        other => return vec![format!("the article has {other} loops")],
    };
    let ours = segments::PUBLISHED.iter().flat_map(|pair| {
        let timed = [Some(pair.of_16_mb), pair.of_64_mb].into_iter().flatten();
        timed.map(|of| format!("{:.3} {:.3} {:.3}", of.wall_s, of.user_s, of.system_s))
    });
    let mut faults = differences(ours.collect(), in_article);
    if quarter != "5.365 0.065 1.835" || !segments::SOURCE.contains("in 5.4 s") {
        faults.push(format!("the loop over 25 small files is {quarter}"));
    }
    faults.extend(unknown_numbers(segments::SOURCE, article, &["5.4"]));
    faults.extend(absent(
        article,
        &["100 files each 16MB".to_owned(), "25 files 64MB".to_owned()],
    ));
    faults
}

fn of_base_backups(article: &str) -> Vec<String> {
    let rows: Vec<Vec<&str>> = article
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim().trim_matches('|').split('|').collect())
        .collect();
    let ranks = rows
        .iter()
        .filter(|row| row.len() == 3 && row[1].parse::<u8>().is_ok());
    let mut in_article: Vec<String> = ranks.map(|row| row.join(" ")).collect();
    let mut ours: Vec<String> = basebackup::PUBLISHED
        .iter()
        .map(|(method, level, rank)| format!("{method} {level} {rank:.1}"))
        .collect();
    in_article.sort();
    ours.sort();
    let mut faults = differences(ours, in_article);

    let sets = rows
        .iter()
        .filter(|row| row.len() == 7 && row[2].parse::<u8>().is_ok());
    let in_article = sets.map(|row| row.join(" ")).collect();
    let of = |best: fn(&basebackup::PublishedSet) -> basebackup::PublishedBackup| {
        basebackup::PUBLISHED_SETS.iter().map(move |set| {
            let backup = best(set);
            format!(
                "{} ({}GB) {} {} {:.1} {:.1} {} {}",
                set.name,
                set.gigabytes,
                backup.method,
                backup.level,
                backup.seconds,
                set.average_seconds,
                backup.size,
                set.average_size
            )
        })
    };
    let ours = of(|set| set.fastest).chain(of(|set| set.smallest));
    faults.extend(differences(ours.collect(), in_article));
    // The date is of the page, not of the text.
    let known = ["2024", "03", "27"];
    faults.extend(unknown_numbers(basebackup::SOURCE, article, &known));
    faults
}
