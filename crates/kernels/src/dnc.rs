//! The memory of a Differentiable Neural Computer: one step of write and read, fused.
//!
//! This is the fast path for the equations in `dnc.rs` of `mnemora-memory`. Every backend can run those, and the
//! kernel is tested against them there.

use burn::tensor::Tensor;

/// Keeps the logarithm of usage finite.
pub const USAGE_FLOOR: f64 = 1e-6;

/// A memory and its bookkeeping.
#[derive(Clone, Debug)]
pub struct DncMemory {
    /// `M_t`, `[batch, slots, width]`.
    pub rows: Tensor<3>,
    /// `u_t`, `[batch, slots]`.
    pub usage: Tensor<2>,
    /// `p_t`, `[batch, slots]`.
    pub precedence: Tensor<2>,
    /// `L_t`, `[batch, slots, slots]`; `L[i, j]` is the degree to which `i` was written right after `j`.
    pub links: Tensor<3>,
    /// `w^r_t`, `[batch, reads, slots]`.
    pub read_weights: Tensor<3>,
    /// `w^w_t`, `[batch, slots]`.
    pub write_weights: Tensor<2>,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub struct DncStep {
    /// The memory after the step.
    pub memory: DncMemory,
    /// `a_t`, `[batch, slots]`.
    pub allocation: Tensor<2>,
    /// `r_t`, `[batch, reads * width]`.
    pub read_vectors: Tensor<2>,
}

/// Width of the interface of a memory: for each head a read key, a read strength, a free gate and three read
/// modes; a write key, a write strength, an erase vector, a write vector, an allocation gate and a write gate.
pub fn interface_size(reads: usize, width: usize) -> usize {
    (reads + 3) * width + 5 * reads + 3
}

/// One step of write and read by the fused kernel; `None` if the device has none or [kernels are
/// off](crate::kernels_enabled).
///
/// `interface`, `[batch, interface_size]`, is the controller's output before activations: read keys, read
/// strengths, write key, write strength, erase vector, write vector, free gates, allocation gate, write gate,
/// read modes (backward, content, forward for each head). No gradient passes through the previous write weights
/// or through the order of the slots by usage.
///
/// Graves et al. 2016, Methods.
///
/// # Panics
/// If shapes do not fit.
pub fn fused_step(interface: &Tensor<2>, memory: &DncMemory) -> Option<DncStep> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&memory.rows.device()) {
        let memory = memory.clone();
        let outputs = crate::flex::dnc_step(
            interface.clone(),
            memory.rows,
            memory.usage,
            memory.precedence,
            memory.links,
            memory.read_weights,
            memory.write_weights,
        );
        let (rows, usage, precedence, links, read_weights, write_weights, allocation, read_vectors) =
            outputs;
        return Some(DncStep {
            memory: DncMemory {
                rows,
                usage,
                precedence,
                links,
                read_weights,
                write_weights,
            },
            allocation,
            read_vectors,
        });
    }
    #[cfg(not(feature = "flex"))]
    let _ = (interface, memory);
    None
}
