//! What two pieces of pages have in common.

/// Bytes at the front that are alike.
pub fn common(a: &[u8], b: &[u8]) -> usize {
    let long = common_parts::<32>(a, b);
    let words = long + common_parts::<8>(&a[long..], &b[long..]);
    words + common_parts::<1>(&a[words..], &b[words..])
}

/// The same in whole parts of `LEN` bytes.
fn common_parts<const LEN: usize>(a: &[u8], b: &[u8]) -> usize {
    let (a, b) = (a.as_chunks::<LEN>().0, b.as_chunks::<LEN>().0);
    let parts = a.iter().zip(b);
    parts.take_while(|(a, b)| a == b).count() * LEN
}
