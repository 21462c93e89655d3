//! Little-endian integers out of slices that may be too short.

macro_rules! reader {
    ($name:ident, $type:ty) => {
        #[doc = concat!("The little-endian `", stringify!($type), "` at `at`.")]
        #[inline]
        pub fn $name(bytes: &[u8], at: usize) -> Option<$type> {
            let end = at.checked_add(size_of::<$type>())?;
            Some(<$type>::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
        }
    };
}

reader!(read_u16, u16);
reader!(read_u32, u32);
reader!(read_u64, u64);
