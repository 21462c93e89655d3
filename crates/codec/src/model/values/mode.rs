//! The modes of columns.

/// How the values of a column are coded. The number is part of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The bytes of all values are in one stream.
    #[default]
    Plain = 0,
    /// Each value is coded as its number in a list of the distinct values.
    Dictionary = 1,
    /// Values of frequent lengths have a stream for each length.
    ByLen = 2,
    /// Values are jsonb.
    Json = 3,
    /// Values are integers with the same remainder modulo some number, such as timestamps in
    /// whole seconds.
    Scaled = 4,
    /// Values are texts, split into words.
    Words = 5,
    /// Values are floats that are decimal fractions.
    Decimal = 6,
    /// Values are numerics with the same number of digits behind the point.
    Numeric = 7,
    /// Some values were compressed by the server; those that were are taken apart.
    Compressed = 8,
}

impl Mode {
    /// The mode with this number; `None` if no mode has it.
    pub fn of(number: u8) -> Option<Mode> {
        const ALL: [Mode; 9] = [
            Mode::Plain,
            Mode::Dictionary,
            Mode::ByLen,
            Mode::Json,
            Mode::Scaled,
            Mode::Words,
            Mode::Decimal,
            Mode::Numeric,
            Mode::Compressed,
        ];
        ALL.get(usize::from(number)).copied()
    }
}
