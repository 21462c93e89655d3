//! The kinds of streams: what a stream holds, and the category in which `inspect` counts it.

macro_rules! kinds {
    ($($name:ident = $id:literal, $category:ident, $label:literal;)*) => {
        /// What a stream holds. The number is part of the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum StreamKind {
            $(#[doc = $label] $name = $id,)*
        }

        impl StreamKind {
            /// Every kind, in the order of the format.
            pub const ALL: &[StreamKind] = &[$(StreamKind::$name,)*];

            /// A description of what it holds.
            pub fn label(self) -> &'static str {
                match self { $(StreamKind::$name => $label,)* }
            }

            /// The category in which its bytes are counted.
            pub fn category(self) -> Category {
                match self { $(StreamKind::$name => Category::$category,)* }
            }
        }
    };
}

/// What the bytes of a segment are spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Runs of pages, record kinds, transaction ids, block references.
    RecordHeaders,
    /// Main data and block data of records without a model of their own.
    RecordData,
    /// Heap tuples, from records and images alike.
    HeapTuples,
    /// Index tuples, from records and images alike.
    IndexTuples,
    /// Headers, line pointers and order of page images.
    PageLayout,
    /// Page images that are stored unchanged.
    OtherPages,
    /// Bytes that are not WAL records.
    Verbatim,
}

kinds! {
    Spans = 0, RecordHeaders, "runs of pages";
    Definitions = 1, RecordHeaders, "record kinds and relations";
    XidRank = 2, RecordHeaders, "transaction ids, rank";
    XidNew = 3, RecordHeaders, "transaction ids, new";
    KindRank = 4, RecordHeaders, "record kinds, rank";
    KindId = 5, RecordHeaders, "record kinds, number";
    PrevExplicit = 6, RecordHeaders, "back links that do not follow";
    Origin = 7, RecordHeaders, "replication origins";
    ToplevelXid = 8, RecordHeaders, "top-level transaction ids";
    BlockNumber = 9, RecordHeaders, "block numbers";
    BlockDataLen = 10, RecordHeaders, "lengths of block data";
    MainLen = 11, RecordHeaders, "lengths of main data";
    MainField = 12, RecordData, "fields of main data";
    MainRow = 13, RecordData, "main data";
    BlockDataRow = 14, RecordData, "block data";
    ModelFlag = 15, RecordHeaders, "models that do not apply";
    HeapFlags = 16, HeapTuples, "tuple flags";
    HeapHeader = 17, HeapTuples, "tuple headers";
    HeapBody = 18, HeapTuples, "tuple data";
    HeapPart = 19, HeapTuples, "changed parts of tuples";
    TupleLen = 20, HeapTuples, "tuple lengths";
    IndexTid = 21, IndexTuples, "index tuple targets";
    IndexInfo = 22, IndexTuples, "index tuple flags";
    IndexKey = 23, IndexTuples, "index keys";
    PostingTid = 24, IndexTuples, "posting lists";
    ImageHole = 25, PageLayout, "holes of images";
    ImageClass = 26, PageLayout, "classes of images";
    PageField = 27, PageLayout, "page headers";
    PageSpecial = 28, PageLayout, "special space";
    LinePointer = 29, PageLayout, "line pointers";
    ItemOrder = 30, PageLayout, "order of items";
    ItemPadding = 31, PageLayout, "padding of items";
    ItemBody = 32, OtherPages, "items of other pages";
    RawPage = 33, OtherPages, "pages";
    RawImage = 34, OtherPages, "compressed images";
    Fragment = 35, Verbatim, "records of which a part is elsewhere";
    Other = 36, Verbatim, "bytes that are no records";
    PostingOffset = 37, IndexTuples, "posting lists, offsets";
    Offsets = 38, RecordData, "line pointer numbers";
    HeapSchema = 39, HeapTuples, "attributes and how they are coded";
    NullBitmap = 40, HeapTuples, "null bitmaps";
    Value = 41, HeapTuples, "values";
    ValueHeader = 42, HeapTuples, "lengths of values";
    Text = 43, HeapTuples, "texts";
    DictionaryValue = 44, HeapTuples, "different values";
    ValueNumber = 45, HeapTuples, "numbers of values";
    HeapModelFlag = 46, HeapTuples, "tuples that the attributes do not fit";
    IndexRow = 47, IndexTuples, "rows that index tuples are for";
    RecipeRank = 48, IndexTuples, "how keys are made of rows";
    RecipeDefinition = 49, IndexTuples, "recipes of keys";
    JsonShape = 50, HeapTuples, "jsonb, sets of keys";
    JsonEntry = 51, HeapTuples, "jsonb, types and lengths";
    JsonNumber = 52, HeapTuples, "jsonb, numbers";
    BlockRank = 53, RecordHeaders, "block numbers, rank";
    TidRun = 54, IndexTuples, "runs of index tuple targets";
    KeySkip = 55, IndexTuples, "keys that are left out";
    WordRun = 56, HeapTuples, "words that are foreseen";
    WordSymbol = 57, HeapTuples, "words";
    WordLen = 58, HeapTuples, "lengths of new words";
    WordText = 59, HeapTuples, "new words";
    Digits = 60, HeapTuples, "digits in texts";
    Extents = 61, RecordHeaders, "extents of a chunk";
    PageForm = 62, PageLayout, "forms of pages";
    FileBytes = 63, Verbatim, "bytes that are no pages";
    StaleRun = 64, OtherPages, "stale bytes, copies";
    StaleByte = 65, OtherPages, "stale bytes";
    DifferenceForm = 66, PageLayout, "changed blocks, forms";
    DifferenceField = 67, PageLayout, "changed blocks, page headers";
    DifferenceRun = 68, OtherPages, "changed blocks, copies";
    DifferenceReplaced = 69, OtherPages, "changed blocks, replaced bytes";
    DifferenceByte = 70, OtherPages, "changed blocks, new bytes";
    ForetoldMark = 71, RecordHeaders, "images that replay foretells";
    ForetoldForm = 72, RecordHeaders, "images that replay foretells, forms";
    EntryStart = 73, IndexTuples, "entries of rows, where a page begins";
    EntryStep = 74, IndexTuples, "entries of rows";
    EntryCount = 75, IndexTuples, "entries of rows, posting lists";
}

impl StreamKind {
    /// The kind with this number in the format.
    pub fn from_id(id: u8) -> Option<StreamKind> {
        StreamKind::ALL.get(usize::from(id)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_table() {
        for (number, kind) in StreamKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
    }
}
