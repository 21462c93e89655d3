//! The modes of columns.

/// How the values of a column are coded. The number is part of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Values have one length, or their bytes stand in one stream.
    #[default]
    Plain = 0,
    /// Values are numbers in a list of different values.
    Dictionary = 1,
    /// Values of each length have a stream of their own.
    ByLen = 2,
    /// Values are jsonb.
    Json = 3,
    /// Values are integers that are alike modulo some number, such as times in whole seconds.
    Scaled = 4,
    /// Values are texts, in words.
    Words = 5,
}

impl Mode {
    /// The mode of a number; `None` for what no encoder writes.
    pub fn of(number: u8) -> Option<Mode> {
        const ALL: [Mode; 6] = [
            Mode::Plain,
            Mode::Dictionary,
            Mode::ByLen,
            Mode::Json,
            Mode::Scaled,
            Mode::Words,
        ];
        ALL.get(usize::from(number)).copied()
    }
}
