//! Which streams are mixed: where time is short, those that gain most for their bytes.

use super::Shape;

/// Time that may be spent, in units of about a nanosecond.
const BUDGET: u64 = 4_000_000_000;
/// What a byte costs that is guessed, and one that zstd could not do without.
const GUESSED_COST: u64 = 60;
const PACKED_COST: u64 = 1000;

/// The choice for streams that take `packed` bytes each as zstd packs them.
pub fn choose(shapes: &[Shape], packed: &[usize]) -> Vec<bool> {
    let cost = |number: usize| {
        let len = shapes.get(number).map_or(0, Shape::len) as u64;
        let packed = packed.get(number).map_or(0, |&packed| packed as u64);
        len * GUESSED_COST + packed * PACKED_COST
    };
    // What is large for zstd gains most for the time: its bytes over the time they take.
    let gain = |number: usize| {
        let packed = packed.get(number).map_or(0, |&packed| packed as u64);
        (packed << 20) / cost(number).max(1)
    };
    let mut order: Vec<usize> = (0..shapes.len()).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(gain(number)));
    let mut mixed = vec![false; shapes.len()];
    let mut spent = 0;
    for number in order {
        let cost = cost(number);
        if spent + cost <= BUDGET
            && let Some(mixed) = mixed.get_mut(number)
        {
            *mixed = true;
            spent += cost;
        }
    }
    mixed
}
