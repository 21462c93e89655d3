//! Lists in the order of last use, the most recent element first.

/// Elements up to this index are moved one by one.
const NEAR: usize = 8;

/// Moves the element at `index` to the front and the elements before it back by one. Returns the
/// element, or `None` if `index` is out of bounds.
#[inline]
pub fn to_front<T: Copy>(list: &mut [T], index: usize) -> Option<T> {
    let element = *list.get(index)?;
    match index {
        // Most are near the front, where a loop is over before a function is called.
        0..NEAR => {
            let mut before = element;
            for slot in list.iter_mut().take(index + 1) {
                before = std::mem::replace(slot, before);
            }
        }
        _ => {
            list.copy_within(..index, 1);
            *list.first_mut()? = element;
        }
    }
    Some(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_of_the_others() {
        let mut long: Vec<usize> = (0..20).collect();
        assert_eq!(to_front(&mut long, 12), Some(12));
        assert_eq!(long[..4], [12, 0, 1, 2]);
        assert_eq!(long[12..], [11, 13, 14, 15, 16, 17, 18, 19]);
        let mut list = [1, 2, 3, 4];
        assert_eq!(to_front(&mut list, 2), Some(3));
        assert_eq!(list, [3, 1, 2, 4]);
        assert_eq!(to_front(&mut list, 0), Some(3));
        assert_eq!(to_front(&mut list, 4), None);
        assert_eq!(list, [3, 1, 2, 4]);
    }
}
