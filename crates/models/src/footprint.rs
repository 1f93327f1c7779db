//! How much memory learning takes, told from a model's sizes: what the graph of an update keeps until its backward
//! pass. An estimate, since it leaves out small intermediate results and counts large ones.

use mnemora_memory::Count;

/// Numbers that learning from one sequence keeps for each of its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// By the calls before and after the time loop, which see all steps at once.
    pub outside: Count,
    /// By the graph of the time loop, mean over the steps.
    pub inside: Count,
    /// Without a graph: what the calls over all steps give each other.
    pub passing: Count,
    /// By decoder and likelihood, a part of `outside`. Where beliefs are improved by gradients these run once
    /// more for one step at a time.
    pub decoder: Count,
}

impl Footprint {
    /// Of a model whose decoder never runs within the time loop. Without a graph, half of what the calls outside of it
    /// keep exists at a time.
    pub fn of(outside: Count, inside: Count) -> Self {
        Self {
            outside,
            inside,
            passing: outside.divided_by(2),
            decoder: Count::NONE,
        }
    }

    /// Numbers that learning from a sequence of `time` steps keeps, `segment` of them in the time loop's graph at
    /// a time, 0 for all. A segment has a state at its start, which counts as a step.
    pub fn learning(&self, time: usize, segment: usize) -> Count {
        let inside = match segment {
            0 => time,
            segment => segment.min(time) + time.div_ceil(segment),
        };
        // Going backward, a step has its gradients beside it.
        self.outside * time + self.inside * (inside + 1)
    }

    /// Numbers that a sequence of `time` steps takes without any graph; the weights of the heads at each step are
    /// kept for looking at.
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
