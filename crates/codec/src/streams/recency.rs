//! Lists in the order of last use, the most recent element first.

/// Moves the element at `index` to the front and the elements before it back by one. Returns the
/// element, or `None` if `index` is out of bounds.
#[inline]
pub fn to_front<T: Copy>(list: &mut [T], index: usize) -> Option<T> {
    let element = *list.get(index)?;
    if index > 0 {
        list.copy_within(..index, 1);
        *list.first_mut()? = element;
    }
    Some(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_of_the_others() {
        let mut list = [1, 2, 3, 4];
        assert_eq!(to_front(&mut list, 2), Some(3));
        assert_eq!(list, [3, 1, 2, 4]);
        assert_eq!(to_front(&mut list, 0), Some(3));
        assert_eq!(to_front(&mut list, 4), None);
        assert_eq!(list, [3, 1, 2, 4]);
    }
}
