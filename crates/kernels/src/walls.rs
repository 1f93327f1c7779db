//! A walk with walls: all steps of a state-space model whose steps a small network shortens, fused.
//!
//! This is the fast path for equation 4 of Fraccaro et al. 2018 (gtm-sm), which `gtm_sm/transition.rs` of
//! `mnemora-models` states step by step. Every backend can run that, and the kernel is tested against it there.

use burn::tensor::Tensor;

/// `g`, which says what share of a step a wall leaves: two layers with ReLU and a sigmoid.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Weights of the first layer, `[place, hidden]`, and its biases, `[hidden]`.
    pub first: (Tensor<2>, Tensor<1>),
    /// Weights of the second layer, `[hidden, hidden]`, and its biases, `[hidden]`.
    pub second: (Tensor<2>, Tensor<1>),
    /// Weights of the output, `[hidden, 1]`, and its bias, `[1]`.
    pub output: (Tensor<2>, Tensor<1>),
}

/// The places `s_t` and displacements `d_t` of all steps by the fused kernel, both `[time * batch, place]`; `None` if
/// the device has none or [kernels are off](crate::kernels_enabled).
///
/// `d_t = p_t g(s_{t-1} + p_t)` and `s_t = s_{t-1} + d_t + e_t`, from the first places `start`, `[batch, place]`, with
/// `pushes`, `p`, and `noise`, `e`, both `[time * batch, place]`. No gradient flows to the noise.
///
/// # Panics
/// If shapes do not fit.
pub fn fused_walk(
    pushes: &Tensor<2>,
    noise: &Tensor<2>,
    start: &Tensor<2>,
    gate: &Gate,
) -> Option<[Tensor<2>; 2]> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&pushes.device()) {
        let Gate {
            first,
            second,
            output,
        } = gate.clone();
        let (places, displacements) = crate::flex::walk(
            pushes.clone(),
            noise.clone(),
            start.clone(),
            first.0,
            first.1,
            second.0,
            second.1,
            output.0,
            output.1,
        );
        return Some([places, displacements]);
    }
    #[cfg(not(feature = "flex"))]
    let _ = (pushes, noise, start, gate);
    None
}
