//! Documents: rows under an index of every type, GIN, GiST, SP-GiST, hash and BRIN.

use std::fmt::Write;

use super::Script;
use super::loader::Loader;
use crate::error::Error;
use crate::random::Random;

/// Documents for each unit of scale.
const DOCUMENTS: u64 = 14_000;
/// Tags that there are, and tags of a document.
const TAGS: u64 = 3_000;
const TAGS_EACH: u64 = 4;
/// Words that there are, and words of a document.
const WORDS: u64 = 20_000;
const WORDS_EACH: u64 = 16;
/// The side of the square on which documents have their places.
const SIDE: u64 = 100_000;

const TABLE: &str = "
CREATE TABLE documents (
    id bigint PRIMARY KEY, tags int[] NOT NULL, words tsvector NOT NULL, place point NOT NULL,
    valid int4range NOT NULL, code text NOT NULL, source uuid NOT NULL, created timestamptz NOT NULL,
    reads int NOT NULL DEFAULT 0);
";

const INDEXES: &str = "
CREATE INDEX ON documents USING gin (tags) WITH (fastupdate = off);
CREATE INDEX ON documents USING gin (words);
CREATE INDEX ON documents USING gist (place);
CREATE INDEX ON documents USING gist (valid);
CREATE INDEX ON documents USING spgist (code);
CREATE INDEX ON documents USING hash (source);
CREATE INDEX ON documents USING brin (created) WITH (autosummarize = on);
VACUUM ANALYZE documents;
";

/// Makes and fills the table.
pub(super) fn load(loader: &mut Loader<'_>, scale: u64, seed: u64) -> Result<(), Error> {
    let documents = DOCUMENTS * scale;
    loader.sql(TABLE)?;
    let mut random = Random::new(seed, 41);
    loader.copy("documents (id, tags, words, place, valid, code, source, created)", documents, u64::MAX, |number, row| {
        let list = |random: &mut Random, limit, count, before: &str, between| {
            let each = (0..count).map(|_| format!("{before}{}", random.skewed(limit)));
            each.collect::<Vec<_>>().join(between)
        };
        let tags = list(&mut random, TAGS, TAGS_EACH, "", ",");
        let words = list(&mut random, WORDS, WORDS_EACH, "w", " ");
        let (x, y, start) = (random.below(SIDE), random.below(SIDE), random.below(1_000_000));
        let (code, source) = (random.below(1 << 40), random.uuid());
        let created = super::timestamp(number * 60, 0);
        let _ = write!(
            row,
            "{number}\t{{{tags}}}\t{words}\t({x},{y})\t[{start},{})\t{:010x}\t{source}\t{created}",
            start + 1 + random.below(90),
            code
        );
    })?;
    loader.sql(&format!(
        "CREATE SEQUENCE numbers MINVALUE 0 START {documents}"
    ))?;
    loader.sql(INDEXES)
}

/// What clients do: new documents, reads that are counted, places and tags that change, old ones that go.
pub(super) fn scripts(scale: u64) -> [Script; 4] {
    let documents = DOCUMENTS * scale;
    let each = |what: &str, limit, count| {
        format!(
            "SELECT {what}((hashint8extended(n, :seed) & 1048575)^2 * {limit} / 1099511627776)::int FROM generate_series(1, {count}) n"
        )
    };
    let tags = each("", TAGS, TAGS_EACH);
    let words = each("'w' || ", WORDS, WORDS_EACH);
    let one = format!(
        "\\set id random(0, {})\n\\set seed random(1, 1000000000)\n",
        documents - 1
    );
    let place = "point(hashint4(:seed) & 65535, hashint4(:seed + 1) & 65535)";
    let script = |name, weight, text| Script { name, weight, text };
    [
        script("add", 4, format!("{one}INSERT INTO documents (id, tags, words, place, valid, code, source, created)
    SELECT n, ARRAY({tags}), (SELECT string_agg(word, ' ')::tsvector FROM ({words}) AS w (word)), {place},
        int4range(:seed % 1000000, :seed % 1000000 + 50), md5(n::text), md5(:seed::text)::uuid,
        '2025-01-01 00:00+00'::timestamptz + n * interval '1 min' FROM nextval('numbers') n;\n")),
        script("read", 4, format!("{one}UPDATE documents SET reads = reads + 1 WHERE id = :id;\n")),
        script("change", 2, format!("{one}UPDATE documents SET tags = ARRAY({tags}), place = {place} WHERE id = :id;\n")),
        script("remove", 1, format!("{one}DELETE FROM documents WHERE id = :id;\n")),
    ]
}
