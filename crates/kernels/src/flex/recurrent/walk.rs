//! A walk with walls. The network is so small that single operations on its tensors would take far longer than
//! their arithmetic, so each direction is one loop over steps and sequences. It runs on one thread.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{
        Loop,
        lanes::{add_scaled, dot},
        math, run,
    },
    slice,
};

/// See [`crate::walls::fused_walk`].
pub(crate) struct Walk;

/// Pushes, noise, start; weights and biases of the two layers and of the output.
type Inputs<T> = [T; 9];

#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: usize,
    batch: usize,
    place: usize,
    hidden: usize,
}

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    sizes: Sizes,
    inputs: Inputs<Raw>,
    places: Raw,
    /// Results of the two layers, `[rows, hidden]`.
    layers: [Raw; 2],
    /// `g`, `[rows]`.
    shares: Raw,
}

fn sizes(inputs: &Inputs<Raw>) -> Sizes {
    let [pushes, noise, start, w1, b1, w2, b2, w3, b3] = inputs;
    let [rows, place] = pushes.layout().shape().dims();
    let [batch, _] = start.layout().shape().dims();
    let [hidden] = b1.layout().shape().dims();
    assert!(
        batch > 0 && rows.is_multiple_of(batch),
        "the number of rows must be a multiple of the batch"
    );
    let matrices = [noise, start, w1, w2, w3].map(|matrix| matrix.layout().shape().dims());
    let expected = [
        [rows, place],
        [batch, place],
        [place, hidden],
        [hidden, hidden],
        [hidden, 1],
    ];
    assert_eq!(matrices, expected, "shapes of a walk");
    let biases = [b2, b3].map(|bias| bias.layout().shape().dims());
    assert_eq!(biases, [[hidden], [1]], "shapes of the biases");
    Sizes {
        rows,
        batch,
        place,
        hidden,
    }
}

struct Forward<'a> {
    sizes: Sizes,
    inputs: Inputs<&'a [f32]>,
    places: &'a mut [f32],
    displacements: &'a mut [f32],
    layers: [&'a mut [f32]; 2],
    shares: &'a mut [f32],
}

/// `x`, or 0 if it is negative.
#[inline(always)]
fn relu(x: &mut [f32]) {
    for x in x {
        *x = if *x < 0.0 { 0.0 } else { *x };
    }
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes {
            rows,
            batch,
            place,
            hidden,
        } = self.sizes;
        let [pushes, noise, start, w1, b1, w2, b2, w3, b3] = self.inputs;
        let [first, second] = self.layers;
        for row in 0..rows {
            let (past, rest) = self.places.split_at_mut(row * place);
            let before = match row.checked_sub(batch) {
                None => &start[row * place..][..place],
                Some(before) => &past[before * place..][..place],
            };
            let push = &pushes[row * place..][..place];
            let first = &mut first[row * hidden..][..hidden];
            first.copy_from_slice(b1);
            for (i, weights) in w1.chunks_exact(hidden).enumerate() {
                add_scaled(first, before[i] + push[i], weights);
            }
            relu(first);
            let second = &mut second[row * hidden..][..hidden];
            second.copy_from_slice(b2);
            for (x, weights) in first.iter().zip(w2.chunks_exact(hidden)) {
                add_scaled(second, *x, weights);
            }
            relu(second);
            let share = math::sigmoid(dot(second, w3) + b3[0]);
            self.shares[row] = share;
            for i in 0..place {
                let displacement = push[i] * share;
                self.displacements[row * place + i] = displacement;
                rest[i] = before[i] + displacement + noise[row * place + i];
            }
        }
    }
}

struct Backward<'a> {
    sizes: Sizes,
    inputs: Inputs<&'a [f32]>,
    places: &'a [f32],
    layers: [&'a [f32]; 2],
    shares: &'a [f32],
    /// Gradients of places and displacements.
    outer: [Option<&'a [f32]>; 2],
    /// Gradients of the inputs, at first zero. That of the noise is not computed; that of the start is the gradient
    /// of the place as the loop goes back through the steps.
    gradients: Inputs<&'a mut [f32]>,
}

impl Loop for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sizes {
            rows,
            batch,
            place,
            hidden,
        } = self.sizes;
        let [pushes, _, start, w1, _, w2, _, w3, _] = self.inputs;
        let [
            to_pushes,
            _,
            to_places,
            to_w1,
            to_b1,
            to_w2,
            to_b2,
            to_w3,
            to_b3,
        ] = self.gradients;
        let mut to_second = vec![0.0; hidden];
        let mut to_first = vec![0.0; hidden];
        for row in (0..rows).rev() {
            let before = match row.checked_sub(batch) {
                None => &start[row * place..][..place],
                Some(before) => &self.places[before * place..][..place],
            };
            let push = &pushes[row * place..][..place];
            let to_push = &mut to_pushes[row * place..][..place];
            let to_place = &mut to_places[row % batch * place..][..place];
            let share = self.shares[row];
            let mut to_share = 0.0;
            for i in 0..place {
                if let Some(outer) = self.outer[0] {
                    to_place[i] += outer[row * place + i];
                }
                let displacement = self.outer[1].map_or(0.0, |outer| outer[row * place + i]);
                let to_displacement = to_place[i] + displacement;
                to_share += to_displacement * push[i];
                to_push[i] = to_displacement * share;
            }
            let to_logit = to_share * share * (1.0 - share);
            let first = &self.layers[0][row * hidden..][..hidden];
            let second = &self.layers[1][row * hidden..][..hidden];
            to_b3[0] += to_logit;
            add_scaled(to_w3, to_logit, second);
            for ((to, x), weight) in to_second.iter_mut().zip(second).zip(w3) {
                *to = if *x <= 0.0 { 0.0 } else { to_logit * weight };
            }
            add_scaled(to_b2, 1.0, &to_second);
            let weights = w2.chunks_exact(hidden).zip(to_w2.chunks_exact_mut(hidden));
            for ((to, x), (weights, to_weights)) in to_first.iter_mut().zip(first).zip(weights) {
                add_scaled(to_weights, *x, &to_second);
                let sum = dot(weights, &to_second);
                *to = if *x <= 0.0 { 0.0 } else { sum };
            }
            add_scaled(to_b1, 1.0, &to_first);
            let weights = w1.chunks_exact(hidden).zip(to_w1.chunks_exact_mut(hidden));
            for (i, (weights, to_weights)) in weights.enumerate() {
                add_scaled(to_weights, before[i] + push[i], &to_first);
                let sum = dot(weights, &to_first);
                to_push[i] += sum;
                to_place[i] += sum;
            }
        }
    }
}

impl Fused<9> for Walk {
    /// Places and displacements.
    type Outputs = [Raw; 2];
    type Saved = Saved;

    const DATA: &'static [usize] = &[1];

    fn forward(self, inputs: Inputs<Raw>) -> ([Raw; 2], Saved) {
        let inputs = inputs.each_ref().map(contiguous);
        let sizes = sizes(&inputs);
        let Sizes {
            rows,
            place,
            hidden,
            ..
        } = sizes;
        let mut places = vec![0.0; rows * place];
        let mut displacements = vec![0.0; rows * place];
        let [mut first, mut second] = [(); 2].map(|()| vec![0.0; rows * hidden]);
        let mut shares = vec![0.0; rows];
        run(Forward {
            sizes,
            inputs: inputs.each_ref().map(slice),
            places: &mut places,
            displacements: &mut displacements,
            layers: [&mut first, &mut second],
            shares: &mut shares,
        });
        let places = raw(places, [rows, place]);
        let saved = Saved {
            sizes,
            inputs,
            places: places.clone(),
            layers: [first, second].map(|layer| raw(layer, [rows, hidden])),
            shares: raw(shares, [rows]),
        };
        ([places, raw(displacements, [rows, place])], saved)
    }

    fn backward(saved: Saved, outer: [Option<Raw>; 2], wanted: [bool; 9]) -> [Option<Raw>; 9] {
        let shapes = saved
            .inputs
            .each_ref()
            .map(|input| input.layout().shape().clone());
        let mut gradients = shapes
            .each_ref()
            .map(|shape| vec![0.0; shape.num_elements()]);
        run(Backward {
            sizes: saved.sizes,
            inputs: saved.inputs.each_ref().map(slice),
            places: slice(&saved.places),
            layers: saved.layers.each_ref().map(slice),
            shares: slice(&saved.shares),
            outer: outer.each_ref().map(|outer| outer.as_ref().map(slice)),
            gradients: gradients.each_mut().map(|gradient| &mut gradient[..]),
        });
        let mut index = 0;
        let mut shapes = shapes.into_iter();
        gradients.map(|gradient| {
            let shape = shapes.next().expect("a shape for each gradient");
            index += 1;
            wanted[index - 1].then(|| raw(gradient, shape))
        })
    }
}
