//! Small objects that are read several at a time: a store on another host takes as long to answer for one
//! as for all of them. WAL is not small: a segment may have 1 GB.

use futures::stream::{self, StreamExt};

const AT_ONCE: usize = 8;

/// What `read` makes of each item, in their order.
pub(crate) async fn read_each<T, R, F: Future<Output = R>>(
    items: impl IntoIterator<Item = T>,
    read: impl FnMut(T) -> F,
) -> Vec<R> {
    let reading = stream::iter(items.into_iter().map(read));
    reading.buffered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn several_are_read_at_a_time_and_come_in_their_order() {
        let (reading, most) = (Cell::new(0), Cell::new(0));
        let read = async |number: usize| {
            reading.set(reading.get() + 1);
            most.set(reading.get().max(most.get()));
            // The later one is begun, the sooner it is done.
            for _ in 0..100 - number {
                tokio::task::yield_now().await;
            }
            reading.set(reading.get() - 1);
            number
        };
        let read = read_each(0..20, read).await;
        assert_eq!(read, (0..20).collect::<Vec<_>>());
        assert_eq!(most.get(), AT_ONCE);
    }
}
