//! What two pieces of pages have in common.

/// Bytes at the front that are alike.
pub fn common(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words);
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}
