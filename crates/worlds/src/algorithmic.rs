//! Synthetic supervised tasks: a sequence to read, and an answer to give. Their batches have targets.

mod copy;
mod nth_farthest;
mod programs;

pub use self::copy::{CopyBatch, CopyTask};
pub use self::nth_farthest::{NthFarthest, NthFarthestBatch};
pub use self::programs::{
    Alphabet, Correct, Curriculum, Hardness, ProgramBatch, ProgramKind, Programs, evaluate_program,
};
