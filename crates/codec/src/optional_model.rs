//! The models that a segment can do without: each stands for bytes that it saves.
//!
//! Every one can be left out by the encoder, because the format can say of each value, page
//! or relation that a model does not apply. So what a model earns can be measured: see
//! [`crate::encode_without`].

macro_rules! models {
    ($($name:ident, $label:literal;)*) => {
        /// A model that can be left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OptionalModel {
            $(#[doc = $label] $name,)*
        }

        impl OptionalModel {
            /// All of them.
            pub const ALL: &[OptionalModel] = &[$(OptionalModel::$name,)*];

            /// It is for segments that are told from those before them.
            pub fn needs_history(self) -> bool {
                matches!(
                    self,
                    OptionalModel::ForetoldImages
                        | OptionalModel::SplitData
                        | OptionalModel::GinEntries
                        | OptionalModel::Pruning
                        | OptionalModel::LeafBlocks
                        | OptionalModel::LeafKeys
                        | OptionalModel::WholeRows
                )
            }

            /// What it does, in words.
            pub fn label(self) -> &'static str {
                match self { $(OptionalModel::$name => $label,)* }
            }
        }
    };
}

/// A set of models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSet(u32);

impl ModelSet {
    /// The same and one more.
    pub const fn with(self, model: OptionalModel) -> ModelSet {
        ModelSet(self.0 | 1 << model as u32)
    }

    /// The same and all of others.
    pub const fn and(self, others: ModelSet) -> ModelSet {
        ModelSet(self.0 | others.0)
    }

    /// Whether a model is among them.
    pub const fn has(self, model: OptionalModel) -> bool {
        self.0 & 1 << model as u32 != 0
    }
}

models! {
    BlockData, "fields of block data by record type";
    Pages, "items of page images";
    RecreatedImages, "images that the server compressed";
    Gin, "GIN entries and posting lists";
    Attributes, "heap tuples as attributes";
    Dictionaries, "different values of an attribute";
    Scales, "integers with a divisor";
    ValueForms, "decimal fractions, numerics and uuids by their form";
    Words, "texts as words and digits";
    Jsonb, "jsonb by its keys";
    CompressedValues, "values that the server compressed";
    RowVersions, "new versions of rows made of the old ones";
    RecentBlocks, "blocks referred to before";
    TidRuns, "targets in the order of the rows";
    NewRows, "index entries of new rows";
    Recipes, "index keys made of rows";
    ExtractedKeys, "GIN keys taken out of rows";
    Layouts, "planes and differences";
    Bins, "numbers in bins";
    ForetoldImages, "images foretold by replay";
    SplitData, "items of a new right page taken from the left one";
    GinEntries, "GIN entries taken from the ones that they replace";
    Pruning, "line pointers that pruning changes";
    LeafBlocks, "blocks of leaf pages found by the key";
    LeafKeys, "keys on leaf pages made of rows that are known";
    WholeRows, "entries of updated rows made of all of the row";
}
