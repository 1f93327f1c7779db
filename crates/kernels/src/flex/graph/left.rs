//! What the uses of a sequence's weights leave for the node of these weights.

use crate::flex::Raw;
use std::sync::{Mutex, PoisonError};

/// Inputs, and gradients of their products, in the order in which the backward pass comes by.
#[derive(Debug, Default)]
pub(crate) struct Left(Mutex<Vec<[Raw; 2]>>);

impl Left {
    pub(crate) fn push(&self, input: Raw, gradient: Raw) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.push([input, gradient]);
    }

    pub(crate) fn take(&self) -> Vec<[Raw; 2]> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
