//! A first-in-first-out store.

use burn::tensor::Tensor;

/// Appends `row`, `[batch, width]`, to `rows`, `[batch, filled, width]`. If all `slots` are filled, the oldest
/// row is dropped.
pub(crate) fn append(rows: Option<Tensor<3>>, row: Tensor<2>, slots: usize) -> Tensor<3> {
    let row = row.unsqueeze_dim::<3>(1);
    let Some(rows) = rows else { return row };
    let filled = rows.dims()[1];
    let kept = match filled < slots {
        true => rows,
        false if slots == 1 => return row,
        false => rows.narrow(1, 1, filled - 1),
    };
    Tensor::cat(vec![kept, row], 1)
}

/// Number of filled slots, averaged over the steps of a sequence.
pub(crate) fn mean_filled(slots: usize, time: usize) -> usize {
    match time <= slots {
        true => time.div_ceil(2),
        // All slots are filled except during the first steps.
        false => slots - slots * (slots / 2) / time,
    }
}
