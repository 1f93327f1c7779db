//! The elementwise part of an LSTM step as an operation of its own, for gates that come from convolutions.

use super::lstm;
use crate::flex::{Raw, contiguous, graph::fused::Fused, raw, slice};

/// See [`crate::lstm::lstm_gates`].
pub(crate) struct LstmGates;

impl Fused<2> for LstmGates {
    type Outputs = [Raw; 2];
    /// The cell before, and the values that the gradient needs.
    type Saved = [Raw; 2];

    fn forward(self, [gates, cell]: [Raw; 2]) -> ([Raw; 2], [Raw; 2]) {
        let (gates, cell) = (contiguous(&gates), contiguous(&cell));
        let [batch, hidden]: [usize; 2] = cell.layout().shape().dims();
        let found: [usize; 2] = gates.layout().shape().dims();
        assert_eq!(found, [batch, 4 * hidden], "shape of the gates");
        let (outputs, saved) = lstm::forward(slice(&gates), &cell);
        (outputs, [cell, saved])
    }

    fn backward(
        [cell, saved]: [Raw; 2],
        outer: [Option<Raw>; 2],
        _: [bool; 2],
    ) -> [Option<Raw>; 2] {
        let [batch, hidden]: [usize; 2] = cell.layout().shape().dims();
        let (gates, before) = lstm::gradients(&cell, &saved, outer);
        [
            Some(raw(gates, [batch, 4 * hidden])),
            Some(raw(before, [batch, hidden])),
        ]
    }
}
