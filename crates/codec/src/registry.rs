//! The models that a segment can do without: each stands for bytes that it saves.
//!
//! Every one can be left out by the encoder, because the format can say of each value, page
//! or relation that a model does not apply. So what a model earns can be measured: see
//! [`crate::encoded_len_without`].

macro_rules! models {
    ($($name:ident, $label:literal, $section:literal;)*) => {
        /// A model that can be left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OptionalModel {
            $(#[doc = $label] $name,)*
        }

        impl OptionalModel {
            /// All of them.
            pub const ALL: &[OptionalModel] = &[$(OptionalModel::$name,)*];

            /// What it does, in words.
            pub fn label(self) -> &'static str {
                match self { $(OptionalModel::$name => $label,)* }
            }

            /// The section of docs/format/model.md (for layouts: streams.md) that specifies it.
            pub fn section(self) -> &'static str {
                match self { $(OptionalModel::$name => $section,)* }
            }
        }
    };
}

models! {
    BlockData, "fields of block data by record type", "Block data";
    Pages, "items of page images", "Pages";
    SeenThrough, "images that the server compressed", "Images";
    Gin, "GIN entries and posting lists", "GIN";
    Attributes, "heap tuples as attributes", "Heap tuples";
    Dictionaries, "different values of an attribute", "Heap tuples";
    Scales, "integers with a divisor", "Heap tuples";
    Jsonb, "jsonb by its keys", "jsonb";
    NewRows, "index entries of new rows", "New index tuples";
    Recipes, "index keys made of rows", "New index tuples";
    Layouts, "planes and differences", "Layouts";
}
