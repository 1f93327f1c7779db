//! Room for numbers in between, which each thread keeps.

use std::cell::RefCell;

thread_local! {
    /// Rooms that are not in use, the one of the outermost work first.
    static ROOMS: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Passes parts of given sizes to `work`. What they hold is left from earlier uses.
pub(crate) fn with_room<const N: usize, T>(
    sizes: [usize; N],
    work: impl FnOnce([&mut [f32]; N]) -> T,
) -> T {
    let mut room = ROOMS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let count = sizes.iter().sum();
    if room.len() < count {
        room.resize(count, 0.0);
    }
    let mut rest = &mut room[..];
    let parts = sizes.map(|size| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(size);
        rest = after;
        part
    });
    let made = work(parts);
    ROOMS.with_borrow_mut(|rooms| rooms.push(room));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_inside_of_work_has_a_room_of_its_own() {
        for count in [3, 1, 7] {
            let sum = with_room([count, 2], |[a, b]| {
                assert_eq!([a.len(), b.len()], [count, 2]);
                a.fill(1.0);
                b.fill(10.0);
                with_room([20], |[c]| c.fill(100.0));
                a.iter().chain(&*b).sum::<f32>()
            });
            assert_eq!(sum, count as f32 + 20.0);
        }
    }
}
