//! What people type: words by their frequency, names, places.

use crate::random::Random;

/// The frequent ones first.
const WORDS: &[&str] = &[
    "the",
    "and",
    "to",
    "of",
    "a",
    "in",
    "is",
    "for",
    "it",
    "with",
    "that",
    "on",
    "this",
    "was",
    "are",
    "as",
    "very",
    "but",
    "not",
    "have",
    "we",
    "my",
    "they",
    "from",
    "at",
    "good",
    "great",
    "so",
    "like",
    "one",
    "well",
    "would",
    "product",
    "quality",
    "when",
    "just",
    "after",
    "use",
    "really",
    "price",
    "time",
    "easy",
    "small",
    "light",
    "little",
    "order",
    "arrived",
    "delivery",
    "fits",
    "perfect",
    "recommend",
    "bought",
    "colour",
    "size",
    "works",
    "expected",
    "again",
    "better",
    "than",
    "first",
    "week",
    "months",
    "year",
    "package",
    "box",
    "looks",
    "soft",
    "strong",
    "steel",
    "wood",
    "cotton",
    "black",
    "blue",
    "green",
    "white",
    "handle",
    "cover",
    "battery",
    "cable",
    "charger",
    "screen",
    "kitchen",
    "garden",
    "outdoor",
    "table",
    "lamp",
    "bag",
    "shoes",
    "jacket",
    "water",
    "cold",
    "warm",
    "summer",
    "winter",
    "children",
    "gift",
    "replacement",
    "broken",
    "returned",
    "service",
    "customer",
    "support",
    "answered",
    "quickly",
    "slow",
    "late",
    "early",
    "missing",
    "part",
    "instructions",
    "assembly",
    "screws",
    "minutes",
    "comfortable",
    "durable",
    "cheap",
    "expensive",
    "worth",
    "money",
    "disappointed",
    "happy",
    "surprised",
    "satisfied",
    "definitely",
    "another",
    "friend",
    "family",
    "weekend",
    "travel",
    "compact",
    "heavy",
    "portable",
    "design",
    "finish",
    "scratched",
    "polished",
    "adjustable",
    "wireless",
    "rechargeable",
    "waterproof",
    "stainless",
    "ceramic",
    "bamboo",
    "recycled",
    "warranty",
    "manufacturer",
    "seller",
    "review",
    "stars",
    "rating",
    "description",
    "photograph",
    "accurate",
    "inaccurate",
    "measurement",
    "temperature",
    "pressure",
    "extraordinary",
];

const GIVEN_NAMES: &[&str] = &[
    "Anna", "Bjorn", "Carlos", "Dilek", "Elena", "Farid", "Grace", "Hiro", "Ines", "Jamal",
    "Katya", "Liam", "Mei", "Noah", "Olga", "Priya", "Quentin", "Rosa", "Samir", "Tara", "Uwe",
    "Vera", "William", "Xenia", "Yusuf", "Zoe", "Amara", "Benoit", "Chloe", "Dmitri", "Emma",
    "Felix",
];

const FAMILY_NAMES: &[&str] = &[
    "Smith",
    "Garcia",
    "Mueller",
    "Nguyen",
    "Kim",
    "Rossi",
    "Silva",
    "Ivanov",
    "Kowalski",
    "Sato",
    "Andersson",
    "Dubois",
    "Yilmaz",
    "Okafor",
    "Patel",
    "Johnson",
    "Wang",
    "Hernandez",
    "Brown",
    "Novak",
    "Jensen",
    "Haddad",
    "Mbeki",
    "Tanaka",
    "Fernandez",
    "Taylor",
    "Schmidt",
    "Moreau",
];

const CITIES: &[&str] = &[
    "Vienna", "Lagos", "Lima", "Osaka", "Porto", "Quito", "Riga", "Seoul", "Tunis", "Utrecht",
    "Vilnius", "Warsaw", "Zagreb", "Bergen", "Chennai", "Denver", "Esbjerg", "Fukuoka", "Ghent",
];

/// So many words, the frequent ones often.
pub(super) fn phrase(random: &mut Random, words: u64) -> String {
    let mut text = String::new();
    for number in 0..words {
        if number > 0 {
            text.push(' ');
        }
        let word = random.skewed(WORDS.len() as u64) as usize;
        text.push_str(WORDS.get(word).copied().unwrap_or_default());
    }
    text
}

/// A person's given and family name.
pub(super) fn name(random: &mut Random) -> (&'static str, &'static str) {
    (random.pick(GIVEN_NAMES), random.pick(FAMILY_NAMES))
}

/// A town.
pub(super) fn city(random: &mut Random) -> &'static str {
    random.pick(CITIES)
}

/// The statement that makes `phrase(seed, words)` in the server, for transactions.
pub(super) fn create_function() -> String {
    let words: Vec<String> = WORDS.iter().map(|word| format!("'{word}'")).collect();
    format!(
        "CREATE FUNCTION phrase(seed bigint, words int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
           SELECT string_agg((ARRAY[{}])[1 + floor({} * power(
             (hashint8extended(n, seed) & 2147483647) / 2147483648.0::float8, 3))::int], ' ')
           FROM generate_series(1, words) n $$;\n",
        words.join(","),
        WORDS.len()
    )
}
