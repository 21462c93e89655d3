//! Lists with what was used last in front.

/// Moves an element to the front, and those before it back by one; returns it, or `None` where
/// there is none.
#[inline]
pub fn to_front<T: Copy>(list: &mut [T], place: usize) -> Option<T> {
    let element = *list.get(place)?;
    if place > 0 {
        list.copy_within(..place, 1);
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
