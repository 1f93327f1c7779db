//! How much memory learning needs, estimated from a model's sizes: the numbers that the graph of an update keeps
//! until its backward pass. Large intermediate results are counted, small ones are left out.

use mnemora_memory::Count;

/// How many f32 numbers an update holds in memory for one step of one sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Held by the graph of the calls that see all steps at once: encoder, prior, decoder, likelihood.
    pub outside: Count,
    /// Held by the graph of the time loop, averaged over the steps.
    pub inside: Count,
    /// Held when no graph is built, as in an evaluation: results that wait between the calls over all steps.
    pub passing: Count,
    /// The part of `outside` that decoder and likelihood hold. If beliefs are improved by gradients, these run once
    /// more, one step at a time.
    pub decoder: Count,
}

impl Footprint {
    /// For a model whose decoder never runs within the time loop. Without a graph, half of `outside` exists at a
    /// time.
    pub fn of(outside: Count, inside: Count) -> Self {
        Self {
            outside,
            inside,
            passing: outside.divided_by(2),
            decoder: Count::NONE,
        }
    }

    /// Numbers that learning from a sequence of `time` steps keeps, with `segment` steps in the time loop's graph at
    /// a time, or all if it is 0. The state at the start of a segment counts as a step.
    pub fn learning(&self, time: usize, segment: usize) -> Count {
        let inside = match segment {
            0 => time,
            segment => segment.min(time) + time.div_ceil(segment),
        };
        // During the backward pass, one step also has its gradients.
        self.outside * time + self.inside * (inside + 1)
    }

    /// Numbers that a sequence of `time` steps needs without any graph; the attention weights of each step are
    /// kept for inspection.
    pub fn looking(&self, time: usize) -> Count {
        self.passing * time + (self.inside * time).divided_by(8) + self.inside * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_shorten_the_loop_alone() {
        let of = |outside: usize, inside: usize| Footprint::of(outside.into(), inside.into());
        let whole = of(3, 10).learning(100, 0);
        assert_eq!(whole, Count::from(3 * 100 + 10 * 101));
        let parted = of(3, 10).learning(100, 10);
        assert_eq!(parted, Count::from(3 * 100 + 10 * 21));
        assert_eq!(of(3, 0).learning(100, 10), of(3, 0).learning(100, 0));
        assert!(of(3, 10).looking(100) < whole);
    }
}
